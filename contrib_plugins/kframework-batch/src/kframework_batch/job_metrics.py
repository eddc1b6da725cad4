"""Metrics of the jobs that there are, under Volcano's names, with its labels: read off the engine when somebody asks.

While a session is open they stay as they were before it, so that nothing is shown that is only being tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kframework.clock import seconds_of
from kframework.engine import Family, Readings, Series
from kframework_batch.engine import BatchEngine
from kframework_batch.job import JobInfo
from kframework_batch.resource import dominant_share

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


def _labels(job: JobInfo) -> tuple[str, ...]:
    return job.name, job.queue, job.namespace
