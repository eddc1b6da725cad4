"""The only account of what happened: a Decision per attempt, a Binding per binding cycle, and their words.

Events, conditions, metrics, traces and reports read these records; none has an idea of its own. Durations are
nanoseconds of this machine's monotonic clock (they measure, they decide nothing); moments are seconds since 1970 on
the scheduler's Clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol, runtime_checkable

import msgspec

from kframework.core.runtime.timing import HookContext, PluginTiming, PointTiming
from kframework.values.status import Code


class Result(StrEnum):
    """How an attempt ended, in kube-scheduler's words."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to schedule a pod, from pop to assume or failure.

    `attempt` numbers all attempts of the scheduler, `tries` those of this pod. `node` is empty unless a node was
    assumed. `evaluated` nodes were looked at, `feasible` passed, `ties` shared the best `score`, `top` names the best.
    `reasons` counts what stood against nodes; `message` is the whole text as the condition shows it. `nominated`: the
    node nominated from now on, "" = taken back, None = as it was. `queued_at` is when the pod was queued for this
    attempt, `initial_attempt_at` when it became ready for its first one, `woken_by` the event that called for this one,
    by its label.

    `draw`, of [0, 1), is the attempt's lot: whoever wants a share of the attempts takes those that drew less, so that
    smaller samples are parts of the larger ones. `timings` follow each other without a gap, from `started` on.
    `plugins` is empty unless the scheduler timed them in this attempt.
    """

    attempt: int
    tries: int
    pod: str
    uid: str
    profile: str
    initial_attempt_at: float = 0.0
    queued_at: float
    popped_at: float
    woken_by: str = ""
    result: Result
    code: Code = Code.SUCCESS
    node: str = ""
    score: int = 0
    ties: int = 0
    nodes: int = 0
    evaluated: int = 0
    feasible: int = 0
    top: tuple[tuple[str, int], ...] = ()
    reasons: Mapping[str, int] = {}
    rejectors: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    message: str = ""
    nominated: str | None = None
    victims: tuple[str, ...] = ()
    draw: float = 0.0
    started: int = 0
    timings: tuple[PointTiming, ...] = ()
    plugins: tuple[PluginTiming, ...] = ()


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """One binding cycle, joined to its Decision by `attempt` and with the same `draw`.

    `waited` are the seconds in Permit. `code` is Success when the pod was bound. `plugins` is empty unless they were
    timed, as they are if those of the Decision were.
    """

    attempt: int
    pod: str
    uid: str
    profile: str
    node: str
    started_at: float
    ended_at: float
    code: Code
    message: str = ""
    waited: float = 0.0
    draw: float = 0.0
    started: int = 0
    steps: tuple[PointTiming, ...] = ()
    plugins: tuple[PluginTiming, ...] = ()


class Observer(Protocol):
    """Whoever takes notice of decisions and bindings: traces, metrics, recordings, reports."""

    def decided(self, decision: Decision) -> None:
        """Take notice of an attempt."""

    def bound(self, binding: Binding) -> None:
        """Take notice of the end of a binding cycle."""


@runtime_checkable
class HookTracer(Protocol):
    """An observer that traces the hooks of a sample of the attempts."""

    def hook_context(self, attempt: int, sample_value: float) -> HookContext | None:
        """Return what the hooks of this attempt are called in; None if the attempt is not traced."""
        ...


@runtime_checkable
class Accounting(Protocol):
    """An observer that also takes notice of what an engine does beyond single attempts, such as sessions of batches."""

    def accounted(self, account: msgspec.Struct) -> None:
        """Take notice of an account: a record of the engine's own, of which there may be several kinds."""


def fit_error(
    nodes: int, reasons: Mapping[str, int], *, pre_filter_message: str = "", post_filter_message: str = ""
) -> str:
    """Say why a pod fits nowhere, word for word as kube-scheduler does.

    The counted reasons are sorted as text, counts included; a PreFilter message takes their place.
    """
    text = f"0/{nodes} nodes are available:"
    if pre_filter_message:
        text += f" {pre_filter_message}."
    elif reasons:
        text += f" {', '.join(sorted(f'{count} {reason}' for reason, count in reasons.items()))}."
    if post_filter_message:
        text += f" {post_filter_message}"
    return text
