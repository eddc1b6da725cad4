"""Metrics under Volcano's names, with its labels and buckets: of sessions, of jobs, and of their waiting times.

Metrics of sessions come from their accounts: queues and jobs that are deleted have none. Jobs are read from the engine
at collection time, but not while a session is open, which shows trial states. Jobs go by namespace/name, where Volcano
has the name alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from kframework import Code
from kframework.clock import seconds_of
from kframework.engine import (
    Binding,
    CounterSeries,
    Decision,
    Family,
    HistogramSeries,
    Result,
    ScrapedSeries,
    Series,
    as_labels,
)
from kframework.objects import Pod
from kframework_batch.account import QueueState, SessionAccount, SessionObserver, TurnOutcome
from kframework_batch.engine import BatchEngine
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.resource import dominant_share

#: Histograms of milliseconds observe nanoseconds.
_MILLISECONDS, _NANOSECONDS = 10**6, 10**9

#: Statuses of tasks that count for the minimum of their job.
_READY = ("Bound", "Binding", "Running", "Allocated", "Succeeded")

#: What Volcano calls the two moments at which plugins are timed.
_ON_SESSION = {"open": "OnSessionOpen", "close": "OnSessionClose"}

_Amounts = Callable[[QueueState], Mapping[str, int]]


def bucket_range(least: float, most: float, count: int) -> tuple[float, ...]:
    """Return `count` bounds from the least to the most, each larger than the one before by the same factor."""
    factor = (most / least) ** (1 / (count - 1))
    return tuple(least * factor**step for step in range(count))


_SESSIONS = Family(
    "histogram",
    "volcano_e2e_scheduling_latency_milliseconds",
    "[ALPHA] Time that the actions and plugins of a session took together.",
    buckets=bucket_range(1, 5000, 20),
)
_OPENED = Family(
    "histogram",
    "volcano_open_session_duration_milliseconds",
    "[ALPHA] Time that plugins took together to open a session.",
    buckets=bucket_range(1, 5000, 20),
)
_PLUGINS = Family(
    "histogram",
    "volcano_plugin_scheduling_latency_milliseconds",
    "[ALPHA] Time that a plugin took when a session opened or closed.",
    ("plugin", "OnSession"),
    bucket_range(0.1, 100, 15),
)
_ACTIONS = Family(
    "histogram",
    "volcano_action_scheduling_latency_milliseconds",
    "[ALPHA] Time that an action took.",
    ("action",),
    bucket_range(1, 2000, 20),
)
_ATTEMPTS = Family(
    "counter",
    "volcano_schedule_attempts_total",
    "[ALPHA] Tasks bound, tasks left without a node, and sessions that ended early.",
    ("result",),
)
_ATTEMPTED = Family("counter", "volcano_total_preemption_attempts", "[ALPHA] Turns of jobs in preempt.")
_EVICTIONS = Family(
    "counter",
    "volcano_eviction_transactions_total",
    "[ALPHA] Turns of jobs that evicted tasks.",
    ("action",),
)
_VICTIMS = Family(
    "gauge", "volcano_pod_preemption_victims", "[ALPHA] Number of tasks that preempt evicted in the last session."
)
_LACKING = Family(
    "gauge", "volcano_unschedule_task_count", "[ALPHA] Number of tasks that a job lacks for its minimum.", ("job_id",)
)
_UNREADY = Family("gauge", "volcano_unschedule_job_count", "[ALPHA] Number of jobs that lack tasks for their minimum.")
_RETRIES = Family(
    "counter",
    "volcano_job_retry_counts",
    "[ALPHA] Number of sessions in which a job lacked tasks for its minimum, until it has them.",
    ("job_id",),
)


class SessionMetrics(SessionObserver):
    """An observer that computes the values of Volcano's metrics after each session."""

    def __init__(self) -> None:
        self._last: SessionAccount = SessionAccount(uid="", at=0.0)
        self._retries: dict[tuple[str, ...], int] = {}
        self._sessions = HistogramSeries[tuple[str, ...]](_SESSIONS, as_labels, scale=_MILLISECONDS, always=[()])
        self._opened = HistogramSeries[tuple[str, ...]](_OPENED, as_labels, scale=_MILLISECONDS, always=[()])
        self._plugins = HistogramSeries[tuple[str, ...]](_PLUGINS, as_labels, scale=_MILLISECONDS)
        self._actions = HistogramSeries[tuple[str, ...]](_ACTIONS, as_labels, scale=_MILLISECONDS)
        self._attempts = CounterSeries[tuple[str, ...]](_ATTEMPTS, as_labels)
        self._attempted = CounterSeries[tuple[str, ...]](_ATTEMPTED, as_labels, always=[()])
        self._evictions = CounterSeries[tuple[str, ...]](_EVICTIONS, as_labels)
        #: All that is counted here.
        self.series: tuple[Series, ...] = (
            self._sessions,
            self._opened,
            self._plugins,
            self._actions,
            self._attempts,
            self._attempted,
            self._evictions,
            ScrapedSeries(_VICTIMS, lambda: {(): self._victims()}),
            ScrapedSeries(_LACKING, self._lacking),
            ScrapedSeries(_UNREADY, lambda: {(): len(self._lacking())}),
            ScrapedSeries(_RETRIES, lambda: self._retries),
            *self._queue_series(),
        )

    @property
    def capacity(self) -> Mapping[str, int]:
        return self._last.capacity

    def session_ended(self, account: SessionAccount) -> None:
        self._last = account
        self._sessions[()].observe(sum(part.took for part in account.parts))
        self._opened[()].observe(sum(part.took for part in account.parts if part.kind == "open"))
        for part in account.parts:
            if part.kind == "action":
                self._actions[part.name,].observe(part.took)
            else:
                self._plugins[part.name, _ON_SESSION[part.kind]].observe(part.took)
        bound = {pod for pod, _ in account.bound}
        rejected = {one.pod for turn in account.turns for one in turn.verdicts if not one.node} - bound
        counts = {"scheduled": len(bound), "unschedulable": len(rejected), "error": int(bool(account.failure))}
        for result, count in counts.items():
            if count:
                self._attempts[result,] += count
        for turn in account.turns:
            self._attempted[()] += turn.action == "preempt"
            if turn.outcome is TurnOutcome.COMMITTED and turn.victims:
                self._evictions[turn.action,] += 1
        self._retries = {labels: self._retries.get(labels, 0) + 1 for labels in self._lacking()}

    def _victims(self) -> int:
        committed = (turn for turn in self._last.turns if turn.outcome is TurnOutcome.COMMITTED)
        return sum(len(turn.victims) for turn in committed if turn.action == "preempt")

    def _lacking(self) -> dict[tuple[str, ...], int]:
        found: dict[tuple[str, ...], int] = {}
        for state in self._last.jobs:
            lacking = state.minimum - sum(state.tasks.get(status, 0) for status in _READY)
            if state.tasks and lacking > 0:
                found[state.job,] = lacking
        return found

    def _queue_series(self) -> list[Series]:
        kinds: dict[str, _Amounts] = {
            "allocated": lambda state: state.allocated,
            "request": lambda state: state.requested,
            "deserved": lambda state: state.deserved,
        }
        series: list[Series] = []
        for kind, amounts in kinds.items():
            text, name = f"[ALPHA] Resources {kind} of queues when the session began", f"volcano_queue_{kind}"
            for resource, suffix, unit in (
                ("cpu", "milli_cpu", "milli-CPU"),
                ("memory", "memory_bytes", "bytes of memory"),
            ):
                family = Family("gauge", f"{name}_{suffix}", f"{text}: {unit}.", ("queue_name",))
                series.append(ScrapedSeries(family, partial(self._values, partial(_amount, amounts, resource))))
            labels = ("queue_name", "resource")
            others = Family("gauge", f"{name}_scalar_resources", f"{text}: other resources.", labels)
            series.append(ScrapedSeries(others, partial(self._scalars, amounts)))
        values: dict[str, tuple[str, Callable[[QueueState], float]]] = {
            "share": ("Largest part of its share that a queue held", lambda state: state.share),
            "weight": ("The weight of a queue", lambda state: state.weight),
            "overused": ("Whether jobs were skipped because their queue held its share", self._overused),
        }
        for name, (text, value) in values.items():
            family = Family("gauge", f"volcano_queue_{name}", f"[ALPHA] {text}.", ("queue_name",))
            series.append(ScrapedSeries(family, partial(self._values, value)))
        return series

    def _values(self, value: Callable[[QueueState], float]) -> dict[tuple[str, ...], float]:
        return {(state.queue,): value(state) for state in self._last.queues}

    def _scalars(self, amounts: _Amounts) -> dict[tuple[str, ...], float]:
        return {
            (state.queue, resource): amount
            for state in self._last.queues
            for resource, amount in amounts(state).items()
            if resource not in ("cpu", "memory")
        }

    def _overused(self, state: QueueState) -> float:
        outcomes = (turn.outcome for turn in self._last.turns if turn.queue == state.queue)
        return float(TurnOutcome.OVERUSED in outcomes)


def _amount(amounts: _Amounts, resource: str, state: QueueState) -> float:
    return amounts(state).get(resource, 0)


#: The phases of pod groups that Volcano counts.
_PHASES = ("Pending", "Inqueue", "Running", "Unknown", "Completed")

_SHARE = Family(
    "gauge", "volcano_job_share", "[ALPHA] Largest part of the cluster that a job holds.", ("job_ns", "job_id")
)
_CREATED = Family(
    "gauge",
    "volcano_e2e_job_scheduling_start_time",
    "[ALPHA] Creation time of a job, in seconds since 1970.",
    ("job_name", "queue", "job_namespace"),
)

_Values = Mapping[tuple[str, ...], float]


@dataclass(frozen=True)
class _Jobs:
    """The values of all jobs at one moment."""

    shares: _Values = field(default_factory=dict)
    created: _Values = field(default_factory=dict)
    phases: Mapping[tuple[str, str], int] = field(default_factory=dict)
    queues: tuple[str, ...] = ()


class JobMetrics:
    """Metrics of an engine's jobs when no session is open; `capacity` is that of the whole cluster."""

    def __init__(self, engine: BatchEngine, capacity: Callable[[], Mapping[str, int]]) -> None:
        self._engine = engine
        self._capacity = capacity
        self._jobs = _Jobs()
        self.series: tuple[Series, ...] = (
            ScrapedSeries(_SHARE, lambda: self._read().shares),
            ScrapedSeries(_CREATED, lambda: self._read().created),
            *map(self._phase_series, _PHASES),
        )

    def _phase_series(self, phase: str) -> Series:
        name, text = (
            f"volcano_queue_pod_group_{phase.lower()}_count",
            f"Pod groups of a queue that are {phase}",
        )
        family = Family("gauge", name, f"[ALPHA] {text}.", ("queue_name",))

        def counts() -> _Values:
            jobs = self._read()
            return {(queue,): jobs.phases.get((queue, phase), 0) for queue in jobs.queues}

        return ScrapedSeries(family, counts)

    def _read(self) -> _Jobs:
        if self._engine.is_between_sessions:
            jobs = [job for job in self._engine.cache.jobs.values() if job.has_group]
            capacity = self._capacity()
            self._jobs = _Jobs(
                shares={(job.namespace, job.name): dominant_share(job.bound_resources, capacity) for job in jobs},
                created={_labels(job): seconds_of(job.created) for job in jobs if job.created},
                phases=Counter((job.queue, job.phase or "Pending") for job in jobs),
                queues=tuple(self._engine.cache.queues),
            )
        return self._jobs


#: The actions that give tasks their places; what others promise is given by these.
_PLACING = frozenset({"allocate", "backfill"})

_TASKS = Family(
    "histogram",
    "volcano_task_scheduling_latency_milliseconds",
    "[ALPHA] Time from the creation of a pod until it was seen, assigned a node, ready to bind, and bound.",
    ("stage",),
    bucket_range(50, 60_000, 30),
)
_JOBS = Family(
    "histogram",
    "volcano_e2e_job_scheduling_latency_milliseconds",
    "[ALPHA] Time from the creation of a job until a task of it was assigned a node.",
    buckets=bucket_range(100, 120_000, 30),
)
_JOB_LABELS = ("job_name", "queue", "job_namespace")
_DURATION = Family(
    "gauge",
    "volcano_e2e_job_scheduling_duration",
    "[ALPHA] Time from the creation of a job until its last task was assigned a node, in milliseconds.",
    _JOB_LABELS,
)
_LAST = Family(
    "gauge",
    "volcano_e2e_job_scheduling_last_time",
    "[ALPHA] Time at which the last task of a job was assigned a node, in seconds since 1970.",
    _JOB_LABELS,
)


class _LastPlacement(NamedTuple):
    """The time of a job's last placement, and the time since the creation of this pod group; in seconds."""

    group_uid: str
    at: float
    waited: float


class LatencyMetrics(SessionObserver):
    """An observer of how long the tasks and jobs of an engine waited; it observes nothing before it is attached."""

    def __init__(self) -> None:
        self._tasks: Mapping[str, TaskInfo] = {}
        self._jobs: Mapping[str, JobInfo] = {}
        self._of_tasks = HistogramSeries[str](_TASKS, lambda stage: (stage,), scale=_MILLISECONDS)
        self._of_jobs = HistogramSeries[tuple[str, ...]](_JOBS, as_labels, scale=_MILLISECONDS, always=[()])
        #: By the uid of the job.
        self._last_placements: dict[str, _LastPlacement] = {}
        #: All that is observed here.
        self.series: tuple[Series, ...] = (
            self._of_tasks,
            self._of_jobs,
            ScrapedSeries(
                _DURATION, lambda: {_labels(job): placed.waited * 1e3 for job, placed in self._current_placements()}
            ),
            ScrapedSeries(_LAST, lambda: {_labels(job): placed.at for job, placed in self._current_placements()}),
        )

    def attach(self, engine: BatchEngine) -> None:
        """Begin to observe an engine that has not begun."""
        self._tasks, self._jobs = engine.cache.tasks, engine.cache.jobs

        def observe_watch(pod: Pod) -> None:
            self._observe("Watched", pod.metadata.creation_timestamp, engine.clock.now())

        engine.cache.on_new_pod = observe_watch

    def on_decision(self, decision: Decision) -> None:
        if decision.result is Result.SCHEDULED:
            self._observe_task("Assumed", decision.uid, decision.popped_at)

    def on_binding(self, binding: Binding) -> None:
        if binding.code is Code.SUCCESS:
            took = {point: nanoseconds / _NANOSECONDS for point, nanoseconds, _ in binding.steps}
            bound = binding.ended_at - took.get("post_bind", 0.0)
            self._observe_task("PreBound", binding.uid, bound - took.get("bind", 0.0))
            self._observe_task("Bound", binding.uid, bound)

    def session_ended(self, account: SessionAccount) -> None:
        for turn in account.turns:
            placements = sum(bool(verdict.node) for verdict in turn.verdicts) if turn.action in _PLACING else 0
            job = self._jobs.get(turn.job)
            if placements and job is not None and job.created:
                placed = _LastPlacement(job.group_uid, turn.at, _seconds_since(job.created, turn.at))
                self._last_placements[job.uid] = placed
                for _ in range(placements):
                    self._of_jobs[()].observe(round(placed.waited * _NANOSECONDS))
        self._last_placements = {uid: placed for uid, placed in self._last_placements.items() if uid in self._jobs}

    def _observe_task(self, stage: str, uid: str, at: float) -> None:
        task = self._tasks.get(uid)
        if task is not None:
            self._observe(stage, task.created, at)

    def _observe(self, stage: str, created: str | None, at: float) -> None:
        if created:
            self._of_tasks[stage].observe(round(_seconds_since(created, at) * _NANOSECONDS))

    def _current_placements(self) -> list[tuple[JobInfo, _LastPlacement]]:
        """List the current jobs with placed tasks; a recreated pod group has none."""
        found = ((self._jobs[uid], placed) for uid, placed in self._last_placements.items() if uid in self._jobs)
        return [(job, placed) for job, placed in found if job.has_group and job.group_uid == placed.group_uid]


def _seconds_since(created: str, at: float) -> float:
    """Return the seconds since a creation; none where the clock of who wrote it is ahead."""
    return max(at - seconds_of(created), 0.0)


def _labels(job: JobInfo) -> tuple[str, ...]:
    return job.name, job.queue, job.namespace
