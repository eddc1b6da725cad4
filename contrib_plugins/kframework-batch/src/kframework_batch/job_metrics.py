"""Metrics of jobs under Volcano's names, with its labels and buckets: what they come to, and how long they waited.

What there is is read off the engine when somebody asks. While a session is open it stays as it was before it, so that
nothing is shown that is only being tried. How long tasks and jobs waited comes from the records: Decisions, Bindings
and accounts of sessions. When a pod or a pod group was created, its object says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kframework import Code
from kframework.clock import seconds_of
from kframework.engine import Binding, Decision, Family, Histograms, Readings, Result, Series, as_labels
from kframework.objects import Pod
from kframework_batch.account import SessionAccount, SessionObserver
from kframework_batch.engine import BatchEngine
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.resource import dominant_share
from kframework_batch.session_metrics import bucket_range

#: The phases of pod groups that Volcano counts.
_PHASES = ("Pending", "Inqueue", "Running", "Unknown", "Completed")

_SHARE = Family(
    "gauge", "volcano_job_share", "[ALPHA] The largest part of the cluster that a job has.", ("job_ns", "job_id")
)
_CREATED = Family(
    "gauge",
    "volcano_e2e_job_scheduling_start_time",
    "[ALPHA] When a job was created, in seconds since 1970.",
    ("job_name", "queue", "job_namespace"),
)

_Values = Mapping[tuple[str, ...], float]


@dataclass(frozen=True)
class _Jobs:
    """What is said of all jobs at one moment."""

    shares: _Values = field(default_factory=dict)
    created: _Values = field(default_factory=dict)
    phases: Mapping[tuple[str, str], int] = field(default_factory=dict)
    queues: tuple[str, ...] = ()


class JobMetrics:
    """What the jobs of an engine come to when no session is open; `capacity` is that of the whole cluster."""

    def __init__(self, engine: BatchEngine, capacity: Callable[[], Mapping[str, int]]) -> None:
        self._engine = engine
        self._capacity = capacity
        self._jobs = _Jobs()
        self.series: tuple[Series, ...] = (
            Readings(_SHARE, lambda: self._read().shares),
            Readings(_CREATED, lambda: self._read().created),
            *map(self._of_phase, _PHASES),
        )

    def _of_phase(self, phase: str) -> Series:
        name, text = f"volcano_queue_pod_group_{phase.lower()}_count", f"How many pod groups of a queue are {phase}"
        family = Family("gauge", name, f"[ALPHA] {text}.", ("queue_name",))

        def counts() -> _Values:
            jobs = self._read()
            return {(queue,): jobs.phases.get((queue, phase), 0) for queue in jobs.queues}

        return Readings(family, counts)

    def _read(self) -> _Jobs:
        if self._engine.stands:
            jobs = [job for job in self._engine.cache.jobs.values() if job.known]
            capacity = self._capacity()
            self._jobs = _Jobs(
                shares={(job.namespace, job.name): dominant_share(job.held, capacity) for job in jobs},
                created={_labels(job): seconds_of(job.created) for job in jobs if job.created},
                phases=Counter((job.queue, job.phase or "Pending") for job in jobs),
                queues=tuple(self._engine.cache.queues),
            )
        return self._jobs


#: Histograms of milliseconds observe nanoseconds.
_MILLISECONDS, _NANOSECONDS = 10**6, 10**9

#: The actions that give tasks their places; what others promise is given by these.
_PLACING = frozenset({"allocate", "backfill"})

_TASKS = Family(
    "histogram",
    "volcano_task_scheduling_latency_milliseconds",
    "[ALPHA] How long after its creation a pod was seen, given a node, ready to be bound, and bound.",
    ("stage",),
    bucket_range(50, 60_000, 30),
)
_JOBS = Family(
    "histogram",
    "volcano_e2e_job_scheduling_latency_milliseconds",
    "[ALPHA] How long after the creation of their job tasks were given a place, or promised one.",
    buckets=bucket_range(100, 120_000, 30),
)
_JOB_LABELS = ("job_name", "queue", "job_namespace")
_DURATION = Family(
    "gauge",
    "volcano_e2e_job_scheduling_duration",
    "[ALPHA] How long after the creation of a job the last of its tasks was given a place, or promised one, in ms.",
    _JOB_LABELS,
)
_LAST = Family(
    "gauge",
    "volcano_e2e_job_scheduling_last_time",
    "[ALPHA] When the last task of a job was given a place, or promised one, in seconds since 1970.",
    _JOB_LABELS,
)


class _Placed(NamedTuple):
    """When a job last got a place for a task, and how long after the creation of this pod group; in seconds."""

    group_uid: str
    at: float
    waited: float


class LatencyMetrics(SessionObserver):
    """An observer of how long the tasks and jobs of an engine waited; it observes nothing before it is attached."""

    def __init__(self) -> None:
        self._tasks: Mapping[str, TaskInfo] = {}
        self._jobs: Mapping[str, JobInfo] = {}
        self._of_tasks = Histograms[str](_TASKS, lambda stage: (stage,), scale=_MILLISECONDS)
        self._of_jobs = Histograms[tuple[str, ...]](_JOBS, as_labels, scale=_MILLISECONDS, always=[()])
        #: By the uid of the job.
        self._placed: dict[str, _Placed] = {}
        #: All that is observed here.
        self.series: tuple[Series, ...] = (
            self._of_tasks,
            self._of_jobs,
            Readings(_DURATION, lambda: {_labels(job): placed.waited * 1e3 for job, placed in self._last_placed()}),
            Readings(_LAST, lambda: {_labels(job): placed.at for job, placed in self._last_placed()}),
        )

    def attach(self, engine: BatchEngine) -> None:
        """Begin to observe an engine that has not begun."""
        self._tasks, self._jobs = engine.cache.tasks, engine.cache.jobs

        def watched(pod: Pod) -> None:
            self._observe("Watched", pod.metadata.creation_timestamp, engine.clock.now())

        engine.cache.on_new = watched

    # -- the observer ------------------------------------------------------------------------------------------------

    def decided(self, decision: Decision) -> None:
        if decision.result is Result.SCHEDULED:
            self._reached("Assumed", decision.uid, decision.popped_at)

    def bound(self, binding: Binding) -> None:
        if binding.code is Code.SUCCESS:
            took = {point: nanoseconds / _NANOSECONDS for point, nanoseconds, _ in binding.steps}
            bound = binding.ended_at - took.get("post_bind", 0.0)
            self._reached("PreBound", binding.uid, bound - took.get("bind", 0.0))
            self._reached("Bound", binding.uid, bound)

    def session_ended(self, account: SessionAccount) -> None:
        for turn in account.turns:
            places = sum(bool(verdict.node) for verdict in turn.verdicts) if turn.action in _PLACING else 0
            job = self._jobs.get(turn.job)
            if places and job is not None and job.created:
                placed = _Placed(job.group_uid, turn.at, _since(job.created, turn.at))
                self._placed[job.uid] = placed
                for _ in range(places):
                    self._of_jobs[()].observe(round(placed.waited * _NANOSECONDS))
        self._placed = {uid: placed for uid, placed in self._placed.items() if uid in self._jobs}

    def _reached(self, stage: str, uid: str, at: float) -> None:
        task = self._tasks.get(uid)
        if task is not None:
            self._observe(stage, task.created, at)

    def _observe(self, stage: str, created: str | None, at: float) -> None:
        if created:
            self._of_tasks[stage].observe(round(_since(created, at) * _NANOSECONDS))

    def _last_placed(self) -> list[tuple[JobInfo, _Placed]]:
        """List the jobs that there are and have had places; a pod group that was made anew has had none."""
        found = ((self._jobs[uid], placed) for uid, placed in self._placed.items() if uid in self._jobs)
        return [(job, placed) for job, placed in found if job.known and job.group_uid == placed.group_uid]


def _since(created: str, at: float) -> float:
    """Return the seconds since a creation; none where the clock of who wrote it is ahead."""
    return max(at - seconds_of(created), 0.0)


def _labels(job: JobInfo) -> tuple[str, ...]:
    return job.name, job.queue, job.namespace
