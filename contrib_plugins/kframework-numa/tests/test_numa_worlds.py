"""Random worlds in which pods come and go, bindings fail, reports are late, and the scheduler restarts at any time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from kframework_numa import NodeResourceTopology, NodeResourceTopologyMatch
from kframework_numa.testing import PUBLISHED, WITH_CACHE, Kubelets, guaranteed_pod

from kframework import CycleState, PendingPod, Plugin, Status, hookimpl, unschedulable
from kframework.engine import MemoryCluster
from kframework.objects import ApiObject, Node, Pod
from kframework.testing import Scenario, create, make_node
from tests.support.scale import seeds

ZONES = {"n0": (4, 4), "n1": (8, 8), "n2": (4, 4, 4, 4)}


class Unlucky(Plugin):
    """Bind every fifth pod only at a later attempt."""

    name = "Unlucky"

    @hookimpl
    def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        return unschedulable("bad luck") if self.handle.random.random() < 0.2 else None


class World:
    """A cluster whose pods come and go at random, and whose agents report now and then."""

    def __init__(self, seed: int, config: str) -> None:
        self.kubelets = Kubelets(ZONES)
        self.random = Random(seed)
        self._config = config.replace("      enabled:\n", "      enabled:\n      - name: Unlucky\n")
        self.objects: list[ApiObject] = [make_node(name, cpu=sum(cpus), memory="64Gi") for name, cpus in ZONES.items()]
        self.objects += self.kubelets.reports()

    def run(self, seconds: int) -> None:
        """Start a scheduler on the cluster as it is, and keep what it leaves."""
        scenario = Scenario(objects=self.objects, plugins=[NodeResourceTopologyMatch, Unlucky], config=self._config)
        for second in range(seconds):
            # A kubelet sees its pods before they can end.
            scenario.at(second + 0.9, self.kubelets.admit)
            if self.random.random() < 0.4:
                cpus = [{"cpu": self.random.randint(1, 4)} for _ in range(self.random.randint(1, 2))]
                pod = guaranteed_pod(f"pod-{self.random.randrange(1 << 40)}", *cpus)
                scenario.at(second + self.random.random() / 2, create(pod))
            if self.random.random() < 0.3:
                scenario.at(second + 0.95, self._end_a_pod)
            if self.random.random() < 0.15:
                scenario.at(second + 0.97, self.kubelets.publish)
        cluster = scenario.run(until=seconds).cluster
        self.objects = [obj for kind in (Node, NodeResourceTopology, Pod) for obj in cluster.objects(kind)]

    @property
    def _end_a_pod(self) -> Callable[[MemoryCluster], object]:
        lot = self.random.random()

        def run(cluster: MemoryCluster) -> None:
            running = [pod for pod in cluster.objects(Pod) if pod.spec.node_name and pod.status.phase != "Succeeded"]
            if running:
                metadata = running[int(lot * len(running))].metadata
                cluster.merge(Pod, metadata.name, {"status": {"phase": "Succeeded"}}, metadata.namespace)

        return run


@pytest.mark.parametrize("seed", seeds(22))
def test_no_zone_is_over_reserved(seed: int) -> None:
    world = World(seed, WITH_CACHE)
    for _ in range(3):
        world.run(world.random.randint(30, 90))
    assert world.kubelets.refused == [], "a zone was over-reserved"
    assert world.kubelets.admitted > 10


def test_these_worlds_refuse_pods_without_the_cache() -> None:
    world = World(0, PUBLISHED)
    world.run(120)
    assert world.kubelets.refused
