"""GangScheduling: a gang is scheduled when enough of its pods or groups exist, and only if enough find nodes."""

from __future__ import annotations

from typing import ClassVar

from kframework.framework.answers import GroupProgress
from kframework.framework.events import ActionType, ClusterEvent, EventResource
from kframework.framework.handle import Handle
from kframework.framework.plugin import Plugin, PluginArgs, Watch, hookimpl
from kframework.objects import CompositePodGroup, GenericPodGroup, PodGroup
from kframework.objects.pod_groups import minimum_of
from kframework.state.group_trees import POD_GROUP, EntityKey, GroupTrees, entity_key
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.status import Code, Status, unresolvable, unschedulable


class GangScheduling(Plugin):
    """Hold back the pods of a tree of groups until its minimum exists, and reject a group if too few fit together.

    A PodGroup counts its pods, a CompositePodGroup the groups below it; without a gang's minimum it needs one.
    """

    name = "GangScheduling"
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(PodGroup, gate="GenericWorkload"),
        Watch(CompositePodGroup, gate="CompositePodGroup"),
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        #: Whether roots are ready, which all their pods ask, as of a version of the groups.
        self._ready: dict[EntityKey, bool] = {}
        self._ready_version = -1

    @hookimpl
    def pre_enqueue(self, pod: PendingPod) -> Status | None:
        if not pod.group or not self.handle.feature_gates.has_pod_groups:
            return None
        group = self._trees.get((POD_GROUP, pod.namespace, pod.group))
        if group is None:
            return unresolvable(f'waiting for pods\'s pod group "{pod.group}" to appear in scheduling queue')
        root = self.handle.pod_groups.root(pod)
        if root is None:
            return unresolvable(f"failed to build hierarchy snapshot: {self._trees.obstacle(entity_key(group))}")
        if self._is_ready(root):
            return None
        if isinstance(root, CompositePodGroup):
            return unresolvable(f'waiting for composite pod group "{root.metadata.name}" tree to meet quorum')
        return unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")

    def _is_ready(self, root: GenericPodGroup) -> bool:
        version, key = self.handle.pod_groups.version, entity_key(root)
        if self._ready_version != version:
            self._ready, self._ready_version = {}, version
        if key not in self._ready:
            self._ready[key] = self._has_enough(root)
        return self._ready[key]

    def _has_enough(self, group: GenericPodGroup) -> bool:
        """Return whether enough pods exist, for enough of the groups below a CompositePodGroup."""
        minimum = minimum_of(group)
        if isinstance(group, PodGroup):
            return len(self.handle.pod_groups.members(group.metadata.namespace, group.metadata.name)) >= minimum
        children = self._trees.children(group)
        ready = 0
        for index, child in enumerate(children):
            ready += self._has_enough(child)
            if ready >= minimum or ready + len(children) - index <= minimum:
                break
        return ready >= minimum

    @property
    def _trees(self) -> GroupTrees:
        return self.handle.pod_groups.trees

    @hookimpl
    def placement_feasible(self, group: GenericPodGroup, progress: GroupProgress) -> Status | None:
        minimum = minimum_of(group)
        if progress.scheduled >= minimum:
            return None
        counts = f"{progress.scheduled} scheduled, {progress.remaining} remaining"
        if progress.scheduled + progress.remaining < minimum:
            return unschedulable(f"minCount ({minimum}) cannot be satisfied: {counts}")
        return Status(Code.WAIT, (f"minCount ({minimum}) is not yet satisfied: {counts}",))

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        if not self.handle.feature_gates.has_pod_groups:
            return []
        pods, groups = (EventResource.UNSCHEDULED_POD, EventResource.ASSIGNED_POD), ActionType.ADD | ActionType.UPDATE
        events = [ClusterEvent(each, ActionType.ADD, affects=self.group_of_new_pod) for each in pods]
        events.append(ClusterEvent(EventResource.POD_GROUP, groups, affects=self.group_with_lower_minimum))
        if self.handle.feature_gates.has_group_trees:
            tree = EventResource.COMPOSITE_POD_GROUP
            events.append(ClusterEvent(tree, ActionType.ADD, affects=self.group_with_lower_minimum))
        return events

    def group_of_new_pod(self, old: PodInfo | None, new: PodInfo) -> tuple[str, ...]:
        """Return the group of a new pod, for all pods of its tree."""
        group = self._trees.get((POD_GROUP, new.namespace, new.group)) if new.group else None
        return () if group is None else (group.metadata.uid,)

    def group_with_lower_minimum(self, old: GenericPodGroup | None, new: GenericPodGroup) -> tuple[str, ...]:
        """Return a group that is new or whose minimum fell, for all pods of its tree."""
        is_as_hard = old is not None and _is_gang(old) and _is_gang(new) and minimum_of(new) >= minimum_of(old)
        return () if is_as_hard else (new.metadata.uid,)


def _is_gang(group: GenericPodGroup) -> bool:
    return group.spec.scheduling_policy.gang is not None
