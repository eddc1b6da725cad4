"""Decisions and bindings as an engine would have made them."""

from __future__ import annotations

from kframework.core.cycle.records import Binding, Decision, Result
from kframework.core.runtime.timing import PluginTiming, PointTiming
from kframework.observe.history import History
from kframework.values.status import Code

__all__ = ["binding", "decision", "history"]


def decision(
    attempt: int = 1,
    pod: str = "web",
    *,
    result: Result = Result.SCHEDULED,
    at: float = 0.0,
    profile: str = "default-scheduler",
    message: str = "",
    timings: tuple[PointTiming, ...] = (),
    plugins: tuple[PluginTiming, ...] = (),
) -> Decision:
    return Decision(
        attempt=attempt,
        pod_attempts=1,
        pod=f"default/{pod}",
        uid=pod,
        profile=profile,
        queued_at=at,
        popped_at=at,
        result=result,
        message=message,
        timings=timings,
        plugins=plugins,
    )


def binding(
    attempt: int = 1,
    pod: str = "web",
    *,
    steps: tuple[PointTiming, ...] = (),
    plugins: tuple[PluginTiming, ...] = (),
    code: Code = Code.SUCCESS,
    message: str = "",
) -> Binding:
    return Binding(
        attempt=attempt,
        pod=f"default/{pod}",
        uid=pod,
        profile="default-scheduler",
        node="a",
        started_at=0.0,
        ended_at=1.0,
        code=code,
        message=message,
        steps=steps,
        plugins=plugins,
    )


def history(*records: Decision | Binding) -> History:
    """Make the history of these records."""
    made = History()
    for record in records:
        if isinstance(record, Decision):
            made.on_decision(record)
        else:
            made.on_binding(record)
    return made
