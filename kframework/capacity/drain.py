"""What happens if nodes are drained, or pods evicted: the evicted pods are recreated and scheduled again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import ClassVar

from kframework.capacity.workload import pod_key
from kframework.client.transitions import has_ended
from kframework.core.pod_engine import PodEngine
from kframework.errors import ClusterError, InputError, nearest_name
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import MemoryController
from kframework.in_memory.disruptions import DisruptionController, evict, find_budget
from kframework.in_memory.kind_store import Change
from kframework.in_memory.recreation import create_recreation
from kframework.objects import ApiObject, Node, Pod, PodDisruptionBudget
from kframework.objects.label_selectors import Selector
from kframework.simulation.controllers import ControllerFactory
from kframework.simulation.simulation import Simulation

#: The annotation of static pods, whose kubelet creates them again.
_MIRROR = "kubernetes.io/config.mirror"


class Evictions(MemoryController):
    """Evicts pods as soon as their budgets allow it.

    Attributes:
        blocked: the budget, or the error, that each pod still waits for, by `namespace/name`.
    """

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Pod, PodDisruptionBudget)

    def __init__(self, cluster: MemoryCluster) -> None:
        super().__init__(cluster)
        self._pods: list[Pod] = []
        self.blocked: Mapping[str, str] = {}

    @property
    def idle(self) -> bool:
        return not self._wake.is_set()

    def begin(self, pods: Iterable[Pod]) -> None:
        """Evict these pods, in order."""
        self._pods += pods
        self._wake.set()

    def cancel(self) -> None:
        """Evict no more pods."""
        self._pods, self.blocked = [], {}

    def _receive(self, change: Change) -> None:
        self._wake.set()

    def _work(self) -> None:
        blocked: dict[str, str] = {}
        waiting: list[Pod] = []
        for pod in self._pods:
            metadata = pod.metadata
            now = self._cluster.find(Pod, metadata.name, metadata.namespace)
            if now is None or now.metadata.uid != metadata.uid or now.metadata.deletion_timestamp is not None:
                continue
            obstacle = self._evict(now)
            if obstacle:
                blocked[pod_key(pod)] = obstacle
                waiting.append(pod)
        self._pods, self.blocked = waiting, blocked

    def _evict(self, pod: Pod) -> str:
        """Evict a pod, or return what forbids it."""
        try:
            budget = find_budget(self._cluster, pod)
        except ClusterError as error:
            return str(error)
        if budget is not None and budget.status.disruptions_allowed <= 0:
            return f"PodDisruptionBudget {budget.metadata.name}"
        evict(self._cluster, pod, budget)
        return ""


class Drainer:
    """Drains nodes and evicts pods in the simulation that runs its controllers."""

    def __init__(self) -> None:
        self._evictions: Evictions

    @property
    def controllers(self) -> Sequence[ControllerFactory]:
        """The controllers that the simulation needs."""
        return (
            lambda cluster, clock: DisruptionController(cluster),
            create_recreation,
            self._create_evictions,
        )

    def _create_evictions(self, cluster: MemoryCluster, clock: object) -> Evictions:
        self._evictions = Evictions(cluster)
        return self._evictions

    def drain(self, simulation: Simulation[PodEngine], nodes: Collection[str]) -> None:
        """Cordon nodes, and begin to evict their pods; InputError for an unknown node."""
        table, cluster = simulation.scheduler.engine.cluster.nodes, simulation.cluster
        for name in nodes:
            node = table.find(name)
            if node is None:
                nearest = nearest_name(name, [each.metadata.name for each in simulation.objects(Node)])
                raise InputError(f"there is no node {name!r} to drain", nearest=nearest)
            simulation.patch(Node, name, {"spec": {"unschedulable": True}})
            pods = [cluster.read(Pod, each.name, each.namespace) for each in node.pods]
            self._evictions.begin(filter(is_movable, pods))

    def evict(self, simulation: Simulation, selector: Selector) -> None:
        """Begin to evict the pods on nodes that a selector selects."""
        pods = (pod for pod in simulation.objects(Pod) if pod.spec.node_name and not has_ended(pod))
        self._evictions.begin(pod for pod in pods if selector.matches(pod.metadata.labels))

    def cancel(self) -> None:
        """Evict no more pods."""
        self._evictions.cancel()

    @property
    def blocked(self) -> Mapping[str, str]:
        """The pods that stay, by what forbids their eviction."""
        return self._evictions.blocked


def is_movable(pod: Pod) -> bool:
    """Return whether a drain evicts a pod: not if it has ended, or would be created again on the same node."""
    owner = pod.metadata.controlling_owner
    belongs_to_node = owner is not None and owner.kind == "DaemonSet"
    return not (has_ended(pod) or belongs_to_node or _MIRROR in pod.metadata.annotations)
