"""Together: the pods of a group start together or not at all.

A pod belongs to a group by its label `together.example.com/group`; the label `together.example.com/size` says how many
pods the group needs. A group lives in one namespace.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kframework import (
    ActionType,
    ClusterEvent,
    CycleState,
    EventResource,
    Handle,
    NodeTable,
    PendingPod,
    Plugin,
    PluginArgs,
    PodInfo,
    Status,
    Wait,
    hookimpl,
    unresolvable,
)

__all__ = ["GROUP", "SIZE", "Together", "TogetherArgs"]

GROUP = "together.example.com/group"
SIZE = "together.example.com/size"


class TogetherArgs(PluginArgs):
    """What `pluginConfig` may say: `timeoutSeconds`, how long a pod keeps its place for the rest of its group."""

    # The framework waits 15 minutes at most.
    timeout_seconds: Annotated[float, Field(gt=0, le=900)] = 30


#: A group is named by its namespace and its label.
Group = tuple[str, str]


class Together(Plugin[TogetherArgs]):
    """Let a pod wait, with its place on a node reserved, until its whole group has places."""

    name = "Together"

    def __init__(self, args: TogetherArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        # Members that lost their place, by uid. A pod that was deleted meanwhile stays until its group is tried again:
        # to wake it does nothing.
        self._rejected: dict[Group, dict[str, PodInfo]] = {}

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        # Refuse nonsense early: unresolvable, because no node and no preemption makes up for it.
        if GROUP in pod.labels and _size(pod) < 1:
            return unresolvable(f"label {SIZE} must be the number of pods in the group")
        return None

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | Wait | None:
        group = _group(pod)
        if group is None:
            return None
        if self._count_placed(group) < _size(pod):
            # The pod keeps its place, and others are scheduled meanwhile. Members that failed earlier try again now:
            # this one may be what they lacked.
            rejected = self._rejected.pop(group, {})
            rejected.pop(pod.uid, None)
            self.handle.activate(rejected.values())
            return Wait(self.args.timeout_seconds)
        # The last one opens the door for those that wait, and walks through itself.
        for waiting in self.handle.waiting_pods():
            if _group(waiting.pod) == group:
                waiting.allow(self.name)
        return None

    @hookimpl
    def unreserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        # The pod lost its place: it timed out here, or something failed behind us. The group cannot be complete without
        # it, so nobody need wait any longer. The others come by here in their turn; to reject twice does nothing.
        group = _group(pod)
        if group is None:
            return
        self._rejected.setdefault(group, {})[pod.uid] = pod
        for waiting in self.handle.waiting_pods():
            if _group(waiting.pod) == group:
                waiting.reject(self.name, f"{pod.name} of the same group lost its place")

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        # The next member to find a place wakes the others, see `permit`. All that is left for the cluster to cure is a
        # label that makes no sense.
        return [ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_LABEL)]

    def _count_placed(self, group: Group) -> int:
        """Count the members that have a place on a node; the pod at hand is one of them already.

        This looks at every pod of the cluster, though only for pods of a group. What the handle shows is right after a
        restart too; books kept in `reserve` would start empty.
        """
        return sum(_group(pod) == group for pod in self.handle.pods.values())


def _group(pod: PodInfo) -> Group | None:
    name = pod.labels.get(GROUP)
    return None if name is None else (pod.namespace, name)


def _size(pod: PodInfo) -> int:
    text = pod.labels.get(SIZE, "")
    return int(text) if text.isdecimal() else 0
