"""Coscheduling and CapacityScheduling in one profile: each holds pods back that the other lets go."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from kframework_capacity_scheduling import CapacityScheduling, ElasticQuota
from kframework_capacity_scheduling.testing import quota
from kframework_coscheduling import Coscheduling
from kframework_coscheduling.pod_groups import LABEL

from kframework import CycleState, PendingPod, Plugin, hookimpl
from kframework.engine import MemoryCluster
from kframework.objects import Node, Pod, ResourceList, milli
from kframework.testing import Scenario, make_node, patch
from tests.support.gangs import group, members, slots
from tests.support.scale import seeds

#: Events happen until then; the scheduler has the rest of the time, in seconds.
EVENTFUL, END = 300, 1000


def test_gang_starts_when_its_quota_grows() -> None:
    team = quota("team", min=8, max=2)
    world = Scenario(
        nodes=slots(6),
        pods=members("red", 3, namespace="team"),
        objects=[group("red", 3, namespace="team"), team],
        plugins=[Coscheduling, CapacityScheduling],
    )
    result = world.at(60, patch(team, {"spec": {"max": {"cpu": 3}}})).run(until=100)
    assert all(result.node_of(f"team/red-{index}") for index in range(3))


class Auditor(Plugin):
    """Fail where a pod exceeds the `max` of its quota, or what all quotas guarantee together."""

    name = "Auditor"

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        used = Counter(other.namespace for other in self.handle.pods.values())
        quotas = {each.metadata.namespace: each.spec for each in self.handle.objects(ElasticQuota)}
        assert used[pod.namespace] <= _slots(quotas[pod.namespace].max, 99), f"{pod.key} exceeds max"
        assert used.total() <= sum(_slots(each.min, 0) for each in quotas.values()), f"{pod.key} exceeds the sum of min"


def _slots(amounts: ResourceList, unnamed: int) -> int:
    return milli(amounts["cpu"]) // 1000 if "cpu" in amounts else unnamed


class World:
    """Nodes of some slots, and gangs of pods of one slot in two namespaces, whose quotas change."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"gangs in quotas {seed}")
        self.minimums: dict[str, int] = {}
        nodes = [make_node(f"node-{index}", cpu=self.random.randint(2, 4)) for index in range(3)]
        objects = [self._quota(namespace) for namespace in "ab"]
        self.scenario = Scenario(nodes=nodes, objects=objects, plugins=[Coscheduling, CapacityScheduling, Auditor])
        for change in [self._add_gang] * 12 + [self._delete_gang] * 6 + [self._change_quota] * 6:
            self.scenario.at(self.random.uniform(0, EVENTFUL), change)

    def _quota(self, namespace: str) -> ElasticQuota:
        least = self.random.randint(1, 6)
        return quota(namespace, least, self.random.choice([None, least, least + 2]))

    def _add_gang(self, cluster: MemoryCluster) -> None:
        name, namespace, size = f"gang{len(self.minimums)}", self.random.choice("ab"), self.random.randint(1, 5)
        self.minimums[name] = minimum = self.random.randint(1, size)
        cluster.add(group(name, minimum, namespace=namespace))
        for pod in members(name, size, namespace=namespace, preemption_policy="Never"):
            cluster.add(pod)

    def _delete_gang(self, cluster: MemoryCluster) -> None:
        if self.minimums:
            name = self.random.choice(list(self.minimums))
            for pod in cluster.objects(Pod):
                if pod.metadata.labels.get(LABEL) == name:
                    cluster.remove(Pod, pod.metadata.name, pod.metadata.namespace)

    def _change_quota(self, cluster: MemoryCluster) -> None:
        new = self._quota(self.random.choice("ab"))
        patch(new, {"spec": {"min": dict(new.spec.min), "max": {"cpu": None, **new.spec.max}}})(cluster)


@pytest.mark.parametrize("seed", seeds(30))
def test_gangs_are_whole_within_quotas_and_what_fits_is_scheduled(seed: int) -> None:
    world = World(seed)
    result = world.scenario.run(until=END)
    assert not [decision.message for decision in result.decisions if "exceeds" in decision.message]
    pods = result.cluster.objects(Pod)
    running = Counter(pod.metadata.labels[LABEL] for pod in pods if pod.spec.node_name)
    used = Counter(pod.metadata.namespace for pod in pods if pod.spec.node_name)
    quotas = {each.metadata.namespace: each.spec for each in result.cluster.objects(ElasticQuota)}
    slots = sum(milli(node.status.allocatable["cpu"]) // 1000 for node in result.cluster.objects(Node))
    free = min(slots, sum(_slots(each.min, 0) for each in quotas.values())) - used.total()
    for name, namespace in {(pod.metadata.labels[LABEL], pod.metadata.namespace) for pod in pods}:
        pending = sum(pod.metadata.labels[LABEL] == name and not pod.spec.node_name for pod in pods)
        needed = max(world.minimums[name] - running[name], 1)
        assert running[name] == 0 or running[name] >= world.minimums[name]
        has_room = needed <= free and used[namespace] + needed <= _slots(quotas[namespace].max, 99)
        assert pending < needed or not has_room, f"{name} waits with {free} slots free"
