"""The scheduling data of pod groups: queue, priority, minimums, and whether it can be scheduled here at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter

from kframework.objects import PriorityClass, QuantityError, ResourceList
from kframework_batch.job import INQUEUE, POD_PREEMPTABLE, JobInfo, Phase, TopologyRequirement, read_flag
from kframework_batch.membership import GroupObject, SubGroupError, SubGroups, compile_subgroups
from kframework_batch.objects import KubePodGroup, PodGroup, SigsPodGroup
from kframework_batch.resource import Resource

#: The queue of a pod group that has no field for it; an annotation, or a label.
QUEUE_NAME = "scheduling.volcano.sh/queue-name"


class Priorities:
    """The priorities of pods and groups by the cluster's priority classes."""

    def __init__(self, classes: Iterable[PriorityClass] = ()) -> None:
        known = list(classes)
        self._values = {each.metadata.name: each.value for each in known}
        # Of several defaults Kubernetes takes the lowest.
        self._default = min((each.value for each in known if each.global_default), default=0)

    def value(self, name: str) -> int:
        return self._values.get(name, self._default)


def apply_group(job: JobInfo, group: GroupObject, priorities: Priorities, default_queue: str) -> None:
    """Copy the data of a pod group into its job.

    The group's status counts only where the cluster has changed it, compared with the last write: an update that
    overtook our own write does not revert it.
    """
    metadata, before = group.metadata, job.object
    subgroups: tuple[SubGroups, ...] = ()
    job.has_group = True
    job.object = group
    job.group_uid = metadata.uid
    job.created = metadata.creation_timestamp or ""
    job.annotations, job.labels = metadata.annotations, metadata.labels
    job.preemptable = read_flag(metadata.annotations, metadata.labels, POD_PREEMPTABLE, default=False)
    job.role_minimums, job.min_resources, job.topology, job.invalid_reason = {}, None, None, ""
    job.queue = metadata.annotations.get(QUEUE_NAME) or metadata.labels.get(QUEUE_NAME) or default_queue
    job.priority = priorities.value("")
    match group:
        case PodGroup(spec=volcano):
            job.queue = volcano.queue or default_queue
            job.priority = priorities.value(volcano.priority_class_name)
            job.min_available = volcano.min_member
            job.role_minimums = volcano.min_task_member
            job.topology = TopologyRequirement.from_spec(volcano.network_topology)
            try:
                subgroups = compile_subgroups(volcano.sub_group_policy)
            except SubGroupError as error:
                job.invalid_reason = f"spec.subGroupPolicy: {error}"
            _read_min_resources(job, volcano.min_resources)
        case SigsPodGroup(spec=sigs):
            job.min_available = sigs.min_member
            _read_min_resources(job, sigs.min_resources)
        case KubePodGroup(spec=kube):
            job.priority = priorities.value(kube.priority_class_name) if kube.priority is None else kube.priority
            # `basic` is each pod for itself: as Volcano has it for a pod on its own, one is enough.
            gang = kube.scheduling_policy.gang
            job.min_available = 1 if gang is None else gang.min_count
            if kube.scheduling_constraints.topology:
                job.invalid_reason = "spec.schedulingConstraints.topology is not supported"
    job.set_subgroups(subgroups)
    if before is None or group.status not in (before.status, job.status):
        job.status, job.phase = group.status, phase_of(group)


def remove_group(job: JobInfo) -> None:
    """Record that a job has no pod group any more, and hence is in no queue."""
    job.has_group = False
    job.object = job.status = None
    job.phase = job.queue = job.invalid_reason = job.message = ""
    job.priority = job.min_available = 0
    job.role_minimums, job.min_resources = {}, None
    job.set_subgroups(())
    job.fit_errors.clear()
    job.tentative_nodes.clear()


#: The fields of a pod group that a session reads.
group_fields: Callable[[JobInfo], tuple[object, ...]] = attrgetter(
    *("has_group", "group_uid", "created", "annotations", "labels", "queue", "priority", "phase", "invalid_reason"),
    *("min_available", "role_minimums", "min_resources", "topology", "subgroups"),
)


def phase_of(group: GroupObject) -> Phase:
    match group:
        case PodGroup(status=status):
            return status.phase
        case SigsPodGroup(status=status):
            return {"Scheduling": INQUEUE, "Finished": "Completed", "Failed": "Completed"}.get(
                status.phase, status.phase
            )
        case KubePodGroup(status=status):
            scheduled = any(seen.type == "PodGroupScheduled" and seen.status == "True" for seen in status.conditions)
            return "Running" if scheduled else ""


#: Volcano's job controller writes a whole quota into `minResources`; these are no resources of nodes.
_QUOTAS = ("requests.", "limits.", "count/")


def _read_min_resources(job: JobInfo, quantities: ResourceList | None) -> None:
    if quantities is None:
        return
    try:
        amounts = Resource.parse(quantities)
    except QuantityError as error:
        job.invalid_reason = f"spec.minResources: {error}"
    else:
        counted = (name for name in amounts if name != "pods" and not name.startswith(_QUOTAS))
        job.min_resources = Resource((name, amounts[name]) for name in counted)
