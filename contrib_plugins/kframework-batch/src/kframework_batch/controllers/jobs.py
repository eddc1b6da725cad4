"""The job controller: a Job becomes a pod group, then pods, and its status shows the progress.

It is meant for clusters in memory: it copies the usual fields of templates, not all that containers could need.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from random import Random, SystemRandom
from typing import ClassVar

from msgspec.structs import replace

from kframework import Clock, Watch
from kframework.clock import rfc3339, seconds_of
from kframework.engine import Cluster
from kframework.objects import ApiObject, ConfigMap, Pod, PriorityClass, Service
from kframework_batch.controllers.controller import Reconciler, merge_patch
from kframework_batch.controllers.job_admission import find_problems, with_defaults
from kframework_batch.controllers.job_objects import PluginObjects, build_pod, build_pod_group, unsupported_fields
from kframework_batch.controllers.job_phases import (
    ALIVE,
    NoAction,
    commanded_action,
    commanded_job,
    invalid_status,
    status_after_action,
    updated_status,
)
from kframework_batch.controllers.job_plugins.installed import find_unsupported
from kframework_batch.controllers.job_pods import (
    ENDED,
    RESTARTED_BY,
    VERSION,
    VolcanoJobPods,
    dependencies_met,
    is_stale,
)
from kframework_batch.controllers.job_policies import JobAction, Timeouts, next_action, unsupported_policies
from kframework_batch.objects import Command, Job, JobStatus, NetworkPolicy, PodGroup, Secret
from kframework_batch.queue import DEFAULT_QUEUE
from kframework_batch.task_status import has_ended

_log = logging.getLogger(__name__)

#: So long commands wait for their job, which may be seen after them; seconds.
_COMMAND_TIMEOUT = 10.0


class VolcanoJobController(Reconciler):
    """Makes, restarts and deletes what belongs to the Jobs of batch.volcano.sh.

    A subject is a job by its uid, or by namespace/name for its commands. Keys for ssh are drawn from `chance`. Pods of
    a job are deleted only if the job was seen to go: a file with the objects of a cluster need not have them all.
    """

    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(PriorityClass),
        Watch(Job, verbs=("patch_status", "delete")),
        Watch(PodGroup, verbs=("create", "patch", "delete")),
        Watch(Pod, verbs=("create", "patch", "delete")),
        Watch(Command, verbs=("delete",)),
    )
    reads: ClassVar[tuple[Watch, ...]] = (
        Watch(ConfigMap, verbs=("create", "patch", "delete")),
        Watch(Secret, verbs=("create", "delete")),
        Watch(Service, verbs=("create", "delete")),
        Watch(NetworkPolicy, verbs=("create", "delete")),
    )

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        scheduler_name: str,
        default_queue: str = DEFAULT_QUEUE,
        chance: Random | None = None,
    ) -> None:
        super().__init__(cluster, clock)
        self._scheduler_name = scheduler_name
        self._default_queue = default_queue
        self._plugin_objects = PluginObjects(cluster, chance if chance is not None else SystemRandom())
        self._known_jobs: dict[str, Job] = {}  # by uid, the jobs that were seen, until all that they owned is gone
        self._timeouts: dict[str, Timeouts] = {}  # by uid of a job

    def subjects(self, obj: ApiObject) -> Iterable[str]:
        if isinstance(obj, Job):
            return (obj.metadata.uid,)
        if isinstance(obj, Command):
            job_key = commanded_job(obj)
            return () if job_key is None else (job_key,)
        return [
            owner.uid
            for owner in obj.metadata.owner_references
            if owner.controller and owner.kind == "Job" and owner.api_version.startswith("batch.volcano.sh/")
        ]

    def is_relevant(self, old: ApiObject, new: ApiObject) -> bool:
        return _relevant_fields(old) != _relevant_fields(new)

    async def reconcile(self, subject: str) -> None:
        if "/" in subject:
            await self._reconcile_commands(subject)
            return
        job = next(iter(self.mirror.for_subject(subject, Job)), None)
        if job is None:
            await self._clean_up(subject)
            return
        if job.metadata.deletion_timestamp is not None:
            return
        job = with_defaults(job, self._scheduler_name, self._default_queue)
        if job.metadata.uid not in self._known_jobs:
            for what in (*unsupported_policies(job), *find_unsupported(job), *unsupported_fields(job)):
                _log.warning("job %s/%s: %s is ignored", job.metadata.namespace, job.metadata.name, what)
        self._known_jobs[job.metadata.uid] = job
        if await self._run_commands(job):
            return
        problem = find_problems(job)
        if problem:
            await self._write(job, invalid_status(job.status, problem, self._now()))
            return
        members = VolcanoJobPods(job, self.mirror.for_subject(job.metadata.uid, Pod))
        alive = job.status.state.phase in ALIVE
        action = None
        if alive:
            timeouts = self._timeouts.setdefault(job.metadata.uid, Timeouts())
            action = next_action(job, members, self._group(job), timeouts, self.clock.now())
            if timeouts.next_in is not None:
                self.expect_after(job.metadata.uid, timeouts.next_in)
        if action is not None:
            await self._start_action(job, action)
            return
        if await self._delete_pods(job, members) or (alive and await self._create_objects(job, members)):
            return  # what was done comes back as a change, and is counted then
        await self._write(job, updated_status(job, members.counts, self._now()))
        await self._expire(job)

    # -- the steps -------------------------------------------------------------------------------------------------

    async def _clean_up(self, uid: str) -> None:
        self._timeouts.pop(uid, None)
        if uid not in self._known_jobs:
            return
        await self._plugin_objects.delete_all(self._known_jobs[uid])
        for owned in (*self.mirror.for_subject(uid, Pod), *self.mirror.for_subject(uid, PodGroup)):
            if owned.metadata.deletion_timestamp is None:
                await self.delete(owned)
        if not self.mirror.for_subject(uid, Pod) and not self.mirror.for_subject(uid, PodGroup):
            del self._known_jobs[uid]

    async def _reconcile_commands(self, job_key: str) -> None:
        """Have a job look at its commands; those for a job that is not there are deleted, if it does not come yet."""
        namespace, name = job_key.split("/", 1)
        job = self.mirror.find(Job, name, namespace)
        if job is not None:
            await self.reconcile(job.metadata.uid)
            return
        for command in self.mirror.for_subject(job_key, Command):
            created = command.metadata.creation_timestamp
            if created is None or self.clock.now() - seconds_of(created) >= _COMMAND_TIMEOUT:
                await self.delete(command)
            else:
                self.expect_after(job_key, _COMMAND_TIMEOUT)

    async def _run_commands(self, job: Job) -> bool:
        for command in self.mirror.for_subject(f"{job.metadata.namespace}/{job.metadata.name}", Command):
            action = commanded_action(job, command)
            if action is NoAction.LATER:
                continue
            if isinstance(action, JobAction):
                await self._start_action(job, action)
            await self.delete(command)
            if isinstance(action, JobAction):
                return True
        return False

    async def _start_action(self, job: Job, action: JobAction) -> None:
        """Begin an action with one write of the status; pods that it takes away, or keeps, are marked before that."""
        status = status_after_action(job, action, self._now())
        if action.name == "ResumeJob":
            for pod in filter(has_ended, self.mirror.for_subject(job.metadata.uid, Pod)):
                await self.annotate(pod, VERSION, str(status.version))
        for pod in action.restarted:
            await self.annotate(pod, RESTARTED_BY, str(status.retry_count))
        await self._write(job, status)

    async def _delete_pods(self, job: Job, members: VolcanoJobPods) -> bool:
        """Delete the pods that have to go, and the pod group of a job that ended or was killed; return whether any."""
        over = job.status.state.phase not in (*ALIVE, "Restarting")
        groups = self.mirror.for_subject(job.metadata.uid, PodGroup)
        doomed: list[Pod | PodGroup] = [group for group in groups if over or is_stale(group, job.status)]
        doomed += members.obsolete
        leaving = [each for each in doomed if each.metadata.deletion_timestamp is None]
        for each in leaving:
            await self.delete(each)
        if over and job.status.controlled_resources:
            await self._plugin_objects.delete_all(job)
            await self._write(job, replace(job.status, controlled_resources={}))
            return True
        return bool(leaving)

    async def _create_objects(self, job: Job, members: VolcanoJobPods) -> bool:
        """Create what plugins want, the pod group, and once that is admitted the missing pods; return whether any."""
        marks = await self._plugin_objects.create_missing(job)
        if job.status.controlled_resources != marks:
            await self._write(job, replace(job.status, controlled_resources=marks))
            return True
        wanted = build_pod_group(job, self._priority_of)
        group = self._group(job)
        if group is None:
            return await self.create(wanted)
        await self.patch_spec(group, merge_patch(group.spec, wanted.spec))
        if group.status.phase in ("", "Pending"):
            return False
        waiting = {task.name for task in job.spec.tasks if not dependencies_met(job, task, members)}
        plugins = self._plugin_objects.plugins(job)
        made = [
            await self.create(build_pod(job, task, index, plugins))
            for task, index in members.missing()
            if task.name not in waiting
        ]
        return any(made)

    async def _write(self, job: Job, status: JobStatus) -> None:
        await self.patch_status(job, merge_patch(job.status, status))

    async def _expire(self, job: Job) -> None:
        """Delete a job whose time is up since it finished, or look at it again when that will be."""
        ttl, state = job.spec.ttl_seconds_after_finished, job.status.state
        if ttl is None or state.phase not in ENDED - {"Aborted"} or state.last_transition_time is None:
            return
        left = seconds_of(state.last_transition_time) + ttl - self.clock.now()
        if left <= 0:
            await self.delete(job)
        else:
            self.requeue_after(job.metadata.uid, left)

    def _group(self, job: Job) -> PodGroup | None:
        """Find the pod group of the job as it is now, rather than before it was killed."""
        groups = self.mirror.for_subject(job.metadata.uid, PodGroup)
        return next((group for group in groups if not is_stale(group, job.status)), None)

    def _priority_of(self, name: str) -> int:
        found = self.mirror.find(PriorityClass, name)
        return 0 if found is None else found.value

    def _now(self) -> str:
        return rfc3339(self.clock.now())


def _relevant_fields(obj: ApiObject) -> object:
    marks = obj.metadata.annotations.get(VERSION), obj.metadata.annotations.get(RESTARTED_BY)
    match obj:
        case Pod(metadata=metadata, status=status):
            containers = status.init_container_statuses, status.container_statuses
            return metadata.uid, metadata.deletion_timestamp, status.phase, marks, containers
        case PodGroup(metadata=metadata, spec=spec, status=status):
            return metadata.uid, spec, status.phase, marks
    return obj
