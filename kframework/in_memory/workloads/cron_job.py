"""The CronJob controller: it creates a job whenever one is due, and keeps a limited number of past ones."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime
from typing import ClassVar

from msgspec import to_builtins
from msgspec.structs import replace

from kframework.clock import Clock, rfc3339, seconds_of
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import ControlLoop, Key, key_of
from kframework.in_memory.kind_store import Change
from kframework.in_memory.workloads.dependents import Dependents, owner_reference, touched_owners
from kframework.in_memory.workloads.job_tally import condition, is_finished
from kframework.in_memory.workloads.schedules import Schedule, ScheduleError, location, most_recent, schedule
from kframework.objects import ApiObject, CronJob, Job, ObjectMeta, ObjectReference, convert, kind_of

#: The default numbers of succeeded and failed jobs that are kept.
_SUCCEEDED, _FAILED = 3, 1
#: The delay after which a due job is created, in seconds.
_DELTA = 0.1

_log = logging.getLogger(__name__)


class CronJobController(ControlLoop):
    """Creates jobs on a schedule, and deletes the oldest finished ones."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (CronJob, Job)

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(cluster, clock)
        self._jobs: Dependents[Job] = Dependents(cluster, Job)

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do until something changes, or is due: that would never end."""
        return not self._queue.is_due

    def _touched(self, change: Change) -> Iterator[Key]:
        match change.subject:
            case CronJob() as owner:
                yield key_of(owner)
            case Job():
                self._jobs.file(change)
                yield from touched_owners(change, "CronJob")

    def _reconcile(self, key: Key) -> None:
        owner = self._cluster.find(CronJob, key[1], key[0])
        if owner is None or not owner.spec.job_template.spec:
            return
        jobs = self._jobs.of(owner)
        running = {job.metadata.uid for job in jobs if not is_finished(job)}
        ends = [end for job in jobs if (end := job.status.completion_time) is not None]
        last = max([*ends, *filter(None, [owner.status.last_successful_time])], default=None)
        active = tuple(each for each in owner.status.active if each.uid in running)
        status = replace(owner.status, active=active, last_successful_time=last)
        owner = self._cluster.replace(replace(owner, status=status))
        if owner.metadata.deletion_timestamp is not None:
            return
        if not owner.spec.suspend:
            try:
                when = schedule(owner.spec.schedule, owner.spec.time_zone)
            except ScheduleError as error:
                _log.warning("CronJob %s: the schedule is passed over: %s", "/".join(key), error)
            else:
                self._make_due(owner, when)
        self._forget_old(owner, jobs)

    def _make_due(self, owner: CronJob, when: Schedule) -> None:
        """Create the job that is due, if there is one, and requeue for when the next will be."""
        now, spec, status = self._clock.now(), owner.spec, owner.status
        began = seconds_of(status.last_schedule_time or owner.metadata.creation_timestamp or rfc3339(now))
        deadline = spec.starting_deadline_seconds
        earliest = began if deadline is None else max(began, now - deadline)
        due = most_recent(when, earliest, now)
        if due is not None:
            late = deadline is not None and due + deadline < now
            forbidden = spec.concurrency_policy == "Forbid" and bool(status.active)
            if not late and not forbidden:
                self._make(owner, due)
        following = when.after(now)
        if following is not None:
            self._queue.add_after(key_of(owner), following + _DELTA - now)

    def _make(self, owner: CronJob, due: float) -> None:
        namespace, name = owner.metadata.namespace, f"{owner.metadata.name}-{int(due) // 60}"
        if self._cluster.find(Job, name, namespace) is not None:
            return
        active = owner.status.active
        if owner.spec.concurrency_policy == "Replace":
            for each in active:
                self._cluster.remove(Job, each.name, namespace, uid=each.uid, policy="Background")
            active = ()
        template, zone = owner.spec.job_template, location(owner.spec.time_zone or "")
        at = datetime.fromtimestamp(due, zone).isoformat().replace("+00:00", "Z")
        metadata = ObjectMeta(
            name=name,
            namespace=namespace,
            labels=template.metadata.labels,
            annotations=template.metadata.annotations | {"batch.kubernetes.io/cronjob-scheduled-timestamp": at},
            owner_references=(owner_reference(owner),),
        )
        kind = kind_of(Job)
        written: dict[str, object] = {"apiVersion": kind.api_version, "kind": kind.name}
        written |= {"metadata": to_builtins(metadata), "spec": template.spec}
        made = self._cluster.add(convert(written, kind), written=written).metadata
        job = ObjectReference(
            kind=kind.name,
            namespace=namespace,
            name=name,
            uid=made.uid,
            api_version=kind.api_version,
            resource_version=made.resource_version,
        )
        status = replace(owner.status, active=(*active, job), last_schedule_time=rfc3339(due))
        self._cluster.replace(replace(owner, status=status))

    def _forget_old(self, owner: CronJob, jobs: list[Job]) -> None:
        """Delete the oldest finished jobs, except those that the history keeps."""
        spec = owner.spec
        for name, limit, otherwise in (
            ("Complete", spec.successful_jobs_history_limit, _SUCCEEDED),
            ("Failed", spec.failed_jobs_history_limit, _FAILED),
        ):
            ended = [job for job in jobs if condition(job.status, name) is not None]
            ended.sort(key=lambda job: (job.status.start_time or "", job.metadata.name))
            for job in ended[: max(0, len(ended) - (otherwise if limit is None else limit))]:
                metadata = job.metadata
                self._cluster.remove(Job, metadata.name, metadata.namespace, uid=metadata.uid, policy="Background")
