"""Statuses: the answers of plugins about a pod or a node.

A hook that answers a Status may answer None for Success, so the common path allocates nothing.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec


class Code(IntEnum):
    """Status codes, in kube-scheduler's order and numbering."""

    SUCCESS = 0
    #: Something unexpected failed. No plugin is a rejector: the pod backs off whatever happens in the cluster.
    ERROR = 1
    #: The pod does not fit now; preemption may help.
    UNSCHEDULABLE = 2
    #: The pod does not fit and preempting pods of this node cannot help.
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    #: Permit only: keep the pod reserved until it is allowed or rejected.
    WAIT = 4
    #: `pre_filter`, `pre_score`, `pre_bind_pre_flight`, `bind`: this plugin has nothing to do for this pod.
    SKIP = 5
    #: The decision is made but waits for something external; the event that frees it skips backoff.
    PENDING = 6

    @property
    def title(self) -> str:
        """Spell the code as kube-scheduler does, e.g. `UnschedulableAndUnresolvable`."""
        return _TITLES[self]

    @property
    def is_rejected(self) -> bool:
        """Return whether the code is a rejection, as opposed to an error or a success."""
        return self in REJECTIONS


_TITLES = {code: "".join(word.capitalize() for word in code.name.split("_")) for code in Code}
_TITLES[Code.UNSCHEDULABLE_AND_UNRESOLVABLE] = "UnschedulableAndUnresolvable"
#: The codes that reject: the pod does not fit.
REJECTIONS = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


class Status(msgspec.Struct, frozen=True):
    """A verdict: a code, the reasons in order, and the plugin that gave it (stamped by the engine)."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def message(self) -> str:
        """Join the reasons as kube-scheduler prints them."""
        return ", ".join(self.reasons)

    @property
    def is_rejected(self) -> bool:
        """Return whether this is a rejection: Unschedulable, UnschedulableAndUnresolvable or Pending."""
        return self.code in REJECTIONS

    def with_plugin(self, plugin: str) -> Status:
        """Return this status with the plugin's name on it."""
        return self if self.plugin == plugin else Status(self.code, self.reasons, plugin)


class Wait(msgspec.Struct, frozen=True):
    """Permit's answer "not yet": hold the pod for at most `timeout` seconds (capped at 15 minutes)."""

    timeout: float


#: The answer of a plugin that has nothing to do for this pod.
Skip: Status = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """Return a rejection: the pod does not fit here now, but might if other pods were removed."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Return a rejection that preemption on this node cannot change."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def error(*reasons: str) -> Status:
    """Return an error: the attempt ends as `SchedulerError` and the pod backs off."""
    return Status(Code.ERROR, reasons)
