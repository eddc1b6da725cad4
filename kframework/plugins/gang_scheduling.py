"""GangScheduling: the pods of a gang are scheduled when enough of them exist, and only if enough of them find nodes."""

from __future__ import annotations

from typing import ClassVar

from kframework.framework.answers import GroupProgress
from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint, queue_if
from kframework.framework.plugin import Plugin, Watch, hookimpl
from kframework.objects import PodGroup
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.status import Code, Status, unresolvable, unschedulable


class GangScheduling(Plugin):
    """Hold back the pods of a PodGroup until its minimum exists, and reject the group if too few fit together."""

    name = "GangScheduling"
    watches: ClassVar[tuple[Watch, ...]] = (Watch(PodGroup, gate="GenericWorkload"),)

    @hookimpl
    def pre_enqueue(self, pod: PendingPod) -> Status | None:
        if not pod.group or not self.handle.feature_gates.has_pod_groups:
            return None
        group = self.handle.objects(PodGroup).get(pod.group, pod.namespace)
        if group is None:
            return unresolvable(f'waiting for pods\'s pod group "{pod.group}" to appear in scheduling queue')
        minimum = _min_count(group)
        if minimum is None or len(self.handle.pod_groups.members(pod.namespace, pod.group)) >= minimum:
            return None
        return unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")

    @hookimpl
    def placement_feasible(self, group: PodGroup, progress: GroupProgress) -> Status | None:
        minimum = _min_count(group)
        if minimum is None or progress.scheduled >= minimum:
            return None
        counts = f"{progress.scheduled} scheduled, {progress.remaining} remaining"
        if progress.scheduled + progress.remaining < minimum:
            return unschedulable(f"minCount ({minimum}) cannot be satisfied: {counts}")
        return Status(Code.WAIT, (f"minCount ({minimum}) is not yet satisfied: {counts}",))

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        return [
            ClusterEvent(EventResource.UNSCHEDULED_POD, ActionType.ADD, after_pod),
            ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD, after_pod),
            ClusterEvent(EventResource.POD_GROUP, ActionType.ADD | ActionType.UPDATE, after_group),
        ]


def _min_count(group: PodGroup) -> int | None:
    """Return the minimum of a gang, None if the group is none."""
    gang = group.spec.scheduling_policy.gang
    return None if gang is None else gang.min_count


def after_pod(pod: PendingPod, old: PodInfo | None, new: PodInfo) -> QueueingHint:
    """Queue the pods of the new pod's group."""
    return queue_if((pod.namespace, pod.group) == (new.namespace, new.group))


def after_group(pod: PendingPod, old: PodGroup | None, new: PodGroup) -> QueueingHint:
    """Queue the pods of a new group, or of one whose minimum fell."""
    if (pod.namespace, pod.group) != (new.metadata.namespace, new.metadata.name):
        return QueueingHint.SKIP
    before, after = None if old is None else _min_count(old), _min_count(new)
    return queue_if(before is None or after is None or after < before)
