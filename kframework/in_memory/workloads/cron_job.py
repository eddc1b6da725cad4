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
from kframework.in_memory.workloads.dependents import Dependents, owner_keys
from kframework.in_memory.workloads.job_pods import find_condition, is_finished
from kframework.in_memory.workloads.schedules import (
    CronScheduleError,
    Schedule,
    load_time_zone,
    most_recent_time,
    parse_schedule,
)
from kframework.objects import ApiObject, CronJob, Job, ObjectMeta, convert, kind_of
from kframework.objects.kinds import object_reference, owner_reference

#: The default numbers of succeeded and failed jobs that are kept.
_SUCCESSFUL_LIMIT, _FAILED_LIMIT = 3, 1
#: The delay after which a due job is created, in seconds.
_NEXT_SCHEDULE_DELTA = 0.1

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

    def _affected_keys(self, change: Change) -> Iterator[Key]:
        match change.subject:
            case CronJob() as owner:
                yield key_of(owner)
            case Job():
                self._jobs.index(change)
                yield from owner_keys(change, "CronJob")

    def _reconcile(self, key: Key) -> None:
        owner = self._cluster.find(CronJob, key[1], key[0])
        if owner is None or not owner.spec.job_template.spec:
            return
        jobs = self._jobs.owned_by(owner)
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
                schedule = parse_schedule(owner.spec.schedule, owner.spec.time_zone)
            except CronScheduleError as error:
                _log.warning("CronJob %s: cannot parse its schedule: %s", "/".join(key), error)
            else:
                self._create_due_job(owner, schedule)
        self._clean_up_history(owner, jobs)

    def _create_due_job(self, owner: CronJob, schedule: Schedule) -> None:
        now, spec, status = self._clock.now(), owner.spec, owner.status
        started = seconds_of(status.last_schedule_time or owner.metadata.creation_timestamp or rfc3339(now))
        deadline = spec.starting_deadline_seconds
        earliest = started if deadline is None else max(started, now - deadline)
        due = most_recent_time(schedule, earliest, now)
        if due is not None:
            late = deadline is not None and due + deadline < now
            forbidden = spec.concurrency_policy == "Forbid" and bool(status.active)
            if not late and not forbidden:
                self._create_job(owner, due)
        following = schedule.next_after(now)
        if following is not None:
            self._queue.add_after(key_of(owner), following + _NEXT_SCHEDULE_DELTA - now)

    def _create_job(self, owner: CronJob, due: float) -> None:
        namespace, name = owner.metadata.namespace, f"{owner.metadata.name}-{int(due) // 60}"
        if self._cluster.find(Job, name, namespace) is not None:
            return
        active = owner.status.active
        if owner.spec.concurrency_policy == "Replace":
            for each in active:
                self._cluster.remove(Job, each.name, namespace, uid=each.uid, policy="Background")
            active = ()
        template, zone = owner.spec.job_template, load_time_zone(owner.spec.time_zone or "")
        at = datetime.fromtimestamp(due, zone).isoformat().replace("+00:00", "Z")
        metadata = ObjectMeta(
            name=name,
            namespace=namespace,
            labels=template.metadata.labels,
            annotations=template.metadata.annotations | {"batch.kubernetes.io/cronjob-scheduled-timestamp": at},
            owner_references=(owner_reference(owner),),
        )
        kind = kind_of(Job)
        document: dict[str, object] = {"apiVersion": kind.api_version, "kind": kind.name}
        document |= {"metadata": to_builtins(metadata), "spec": template.spec}
        job = self._cluster.add(convert(document, kind), document=document)
        status = replace(owner.status, active=(*active, object_reference(job)), last_schedule_time=rfc3339(due))
        self._cluster.replace(replace(owner, status=status))

    def _clean_up_history(self, owner: CronJob, jobs: list[Job]) -> None:
        spec = owner.spec
        for name, limit, default in (
            ("Complete", spec.successful_jobs_history_limit, _SUCCESSFUL_LIMIT),
            ("Failed", spec.failed_jobs_history_limit, _FAILED_LIMIT),
        ):
            ended = [job for job in jobs if find_condition(job.status, name) is not None]
            ended.sort(key=lambda job: (job.status.start_time or "", job.metadata.name))
            for job in ended[: max(0, len(ended) - (default if limit is None else limit))]:
                self._cluster.remove_object(job, policy="Background")
