"""The objects of a job: its pod group and pods, as in Volcano, and the objects of its plugins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from random import Random
from typing import TypeVar

from msgspec.structs import replace

from kframework import ClusterError
from kframework.engine import Cluster
from kframework.objects import ApiObject, ConfigMap, LabelSelector, ObjectMeta, Pod, ResourceList, kind_of
from kframework_batch.controllers.controller import delete_if_exists
from kframework_batch.controllers.inheritance import (
    inherited_annotations,
    inherited_labels,
    min_resources,
    pod_requests,
)
from kframework_batch.controllers.job_admission import MINIMUM, SMALLEST
from kframework_batch.controllers.job_plugins.installed import create_plugins
from kframework_batch.controllers.job_plugins.job_plugin import JobPlugin
from kframework_batch.controllers.job_pods import (
    JOB_NAME,
    JOB_NAMESPACE,
    PARTITION,
    VERSION,
    owner_references,
    pod_name,
)
from kframework_batch.job import INDEX, ROLE
from kframework_batch.membership import GROUP_NAME
from kframework_batch.objects import Job, PodGroup, PodGroupSpec, SubGroupPolicy, TaskSpec

T = TypeVar("T", bound=ApiObject)

_log = logging.getLogger(__name__)

_QUEUE_NAME = "volcano.sh/queue-name"
_RETRY_COUNT = "volcano.sh/job-retry-count"
_TEMPLATE = "volcano.sh/template-uid"

#: Gives the value of a priority class by its name.
PriorityOf = Callable[[str], int]


def build_pod_group(job: Job, priority_of: PriorityOf) -> PodGroup:
    metadata, spec = job.metadata, job.spec
    return PodGroup(
        metadata=ObjectMeta(
            name=f"{metadata.name}-{metadata.uid}",
            namespace=metadata.namespace,
            annotations=metadata.annotations | {VERSION: str(job.status.version)},
            labels=metadata.labels,
            owner_references=owner_references(job),
        ),
        spec=PodGroupSpec(
            min_member=spec.min_available,
            min_task_member={task.name: task.min_available or 0 for task in spec.tasks},
            queue=spec.queue,
            priority_class_name=spec.priority_class_name,
            min_resources=_min_resources(job, priority_of),
            network_topology=spec.network_topology,
            # The partitions of a task are subgroups of its job.
            sub_group_policy=tuple(
                SubGroupPolicy(
                    name=task.name,
                    label_selector=LabelSelector(match_labels={ROLE: task.name}),
                    match_label_keys=(PARTITION,),
                    sub_group_size=task.partition_policy.partition_size,
                    min_sub_groups=task.partition_policy.min_partitions,
                    network_topology=task.partition_policy.network_topology,
                )
                for task in spec.tasks
                if task.partition_policy is not None
            ),
        ),
    )


def build_pod(job: Job, task: TaskSpec, index: int, plugins: Iterable[JobPlugin] = ()) -> Pod:
    metadata, template = job.metadata, task.template
    spec = replace(
        template.spec,
        scheduler_name=template.spec.scheduler_name or job.spec.scheduler_name,
        priority_class_name=template.spec.priority_class_name or job.spec.priority_class_name,
    )
    for plugin in plugins:
        spec = plugin.add_to_pod(spec, job, task, index)
    both = {INDEX: str(index), ROLE: task.name, JOB_NAME: metadata.name, _QUEUE_NAME: job.spec.queue}
    annotations = both | {
        GROUP_NAME: f"{metadata.name}-{metadata.uid}",
        VERSION: str(job.status.version),
        _RETRY_COUNT: str(job.status.retry_count),
        _TEMPLATE: f"{metadata.name}-{task.name}",
    }
    labels = both | {JOB_NAMESPACE: metadata.namespace}
    if task.partition_policy is not None:
        labels[PARTITION] = str(index // task.partition_policy.partition_size)
    return Pod(
        metadata=ObjectMeta(
            name=pod_name(job, task, index),
            namespace=metadata.namespace,
            annotations=template.metadata.annotations | annotations | inherited_annotations(metadata.annotations),
            labels=template.metadata.labels | labels | inherited_labels(metadata.labels),
            owner_references=owner_references(job),
        ),
        spec=spec,
    )


def unsupported_fields(job: Job) -> list[str]:
    return ["spec: volumes"] if job.spec.volumes else []


def _min_resources(job: Job, priority_of: PriorityOf) -> ResourceList:
    """Sum the requests of as many pods as must run: those of important tasks first, then in the order of the spec."""
    spec = job.spec
    tasks = _smallest_first(spec.tasks) if job.metadata.annotations.get(MINIMUM) == SMALLEST else spec.tasks
    tasks = sorted(tasks, key=lambda task: -priority_of(task.template.spec.priority_class_name))
    least = [task.min_available or 0 for task in tasks]
    if spec.min_available < sum(least):
        least = [0] * len(tasks)
    left, pods = spec.min_available - sum(least), []
    for task, minimum in zip(tasks, least, strict=True):
        more = min(left, task.replicas - minimum)
        left -= more
        pods.append((task.template.spec, minimum + more))
    return min_resources(pods)


def _smallest_first(tasks: Iterable[TaskSpec]) -> list[TaskSpec]:
    """Sort tasks so that each comes before those whose pods request as much of every resource, or more."""
    requests = {task.name: pod_requests(task.template.spec) for task in tasks}
    return sorted(tasks, key=lambda task: sum(each.fits(requests[task.name]) for each in requests.values()))


class PluginObjects:
    """The objects that job plugins need: created, updated, and deleted when jobs end; keys are drawn from `chance`.

    The job's status records their creation, as in Volcano. They are read one by one: a watch would see all Secrets.
    """

    def __init__(self, cluster: Cluster, chance: Random) -> None:
        self._cluster = cluster
        self._random = chance
        self._hosts: dict[str, dict[str, str]] = {}  # the data of a job's ConfigMap, by the job's uid

    def plugins(self, job: Job) -> Iterable[JobPlugin]:
        return create_plugins(job, self._random).values()

    async def create_missing(self, job: Job) -> dict[str, str]:
        """Create what is missing and update what has changed; return the plugins' entries for the job's status.

        An existing object of the same name that belongs to another owner is left alone.
        """
        plugins = create_plugins(job, self._random)
        marks = {_status_key(name): name for name in plugins}
        for name, plugin in plugins.items():
            if _status_key(name) not in job.status.controlled_resources:
                for wanted in plugin.objects(job):
                    try:
                        await self._cluster.create(wanted)
                    except ClusterError as error:
                        if error.reason != "AlreadyExists":
                            raise
                        await self._find(job, type(wanted), wanted.metadata.name)
            for hosts in plugin.updated_objects(job):
                await self._update_hosts(job, hosts)
        return marks

    async def delete_all(self, job: Job) -> None:
        self._hosts.pop(job.metadata.uid, None)
        for plugin in self.plugins(job):
            for kind, name in plugin.object_names(job):
                found = await self._find(job, kind, name)
                if found is not None:
                    await delete_if_exists(self._cluster, found)

    async def _update_hosts(self, job: Job, wanted: ConfigMap) -> None:
        """Write the hosts of a job into its ConfigMap if they are not those that were written last."""
        uid = job.metadata.uid
        if self._hosts.get(uid) == wanted.data:
            return
        metadata = wanted.metadata
        found = await self._find(job, ConfigMap, metadata.name)
        if found is not None and found.data != wanted.data:
            patch = {"metadata": {"uid": found.metadata.uid}, "data": wanted.data}
            await self._cluster.patch(ConfigMap, metadata.name, patch, metadata.namespace)
        self._hosts[uid] = wanted.data

    async def _find(self, job: Job, kind: type[T], name: str) -> T | None:
        """Read an object of the job; None if it does not exist or belongs to another owner."""
        namespace = job.metadata.namespace
        try:
            found = await self._cluster.get(kind, name, namespace)
        except ClusterError as error:
            if error.status != 404:
                raise
            return None
        if any(owner.uid == job.metadata.uid for owner in found.metadata.owner_references):
            return found
        what = f"{kind_of(kind).name} {namespace}/{name}"
        _log.warning("job %s/%s: %s belongs to another owner: leaving it as it is", namespace, job.metadata.name, what)
        return None


def _status_key(plugin: str) -> str:
    return f"plugin-{plugin}"
