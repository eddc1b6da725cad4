"""What preemption evicts as a whole: a pod, or a PodGroup with the disruption mode `all`, wherever its pods run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache

from kframework.clock import seconds_of
from kframework.objects import PodGroup
from kframework.state.cluster import ClusterState
from kframework.state.pods import PodInfo

#: Pods that are evicted together, or none of them.
Unit = tuple[PodInfo, ...]

#: Smaller for a more important unit: priority, whole groups before pods, size, start, namespace and name.
Importance = tuple[int, bool, int, float, str, str]

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
        self._groups = cluster.objects(PodGroup) if cluster.feature_gates.has_pod_groups else None
        self._exempt = exempt

    @property
    def may_span_nodes(self) -> bool:
        """Whether a unit may have pods on several nodes."""
        return self._groups is not None and any(map(_is_whole, self._groups))

    def priority(self, pod: PodInfo) -> int:
        """Return the priority of the pod's group, or of the pod itself."""
        group = self._group_of(pod)
        return pod.priority if group is None else group.spec.priority or 0

    def preemptor(self, pod: PodInfo) -> str:
        """Return the uid of the pod's group, which preempts as a whole, or of the pod itself."""
        group = self._group_of(pod)
        return pod.uid if group is None else group.metadata.uid

    def below(self, priority: int, pods: Iterable[PodInfo]) -> list[Unit]:
        """List the units of lower priority that these pods belong to."""
        exempt = self._exempt
        if self._groups is None:
            return [(pod,) for pod in pods if pod.priority < priority and (exempt is None or not exempt(pod))]
        units: dict[object, Unit] = {}
        for pod in pods:
            if self.priority(pod) < priority:
                key = (pod.namespace, pod.group) if _is_whole(self._group_of(pod)) else pod.uid
                units[key] = units.get(key) or self._unit_of(pod)
        return [unit for unit in units.values() if exempt is None or not any(map(exempt, unit))]

    def count_groups(self, pods: Iterable[PodInfo]) -> int:
        """Count the units of these pods that belong to a group: a whole group, or a pod of one."""
        whole = {pod: _is_whole(self._group_of(pod)) for pod in pods if pod.group}
        return len({(pod.namespace, pod.group) if is_whole else (pod.uid, "") for pod, is_whole in whole.items()})

    def importance(self, unit: Unit) -> Importance:
        """Return the sort key of a unit: the most important one comes first, the longest running of equal ones."""
        pod = unit[0]
        if self._groups is None or not pod.group:
            return -pod.priority, True, -1, start_time(pod), pod.namespace, pod.name
        is_pod = not _is_whole(self._group_of(pod))
        return -self.priority(pod), is_pod, -len(unit), min(map(start_time, unit)), pod.namespace, pod.name

    def _group_of(self, pod: PodInfo) -> PodGroup | None:
        return self._groups.get(pod.group, pod.namespace) if self._groups is not None and pod.group else None

    def _unit_of(self, pod: PodInfo) -> Unit:
        if not _is_whole(self._group_of(pod)):
            return (pod,)
        members = self._cluster.groups.members(pod.namespace, pod.group)
        pods = (self._cluster.pods[uid] for uid in (*members.assigned, *members.assumed))
        return tuple(each for each in pods if each.row >= 0)


def _is_whole(group: PodGroup | None) -> bool:
    mode = None if group is None else group.spec.disruption_mode
    return mode is not None and mode.all is not None
