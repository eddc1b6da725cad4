"""The scheduler at a glance: the numbers of everything, and the results of the last attempts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import structs

from kframework.core.cycle.records import Binding, Decision, Result
from kframework.observe.history import History, Reload
from kframework.observe.web.view import EngineView
from kframework.scheduler.scheduler import E

#: The numbers of attempts that are shown at once and that are counted over time, and of stretches of time.
MAX_SHOWN, COUNTED_ATTEMPTS, INTERVALS = 200, 1_000, 60


class AttemptRecords(msgspec.Struct, frozen=True):
    """Decisions, the newest first, and their ended bindings, without times of plugins; `last` is the last attempt."""

    last: int
    decisions: tuple[Decision, ...]
    bindings: tuple[Binding, ...]


class Timeline(msgspec.Struct, frozen=True):
    """The last attempts by result in stretches of `width` seconds, the first from `start`, in seconds since 1970."""

    start: float
    width: float
    counts: Mapping[str, tuple[int, ...]]


class Durations(msgspec.Struct, frozen=True):
    """The durations of timed attempts, in nanoseconds: half of them less than `median`, one in 100 `slow`."""

    median: int
    slow: int
    slowest: int


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """The top of the page at `now`, in seconds since 1970; `timeline` and `durations` are of `counted` attempts.

    `reload` is the last attempt to take another configuration, None if there was none.
    """

    now: float
    synced: bool
    profiles: tuple[str, ...]
    nodes: int
    pods_on_nodes: int
    waiting: int
    attempts: int
    counted: int
    timeline: Timeline
    durations: Durations | None
    reload: Reload | None = None


def summarise_scheduler(view: EngineView[E], *, counted: int = COUNTED_ATTEMPTS) -> Summary:
    engine, decisions = view.engine, view.history.recent(counted)
    now = engine.clock.now()
    return Summary(
        now,
        engine.synced,
        tuple(engine.profiles),
        len(engine.cluster.nodes),
        len(engine.cluster.pods),
        sum(view.count_by_queue().values()),
        view.history.last_attempt,
        len(decisions),
        timeline(decisions, now),
        durations(decisions),
        view.history.reload,
    )


def list_attempts(history: History, *, after: int = 0, pod: str = "", limit: int = MAX_SHOWN) -> AttemptRecords:
    """List the attempts after one, or those of one pod; at most the newest `limit` of them."""
    decisions = history.for_pod_name(pod, limit) if pod else history.after_attempt(after, limit)[::-1]
    bindings = (history.binding_for(decision) for decision in decisions)
    return AttemptRecords(
        history.last_attempt,
        tuple(structs.replace(decision, plugins=()) for decision in decisions),
        tuple(structs.replace(binding, plugins=()) for binding in bindings if binding is not None),
    )


def timeline(decisions: Sequence[Decision], now: float) -> Timeline:
    start = decisions[-1].popped_at if decisions else now
    width = max((now - start) / INTERVALS, 1.0)
    counts = {result.value: [0] * INTERVALS for result in Result}
    for decision in decisions:
        interval = min(int((decision.popped_at - start) / width), INTERVALS - 1)
        counts[decision.result.value][interval] += 1
    return Timeline(start, width, {result: tuple(numbers) for result, numbers in counts.items()})


def durations(decisions: Iterable[Decision]) -> Durations | None:
    times = sorted(filter(None, (sum(spent for _, spent, _ in decision.timings) for decision in decisions)))
    if not times:
        return None
    return Durations(times[len(times) // 2], times[len(times) * 99 // 100], times[-1])
