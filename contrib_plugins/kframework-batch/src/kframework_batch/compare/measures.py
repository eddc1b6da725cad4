"""What a run came to, in numbers: completion, waiting, fairness, utilisation, and room that half gangs held in vain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil

import msgspec

from kframework_batch.compare.replay import Course, QueueMeasures, Replay
from kframework_batch.compare.timeline import Timeline, What

#: Moments that are work: after the last of them nothing came of anything.
_WORK = (What.ARRIVED, What.FINISHED, What.BOUND, What.SUCCEEDED, What.GONE)


class Spread(msgspec.Struct, frozen=True):
    """The median and the 99th percentile in seconds (nearest rank); None where there is nothing."""

    p50: float | None
    p99: float | None

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Make it of values in any order."""
        ranked = sorted(values)
        return cls(_rank(ranked, 0.5), _rank(ranked, 0.99))


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """All numbers of a run; times are in seconds, shares of the cluster's `resource` from 0 to 1.

    `last` is when the last job completed, `seconds` the time that was measured. `half_gang_seconds` are seconds of one
    unit of the resource, held by gangs that had less than their minimum.
    """

    jobs: int
    completed: int
    never_ran: int
    completion: Spread
    last: float | None
    gang_waiting: Spread
    pod_waiting: Spread
    fairness: float
    queues: tuple[QueueMeasures, ...]
    resource: str
    utilisation: float
    half_gangs: float
    half_gang_seconds: float
    evictions: int
    seconds: float
    cpu_seconds: float


def measure(
    timeline: Timeline,
    *,
    resource: str,
    capacity: int,
    weights: Mapping[str, int],
    duration: float | None = None,
    cpu_seconds: float = 0.0,
) -> tuple[Measures, Course]:
    """Measure a run up to `duration`, or up to when the last thing came of it.

    `capacity` is how much of the resource the nodes have. Queues that are not in `weights` have the weight 1.
    """
    until = (
        float(duration) if duration else max((each.at for each in timeline.moments if each.what in _WORK), default=0.0)
    )
    replay = Replay(timeline, resource, capacity, weights)
    replay.run(until)
    gangs = {name: timeline.gangs[name] for name in replay.standings}
    ends = {name: gang.finished for name, gang in gangs.items() if gang.phase == "Completed" and gang.finished <= until}
    standings = replay.standings
    queues = tuple(replay.queues())
    unit = 1000 if resource == "cpu" else 1
    measures = Measures(
        jobs=len(standings),
        completed=len(ends),
        never_ran=sum(each.complete_at is None for each in standings.values()),
        completion=Spread.of(end - standings[name].arrived for name, end in ends.items()),
        last=max(ends.values(), default=None),
        gang_waiting=Spread.of(each.waited(until) for each in standings.values()),
        pod_waiting=Spread.of(replay.pod_waits(until)),
        fairness=jain([queue.ratio for queue in queues]),
        queues=queues,
        resource=resource,
        utilisation=replay.worked / (until or 1.0),
        half_gangs=replay.half_held / (until or 1.0),
        half_gang_seconds=replay.half_held * capacity / unit,
        evictions=replay.evictions,
        seconds=until,
        cpu_seconds=cpu_seconds,
    )
    return measures, replay.course


def jain(values: Sequence[float]) -> float:
    """Return Jain's index, (Σx)² / (n Σx²): 1 where all are equal, 1/n where one has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def _rank(ranked: Sequence[float], part: float) -> float | None:
    return ranked[max(ceil(part * len(ranked)) - 1, 0)] if ranked else None
