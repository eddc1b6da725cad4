"""Random clusters with faults: gangs are whole or hold nothing, and what fits is scheduled."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from kframework_coscheduling import Coscheduling
from kframework_coscheduling.pod_groups import LABEL

from kframework import ClusterError
from kframework.engine import MemoryCluster
from kframework.in_memory.cluster import Fault
from kframework.objects import ApiObject, Node, Pod, milli
from kframework.testing import Scenario, ScenarioResult, make_node, make_pod
from tests.support.gangs import group, members
from tests.support.scale import seeds

#: Events happen until then; after that the scheduler has the rest of the time to come to an end, in seconds.
EVENTFUL, END = 400, 1200
#: How long gangs may hold nodes without being whole, in seconds.
TIMEOUT = 30
#: Calls that may fail before or after they have done their work.
UNRELIABLE = {"bind", "patch_status", "patch_pod_status", "list"}


class World:
    """Nodes of some slots, gangs and single pods of one slot each, which all come and go at random."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"gangs {seed}")
        self.minimums: dict[str, int] = {}
        nodes = [
            make_node(f"node-{index}", cpu=self.random.randint(1, 3)) for index in range(self.random.randint(2, 4))
        ]
        self.scenario = Scenario(nodes=nodes, plugins=[Coscheduling])
        self.scenario.at(0, lambda cluster: cluster.faults.append(self._fault))
        for _ in range(12):
            self.scenario.at(
                self.random.uniform(0, EVENTFUL), self.random.choice([self._add_gang] * 3 + [self._add_pod])
            )
        for _ in range(4):
            self.scenario.at(self.random.uniform(0, EVENTFUL), self._add_node)
        for _ in range(8):
            self.scenario.at(self.random.uniform(0, EVENTFUL), self._delete_one)

    def _fault(self, method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        if method not in UNRELIABLE or self.random.random() > 0.1:
            return None
        return Fault(error=ClusterError("no answer", status=0), delay=0.5, done=self.random.random() < 0.5)

    def _add_gang(self, cluster: MemoryCluster) -> None:
        name, size = f"gang{len(self.minimums)}", self.random.randint(1, 5)
        self.minimums[name] = minimum = self.random.randint(1, size)
        priority = self.random.choice([0, 0, 0, 5])
        objects: list[ApiObject] = [
            group(name, minimum, schedule_timeout_seconds=TIMEOUT),
            *members(name, size, priority=priority, preemption_policy="Never"),
        ]
        self.random.shuffle(objects)
        for each in objects:
            cluster.add(each)

    def _add_pod(self, cluster: MemoryCluster) -> None:
        cluster.add(make_pod(f"single-{cluster.version}", cpu=1, preemption_policy="Never"))

    def _add_node(self, cluster: MemoryCluster) -> None:
        cluster.add(make_node(f"late-{cluster.version}", cpu=self.random.randint(1, 2)))

    def _delete_one(self, cluster: MemoryCluster) -> None:
        """Delete a single pod, or all of a gang."""
        pods = cluster.objects(Pod)
        if pods:
            chosen = self.random.choice(pods)
            gang = chosen.metadata.labels.get(LABEL)
            for pod in [each for each in pods if gang and each.metadata.labels.get(LABEL) == gang] or [chosen]:
                cluster.remove(Pod, pod.metadata.name, pod.metadata.namespace)


def bound(pods: list[Pod]) -> Counter[str]:
    return Counter(pod.metadata.labels.get(LABEL, "") for pod in pods if pod.spec.node_name)


def check(world: World, result: ScenarioResult) -> None:
    pods = result.cluster.objects(Pod)
    running = bound(pods)
    for name, minimum in world.minimums.items():
        assert running[name] == 0 or running[name] >= minimum, f"{name} runs {running[name]} of {minimum} pods"
    slots = sum(milli(node.status.allocatable["cpu"]) // 1000 for node in result.cluster.objects(Node))
    free = slots - running.total()
    for name in {pod.metadata.labels.get(LABEL, "") for pod in pods if not pod.spec.node_name}:
        pending = sum(pod.metadata.labels.get(LABEL, "") == name and not pod.spec.node_name for pod in pods)
        needed = max(world.minimums[name] - running[name], 1) if name else 1
        assert needed > free or pending < needed, f"{name or 'a pod'} waits with {free} slots free"
    for binding in result.bindings:
        assert binding.waited <= TIMEOUT + 1, f"{binding.pod} held its node for longer"


@pytest.mark.parametrize("seed", seeds(40))
def test_gangs_are_whole_or_hold_nothing_and_what_fits_is_scheduled(seed: int) -> None:
    world = World(seed)
    check(world, world.scenario.run(until=END))
