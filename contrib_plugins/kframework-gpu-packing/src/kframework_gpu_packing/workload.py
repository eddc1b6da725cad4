"""The workload of the simulation: pods of 1, 2, 4 and 8 GPUs that come and go on a cluster of 8-GPU nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Protocol

from kframework.objects import ApiObject, Node, Pod
from kframework.testing import make_node, make_pod

GPU = "nvidia.com/gpu"
#: How frequent pods of so many GPUs are: each size makes up a quarter of the demand.
SIZES: Mapping[int, int] = {1: 8, 2: 4, 4: 2, 8: 1}
PER_NODE = 8
#: Pods come until so much of the GPUs is taken; then pods end until it is so much less.
FULL, EBB = 0.90, 0.85


class Cluster(Protocol):
    """What is needed of the cluster in memory that a scenario hands to its actions."""

    def add(self, subject: Pod) -> Pod:
        """Create a pod."""
        ...

    def read(self, kind: type[Pod], name: str, namespace: str) -> Pod:
        """Return a pod."""
        ...

    def remove(self, kind: type[ApiObject], name: str, namespace: str) -> None:
        """Delete a pod; one on a node first gets its grace period."""
        ...


def make_nodes(number: int) -> list[Node]:
    """Make the nodes of the cluster."""
    return [make_node(f"gpu-{place}", cpu=96, memory="768Gi", allocatable={GPU: PER_NODE}) for place in range(number)]


class Course:
    """What happens to the cluster, step by step; the scheduler has its say between two steps.

    In each step one pod comes. The one before it, if it found no room, is turned away. Whenever so many GPUs are taken
    that the cluster counts as full, the free ones are counted node by node, and pods drawn at random end. The first
    `warm_up` pods fill the cluster and shuffle it; nothing is counted until they have come.
    """

    def __init__(self, nodes: int, seed: int, warm_up: int) -> None:
        self._gpus = nodes * PER_NODE
        self._coming = Random(f"pods that come {seed}")
        self._going = Random(f"pods that go {seed}")
        self._warm_up = warm_up
        self._latest: Pod | None = None
        self._running: list[Pod] = []
        self._taken: Counter[str] = Counter({node.metadata.name: 0 for node in make_nodes(nodes)})
        self._came = 0
        #: The free GPUs of each node, every time the cluster was full though not to the last GPU.
        self.counts: list[list[int]] = []
        #: The GPUs that pods asked for, and those of them whose pod was turned away.
        self.asked: int = 0
        self.turned_away: int = 0

    def step(self, cluster: Cluster) -> None:
        """Let one pod come, after what follows from the one before."""
        if self._latest is not None:
            self._settle(cluster, self._latest)
        if self._taken.total() >= FULL * self._gpus:
            if self._counting and self._taken.total() < self._gpus:
                self.counts.append([PER_NODE - taken for taken in self._taken.values()])
            self._end_some(cluster)
        self._came += 1
        self._latest = cluster.add(self._pod())

    @property
    def _counting(self) -> bool:
        return self._came > self._warm_up

    def _settle(self, cluster: Cluster, pod: Pod) -> None:
        pod = cluster.read(Pod, pod.metadata.name, pod.metadata.namespace)
        placed = bool(pod.spec.node_name)
        if placed:
            self._running.append(pod)
            self._taken[pod.spec.node_name] += gpus_of(pod)
        else:
            cluster.remove(Pod, pod.metadata.name, pod.metadata.namespace)
        if self._counting:
            self.asked += gpus_of(pod)
            self.turned_away += 0 if placed else gpus_of(pod)

    def _end_some(self, cluster: Cluster) -> None:
        while self._taken.total() > EBB * self._gpus:
            pod = self._running.pop(self._going.randrange(len(self._running)))
            self._taken[pod.spec.node_name] -= gpus_of(pod)
            cluster.remove(Pod, pod.metadata.name, pod.metadata.namespace)

    def _pod(self) -> Pod:
        (gpus,) = self._coming.choices(list(SIZES), list(SIZES.values()))
        # At most 80 of 96 CPUs and 640 of 768 GiB for 8 GPUs, so that nothing but GPUs runs out.
        cpu, memory = gpus * self._coming.randint(2, 10), gpus * self._coming.randint(16, 80)
        return make_pod(f"pod-{self._came}", cpu=cpu, memory=f"{memory}Gi", requests={GPU: gpus})


def gpus_of(pod: Pod) -> int:
    """Return how many GPUs a pod of this workload asks for."""
    return int(pod.spec.containers[0].resources.requests[GPU])
