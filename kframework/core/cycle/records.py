"""Records of scheduling attempts (`Decision`) and binding cycles (`Binding`).

They are the single source for events, conditions, metrics, traces and reports. Durations are nanoseconds of this
machine's monotonic clock (they are only reported, never used in decisions); times are seconds since 1970 on the
scheduler's Clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Protocol, runtime_checkable

import msgspec

from kframework.core.runtime.timing import HookContext, PluginTiming, PointTiming
from kframework.values.status import Code, Status


class Result(StrEnum):
    """The outcome of an attempt, in kube-scheduler's terms."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"

    @classmethod
    def from_status(cls, status: Status) -> Result:
        """Return the outcome of an attempt that ended with this Status."""
        if status.code is Code.SUCCESS:
            return cls.SCHEDULED
        return cls.UNSCHEDULABLE if status.is_rejected else cls.ERROR


class Record(msgspec.Struct, frozen=True, rename="camel"):
    """A record that is also a mapping of its fields to plain data, so that `pandas.DataFrame` takes a list of them."""

    def keys(self) -> Iterator[str]:
        """Return the names of the fields."""
        return iter(self.__struct_fields__)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__struct_fields__)

    def __len__(self) -> int:
        return len(self.__struct_fields__)

    def __getitem__(self, field: str) -> object:
        if field not in self.__struct_fields__:
            raise KeyError(field)
        return msgspec.to_builtins(getattr(self, field))


Mapping.register(Record)


class Decision(Record, frozen=True, kw_only=True):
    """One attempt to schedule a pod, from pop to assume or failure.

    `attempt` numbers all attempts of the scheduler, `pod_attempts` those of this pod. `group` is the name of its
    PodGroup, "" without one; `group_attempt` is the attempt of the first pod that was tried together with this one, 0
    for a pod that was tried alone. `configuration` numbers the configurations that the scheduler has had, from 1 on:
    this one decided. `node` is empty unless a node was assumed. `evaluated` nodes were examined,
    `feasible` passed, `ties` shared the best `score`, `best_nodes` names the best. `reasons` counts rejections by
    reason; `message` is the whole text as the condition shows it. `nominated`: the node nominated from now on, "" =
    cleared, None = unchanged. `queued_at` is when the pod was queued for this attempt, `initial_attempt_at` when it
    became ready for its first one, `requeued_by` the label of the event that caused it.

    An observer that samples takes attempts with a smaller `sample_value`, in [0, 1), so that smaller samples are
    subsets of larger ones. `timings` are contiguous from `started` on. `plugins` is empty unless the scheduler timed
    them in this attempt.
    """

    attempt: int
    pod_attempts: int
    pod: str
    uid: str
    group: str = ""
    group_attempt: int = 0
    configuration: int = 1
    profile: str
    initial_attempt_at: float = 0.0
    queued_at: float
    popped_at: float
    requeued_by: str = ""
    result: Result
    code: Code = Code.SUCCESS
    node: str = ""
    score: int = 0
    ties: int = 0
    nodes: int = 0
    evaluated: int = 0
    feasible: int = 0
    best_nodes: tuple[tuple[str, int], ...] = ()
    reasons: Mapping[str, int] = {}
    rejectors: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    message: str = ""
    nominated: str | None = None
    victims: tuple[str, ...] = ()
    sample_value: float = 0.0
    started: int = 0
    timings: tuple[PointTiming, ...] = ()
    plugins: tuple[PluginTiming, ...] = ()

    def __getitem__(self, field: str) -> object:
        """Return a field as plain data; the score is None if no node was scored."""
        return None if field == "score" and not self.best_nodes else super().__getitem__(field)


class Binding(Record, frozen=True, kw_only=True):
    """One binding cycle, joined to its Decision by `attempt` and with the same `group_attempt` and `sample_value`.

    `waited` is the time in Permit, in seconds. `code` is Success if the pod was bound, else `rejector` names the plugin
    that rejected it or failed. `plugins` is empty unless plugins were timed, as those of the Decision were.
    """

    attempt: int
    pod: str
    uid: str
    group_attempt: int = 0
    profile: str
    node: str
    started_at: float
    ended_at: float
    code: Code
    message: str = ""
    rejector: str = ""
    waited: float = 0.0
    sample_value: float = 0.0
    started: int = 0
    steps: tuple[PointTiming, ...] = ()
    plugins: tuple[PluginTiming, ...] = ()


class PlacementTrial(msgspec.Struct, frozen=True, rename="camel"):
    """How the walk over a group ended within one placement.

    Attributes:
        group: The group, one of the groups below the root; "" for the root.
        name: The name of the placement; "" if it is all nodes.
        code: The code of the group's Status in this placement.
        message: The message of that Status.
        placed: The number of pods that found a node.
        failed_first: The pod that failed first by itself, in the order of the walk; "" if none did.
        reason: Why it did.
    """

    group: str
    name: str
    code: Code
    message: str = ""
    placed: int = 0
    failed_first: str = ""
    reason: str = ""


class GroupDecision(Record, frozen=True, kw_only=True):
    """One attempt to schedule the root of a tree of groups, `namespace/name`, with all its waiting `pods`.

    `kind` is the type of the root as metrics name it: `podgroup`, or `compositepodgroup`. `attempt` is the number of
    the first pod's attempt; those of the others follow in the order of the walk. `trials` are the placements that were
    tried, none if the attempt failed before; `placement` names the chosen one. `rejector` is the plugin that rejected
    the group. `preempts`: the group waits for a preemption, which is unschedulable.

    `timings` are contiguous from `started` on: `placement_generate`, a `placement` for each trial, `placement_score`,
    `placement_walk` if the pods of the chosen one had only been counted, and `pod_group_post_filter`, as far as they
    took place. `took` is the whole duration, in nanoseconds.
    """

    group: str
    kind: str = "podgroup"
    attempt: int = 0
    profile: str
    pods: int
    queued_at: float = 0.0
    popped_at: float = 0.0
    result: Result
    code: Code = Code.SUCCESS
    message: str = ""
    placement: str = ""
    rejector: str = ""
    preempts: bool = False
    trials: tuple[PlacementTrial, ...] = ()
    sample_value: float = 0.0
    started: int = 0
    timings: tuple[PointTiming, ...] = ()
    took: int = 0

    @property
    def outcome(self) -> str:
        """The result, or `waiting_on_preemption`, in the terms of kube-scheduler's metrics."""
        return "waiting_on_preemption" if self.preempts else self.result.value

    @property
    def searched(self) -> int:
        """The duration of the search for nodes, without PodGroupPostFilter."""
        return sum(spent for point, spent, _ in self.timings if point != "pod_group_post_filter")


class Observer(Protocol):
    """A receiver of decisions and bindings: the base of tracing, metrics, recording and reports."""

    def on_decision(self, decision: Decision) -> None:
        """Receive the record of an attempt."""

    def on_binding(self, binding: Binding) -> None:
        """Receive the record of a binding cycle."""


@runtime_checkable
class HookTracer(Protocol):
    """An observer that traces the hooks of a sample of the attempts."""

    def hook_context(self, attempt: int, sample_value: float, group_attempt: int = 0) -> HookContext | None:
        """Return a context manager for calling this attempt's hooks, or None if the attempt is not traced."""


@runtime_checkable
class GroupObserver(Protocol):
    """An observer that also receives the attempts to schedule groups."""

    def on_group_decision(self, decision: GroupDecision) -> None:
        """Receive the record of an attempt, after those of its pods."""


@runtime_checkable
class AccountObserver(Protocol):
    """An observer that also receives records of more than one attempt, such as sessions of batches."""

    def on_account(self, account: msgspec.Struct) -> None:
        """Receive a record of the engine's own; there may be several kinds."""


def fit_error(
    nodes: int, reasons: Mapping[str, int], *, pre_filter_message: str = "", post_filter_message: str = ""
) -> str:
    """Return why a pod fits no node, word for word as kube-scheduler does.

    The counted reasons are sorted as text, counts included; a PreFilter message replaces them.
    """
    text = f"0/{nodes} nodes are available:"
    if pre_filter_message:
        text += f" {pre_filter_message}."
    elif reasons:
        text += f" {', '.join(sorted(f'{count} {reason}' for reason, count in reasons.items()))}."
    if post_filter_message:
        text += f" {post_filter_message}"
    return text
