"""What preemption evicts as a whole: a pod, or a group with the disruption mode `all`, wherever its pods run."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache

from kframework.clock import seconds_of
from kframework.framework.handle import VictimRules
from kframework.objects import CompositePodGroup, GenericPodGroup
from kframework.state.cluster import ClusterState
from kframework.state.group_trees import POD_GROUP, entity_key
from kframework.state.pods import PodInfo

#: Pods that are evicted together, or none of them.
Unit = tuple[PodInfo, ...]

#: Smaller for a more important unit: priority, trees before groups before pods, size, start, namespace and name.
Importance = tuple[int, int, int, float, str, str]

#: A priority that no pod reaches.
_HIGHEST = 1 << 31

_seconds = lru_cache(maxsize=1 << 14)(seconds_of)


def start_time(pod: PodInfo) -> float:
    """Return when the pod started, in seconds since 1970; a pod that has not started counts as the youngest.

    kube-scheduler uses the current time instead, which is the same if the clocks of the cluster agree.
    """
    return _seconds(pod.start_time) if pod.start_time is not None else math.inf


class Units:
    """The units of the pods on nodes; without the gate GenericWorkload each pod is one.

    `exempt` returns whether a pod is never a victim.
    """

    def __init__(self, cluster: ClusterState, exempt: Callable[[PodInfo], bool] | None) -> None:
        self._cluster = cluster
        self._trees = cluster.groups.trees if cluster.feature_gates.has_pod_groups else None
        self.exempt: Callable[[PodInfo], bool] | None = exempt

    @property
    def may_span_nodes(self) -> bool:
        """Whether a unit may have pods on several nodes."""
        return self._trees is not None and any(map(_is_whole, self._trees))

    def priority(self, pod: PodInfo) -> int:
        """Return the priority of the root of the pod's group, or of the pod itself."""
        path = self._path(pod)
        return path[-1].spec.priority or 0 if path else pod.priority

    def preemptor(self, pod: PodInfo) -> str:
        """Return the uid of the root of the pod's group, which preempts as a whole, or of the pod itself."""
        path = self._path(pod)
        return path[-1].metadata.uid if path else pod.uid

    def evictable(self, priority: int, pods: Collection[PodInfo], rules: VictimRules | None) -> list[Unit]:
        """List the units of these pods that a preemptor of this priority may evict, by the rules if there are any."""
        if rules is None:
            return self.below(priority, pods)
        units, removed = list[Unit](), list[PodInfo]()
        for unit in sorted(self.below(_HIGHEST, pods), key=self.importance, reverse=True):
            if all(rules.may_evict(pod, removed) for pod in unit):
                units.append(unit)
                removed += unit
        return units

    def below(self, priority: int, pods: Iterable[PodInfo]) -> list[Unit]:
        """List the units of lower priority that these pods belong to."""
        exempt = self.exempt
        if self._trees is None:
            return [(pod,) for pod in pods if pod.priority < priority and (exempt is None or not exempt(pod))]
        units: dict[object, Unit] = {}
        for pod in pods:
            if self.priority(pod) < priority:
                whole = self._whole(pod)
                key = self._key(pod, whole)
                units[key] = units.get(key) or self._unit_of(pod, whole)
        return [unit for unit in units.values() if exempt is None or not any(map(exempt, unit))]

    def may_have_victims(self, priority: int) -> bool:
        """Return whether there may be units of lower priority; those of groups are not known by their pods."""
        return self._trees is not None or any(each < priority for each in self._cluster.priorities)

    def count_groups(self, pods: Iterable[PodInfo]) -> int:
        """Count the units of these pods that belong to a group: a whole group, or a pod of one."""
        return len({self._key(pod, self._whole(pod)) for pod in pods if pod.group})

    def importance(self, unit: Unit) -> Importance:
        """Return the sort key of a unit: the most important one comes first, the longest running of equal ones."""
        pod = unit[0]
        whole = self._whole(pod) if pod.group else None
        if whole is None:
            return -self.priority(pod), 2, -1, start_time(pod), pod.namespace, pod.name
        rank = 0 if isinstance(whole, CompositePodGroup) else 1
        return -self.priority(pod), rank, -len(unit), min(map(start_time, unit)), pod.namespace, pod.name

    def _path(self, pod: PodInfo) -> Sequence[GenericPodGroup]:
        """Return the pod's group and those above it, as far as they are known."""
        return self._trees.path((POD_GROUP, pod.namespace, pod.group)) if self._trees is not None and pod.group else ()

    def _whole(self, pod: PodInfo) -> GenericPodGroup | None:
        """Return the highest group of the pod that is evicted as a whole."""
        return next(filter(_is_whole, reversed(self._path(pod))), None)

    def _key(self, pod: PodInfo, whole: GenericPodGroup | None) -> object:
        return pod.uid if whole is None else entity_key(whole)

    def _unit_of(self, pod: PodInfo, whole: GenericPodGroup | None) -> Unit:
        if whole is None:
            return (pod,)
        pods = (self._cluster.pods[uid] for uid in self._cluster.groups.scheduled(whole))
        return tuple(each for each in pods if each.row >= 0)


def _is_whole(group: GenericPodGroup) -> bool:
    mode = group.spec.disruption_mode
    return mode is not None and mode.all is not None
