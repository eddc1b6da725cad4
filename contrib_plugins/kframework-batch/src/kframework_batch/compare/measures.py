"""A run measured event by event: completion, waiting, fairness, utilisation, and what half gangs held uselessly."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil

import msgspec

from kframework_batch.compare.timeline import EventKind, GangSummary, RunTimeline, TimelineEvent
from kframework_batch.water_filling import Claim, fill


class QueueMeasures(msgspec.Struct, frozen=True):
    """The share of the cluster that worked for a queue while it had demand, and that it deserved, as means."""

    queue: str
    weight: int
    held: float
    due: float


class ShareHistory(msgspec.Struct):
    """The shares over time: from each event on what worked for every queue, and what half gangs held."""

    times: list[float]
    working: dict[str, list[float]]
    half: list[float]


class GangState(msgspec.Struct):
    """The state of a gang: its placed pods with what they hold, by uid, and what is left of its demand.

    `complete_at` is when as many of its pods as must run together ran for the first time.
    """

    gang: GangSummary
    arrived: float
    left: int
    held_by_pod: dict[str, int] = msgspec.field(default_factory=dict)
    bound: set[str] = msgspec.field(default_factory=set)
    names: set[str] = msgspec.field(default_factory=set)
    succeeded: int = 0
    complete_at: float | None = None

    @property
    def is_complete(self) -> bool:
        """Whether its minimum runs or has run to the end."""
        return len(self.bound) + self.succeeded >= self.gang.minimum

    def waited(self, until: float) -> float:
        return (until if self.complete_at is None else self.complete_at) - self.arrived

    def remove_pod(self, uid: str) -> int:
        self.bound.discard(uid)
        return self.held_by_pod.pop(uid, 0)


class RunAnalysis:
    """Goes through the moments of a run and sums up what held in between, in shares of the capacity times seconds."""

    def __init__(self, timeline: RunTimeline, resource: str, capacity: int, weights: Mapping[str, int]) -> None:
        self._timeline, self._resource, self._capacity, self._weights = timeline, resource, capacity, weights
        self.gang_states: dict[str, GangState] = {}
        self.history = ShareHistory([], {}, [])
        self.worked = self.half_held = 0.0
        self.evictions = 0
        self._now = 0.0
        self._working: Counter[str] = Counter()  # amounts as they are now, by queue
        self._half = 0
        self._demand: Counter[str] = Counter()
        self._waiting: dict[str, float] = {}  # since when a pod has waited, by uid
        self._waits: list[float] = []
        self._due: defaultdict[str, float] = defaultdict(float)  # by queue, like the next two, while it has demand
        self._held: defaultdict[str, float] = defaultdict(float)
        self._spans: defaultdict[str, float] = defaultdict(float)

    def run(self, until: float) -> None:
        for event in self._timeline.events:
            if event.at > until:
                break
            self._advance(event.at)
            if event.gang not in self.gang_states:
                self.gang_states[event.gang] = GangState(self._timeline.gangs[event.gang], event.at, 0)
            state = self.gang_states[event.gang]
            self._count(state, -1)
            self._apply(event, state)
            if state.is_complete and state.complete_at is None:
                state.complete_at = event.at
            self._count(state, 1)
            self._record_shares()
        self._advance(until)

    def queues(self) -> Iterator[QueueMeasures]:
        """Yield what each queue had that was ever due anything."""
        for queue, due in sorted(self._due.items()):
            if due > 0:
                seconds, weight = self._spans[queue], self._weights.get(queue, 1)
                yield QueueMeasures(queue, weight, self._held[queue] / seconds, due / seconds)

    def pod_waits(self, until: float) -> Iterator[float]:
        """Yield how long pods have waited, those that wait still or were never made among them."""
        yield from self._waits
        yield from (until - since for since in self._waiting.values())
        for each in self.gang_states.values():
            if each.gang.finished > until:
                yield from [until - each.arrived] * (each.gang.pods - len(each.names))

    def _apply(self, event: TimelineEvent, state: GangState) -> None:
        uid = event.pod
        match event.kind:
            case EventKind.ARRIVED:
                state.left = state.gang.wanted.get(self._resource, 0)
            case EventKind.FINISHED:
                state.left = 0
            case EventKind.MADE:
                name = self._timeline.members[uid].name
                self._waiting[uid] = event.at if name in state.names else state.arrived
                state.names.add(name)
            case EventKind.PLACED:
                state.held_by_pod[uid] = self._requested(uid)
            case EventKind.BOUND:
                state.held_by_pod[uid] = self._requested(uid)
                state.bound.add(uid)
                if uid in self._waiting:
                    self._waits.append(event.at - self._waiting.pop(uid))
            case EventKind.RELEASED:
                if uid not in state.bound:
                    state.remove_pod(uid)
            case EventKind.SUCCEEDED:
                state.remove_pod(uid)
                state.succeeded += 1
                state.left = max(state.left - self._requested(uid), 0)
            case EventKind.GONE:
                state.remove_pod(uid)
                self._waiting.pop(uid, None)
            case EventKind.EVICTED:
                self.evictions += 1

    def _requested(self, uid: str) -> int:
        return self._timeline.members[uid].requests.get(self._resource, 0)

    def _count(self, state: GangState, sign: int) -> None:
        """Count what a gang holds and still wants, or take it out of the count before it changes."""
        held, queue = sign * sum(state.held_by_pod.values()), state.gang.queue
        if state.is_complete:
            self._working[queue] += held
        else:
            self._half += held
        self._demand[queue] += sign * state.left

    def _advance(self, at: float) -> None:
        span, self._now = (at - self._now) / self._capacity, at
        if span <= 0:
            return
        self.worked += sum(self._working.values()) * span
        self.half_held += self._half * span
        wanting = [queue for queue, amount in self._demand.items() if amount > 0]
        claims = [Claim(self._weights.get(queue, 1), 0, self._demand[queue]) for queue in wanting]
        for queue, due in zip(wanting, fill(self._capacity, claims), strict=True):
            self._due[queue] += due * span
            self._held[queue] += self._working[queue] * span
            self._spans[queue] += span * self._capacity

    def _record_shares(self) -> None:
        history = self.history
        if not history.times or history.times[-1] < self._now:
            history.times.append(self._now)
            history.half.append(0.0)
            for row in history.working.values():
                row.append(row[-1])
        history.half[-1] = self._half / self._capacity
        for queue, amount in self._working.items():
            row = history.working.setdefault(queue, [0.0] * len(history.times))
            row[-1] = amount / self._capacity


#: Moments that are work: after the last of them nothing came of anything.
_WORK = (EventKind.ARRIVED, EventKind.FINISHED, EventKind.BOUND, EventKind.SUCCEEDED, EventKind.GONE)


class TimePercentiles(msgspec.Struct, frozen=True):
    """The median and the 99th percentile in seconds (nearest rank); None where there is nothing."""

    p50: float | None
    p99: float | None

    @classmethod
    def from_values(cls, values: Iterable[float]) -> TimePercentiles:
        ranked = sorted(values)
        p50, p99 = (ranked[max(ceil(part * len(ranked)) - 1, 0)] if ranked else None for part in (0.5, 0.99))
        return cls(p50, p99)


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """All numbers of a run; times are in seconds, shares of the cluster's `resource` from 0 to 1.

    `last` is when the last job completed, `seconds` the time that was measured. `half_gang_seconds` are seconds of one
    unit of the resource, held by gangs that had less than their minimum.
    """

    jobs: int
    completed: int
    never_ran: int
    completion: TimePercentiles
    last: float | None
    gang_waiting: TimePercentiles
    pod_waiting: TimePercentiles
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
    timeline: RunTimeline,
    *,
    resource: str,
    capacity: int,
    weights: Mapping[str, int],
    duration: float | None = None,
    cpu_seconds: float = 0.0,
) -> tuple[Measures, ShareHistory]:
    """Measure a run up to `duration`, or its last event; `capacity` is that of the nodes, weights default to 1."""
    until = (
        float(duration) if duration else max((each.at for each in timeline.events if each.kind in _WORK), default=0.0)
    )
    replay = RunAnalysis(timeline, resource, capacity, weights)
    replay.run(until)
    gangs = {name: timeline.gangs[name] for name in replay.gang_states}
    ends = {name: gang.finished for name, gang in gangs.items() if gang.phase == "Completed" and gang.finished <= until}
    states = replay.gang_states
    queues = tuple(replay.queues())
    unit = 1000 if resource == "cpu" else 1
    measures = Measures(
        jobs=len(states),
        completed=len(ends),
        never_ran=sum(each.complete_at is None for each in states.values()),
        completion=TimePercentiles.from_values(end - states[name].arrived for name, end in ends.items()),
        last=max(ends.values(), default=None),
        gang_waiting=TimePercentiles.from_values(each.waited(until) for each in states.values()),
        pod_waiting=TimePercentiles.from_values(replay.pod_waits(until)),
        fairness=jain([queue.held / queue.due for queue in queues]),
        queues=queues,
        resource=resource,
        utilisation=replay.worked / (until or 1.0),
        half_gangs=replay.half_held / (until or 1.0),
        half_gang_seconds=replay.half_held * capacity / unit,
        evictions=replay.evictions,
        seconds=until,
        cpu_seconds=cpu_seconds,
    )
    return measures, replay.history


def jain(values: Sequence[float]) -> float:
    """Return Jain's index, (Σx)² / (n Σx²): 1 where all are equal, 1/n where one has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0
