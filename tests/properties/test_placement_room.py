"""Counting the pods that fit into each placement decides as walking over all of them does, and says the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest
from msgspec.structs import replace

from kframework import NodeTable, Plugin, Simulation, Status, hookimpl, unschedulable
from kframework.config.configuration import Configuration
from kframework.config.load import parse
from kframework.core.cycle.records import Binding, Decision, GroupDecision, GroupObserver, Observer
from kframework.core.cycle.rotation import WalkStart
from kframework.core.groups import cycle
from kframework.core.groups.placement_room import FullPlacement, PlacementRoom
from kframework.framework.answers import GroupPlacement, GroupProgress, PlacedGroup
from kframework.framework.suspendable import Suspendable
from kframework.objects import (
    GenericPodGroup,
    Node,
    ObjectMeta,
    Pod,
    Service,
    ServiceSpec,
)
from kframework.testing import make_node, make_pod
from tests.support.groups import apart, basic, gang, in_one, members
from tests.support.scale import seeds


class OddGroups(Plugin):
    """Schedules groups of an odd number of pods only, and scores placements by the names of the pods' nodes."""

    name = "OddGroups"

    @hookimpl
    def placement_feasible(self, group: GenericPodGroup, progress: GroupProgress) -> Status | None:
        if progress.remaining or progress.scheduled % 2:
            return None
        return unschedulable(f"{progress.scheduled} pods are even")

    @hookimpl
    def placement_score(self, group: GenericPodGroup, placed: Sequence[PlacedGroup], nodes: NodeTable) -> list[int]:
        return [sum(map(ord, "".join(node for _, node in each.nodes))) % 100 for each in placed]


#: Its pods are spread by default, which is a preference.
SERVICE = Service(
    metadata=ObjectMeta(name="service", namespace="default"), spec=ServiceSpec(selector={"served": "yes"})
)

PROFILES = (
    "{}",
    "{percentageOfNodesToScore: 50, plugins: {multiPoint: {enabled: [{name: OddGroups}]}}}",
    "{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}}",
    "{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [example.com/gpu]}}]}",
)


def configuration(profile: str) -> Configuration:
    return parse(f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{profile}]
---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
featureGates: {{GenericWorkload: true, TopologyAwareWorkloadScheduling: true}}
""")


class Records(Observer, GroupObserver):
    """Keeps what was decided, without the times that it took."""

    def __init__(self) -> None:
        self.decided: list[object] = []

    def on_decision(self, decision: Decision) -> None:
        self.decided.append(replace(decision, timings=(), started=0, plugins=()))

    def on_binding(self, binding: Binding) -> None:
        self.decided.append((binding.pod, binding.node))

    def on_group_decision(self, decision: GroupDecision) -> None:
        self.decided.append(replace(decision, timings=(), started=0, took=0))


class World:
    """Groups that come and go by chance, on racks that others use too."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.racks = [f"r{number}" for number in range(random.randint(2, 5))]
        self.records = Records()
        self.simulation = Simulation(
            [SERVICE, make_node("bare", cpu=8), *self.make_nodes()],
            config=configuration(PROFILES[seed % len(PROFILES)]),
            plugins=[OddGroups],
            observers=[self.records],
            seed=seed,
        )

    def make_nodes(self) -> list[Node]:
        """Make racks of nodes, some small, closed or tainted."""
        random = self.random
        return [
            make_node(
                f"{rack}-{number}",
                cpu=random.randint(1, 6),
                memory=f"{random.randint(1, 6)}Gi",
                pods=random.randint(2, 6),
                allocatable={"example.com/gpu": random.randint(0, 3)},
                labels={"rack": rack},
                unschedulable=random.random() < 0.1,
                taints=("k=v:NoSchedule",) if random.random() < 0.2 else (),
            )
            for rack in self.racks
            for number in range(random.randint(1, 4))
        ]

    def run(self) -> list[object]:
        for number in range(12):
            self.new_group(f"g{number}")
            if self.random.random() < 0.4:
                self.new_single(f"s{number}")
            if self.random.random() < 0.3:
                self.delete_pod()
            # Some time: how far the cycles of a moment get depends on the turns that they give.
            self.simulation.run(self.random.choice((0.1, 0.5, 3.0)))
        self.simulation.run(20.0)
        return self.records.decided

    def new_group(self, name: str) -> None:
        random, size = self.random, self.random.randint(1, 6)
        priority = random.choice((0, 0, 5))
        group = basic(name) if random.random() < 0.3 else gang(name, random.randint(1, size))
        group = replace(group, spec=replace(group.spec, priority=priority))
        self.simulation.create(in_one("rack", group) if random.random() < 0.9 else group)
        kinds = [self.requests() for _ in range(random.choice((1, 1, 1, 2, 3)))]
        rules, labels = random.random() < 0.1, random.choice(({}, {"served": "yes"}))
        for index, pod in enumerate(members(name, size, priority=priority)):
            pod = with_amounts(pod, kinds[index * len(kinds) // size])
            pod = replace(pod, metadata=replace(pod.metadata, labels=labels))
            self.simulation.create(apart(pod) if rules else pod)

    def requests(self) -> dict[str, str]:
        random = self.random
        gpus = {"example.com/gpu": "1"} if random.random() < 0.3 else {}
        return {"cpu": random.choice(("0", "500m", "1", "2")), "memory": random.choice(("0", "512Mi", "1Gi")), **gpus}

    def new_single(self, name: str) -> None:
        pod = make_pod(name, cpu=self.random.choice(("1", "2")), priority=self.random.choice((0, 9)))
        self.simulation.create(apart(pod) if self.random.random() < 0.2 else pod)

    def delete_pod(self) -> None:
        names = sorted(pod.metadata.name for pod in self.simulation.objects(Pod))
        if names:
            self.simulation.delete(Pod, self.random.choice(names))


def with_amounts(pod: Pod, requests: dict[str, str]) -> Pod:
    (container,) = pod.spec.containers
    container = replace(container, resources=replace(container.resources, requests=requests, limits={}))
    return replace(pod, spec=replace(pod.spec, containers=(container,)))


def know_nothing(*arguments: object) -> Suspendable[PlacementRoom | None]:
    """Let the cycle walk over every placement."""
    yield from ()
    return None


def difference(seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[object, object] | None:
    """Return the first records that differ between counting and walking."""
    counted = World(seed).run()
    with monkeypatch.context() as patch:
        patch.setattr(cycle, "measure_room", know_nothing)
        walked = World(seed).run()
    differing = (pair for pair in zip(counted, walked, strict=False) if pair[0] != pair[1])
    return next(differing, None if len(counted) == len(walked) else (len(counted), len(walked)))


@pytest.mark.parametrize("seed", seeds(60))
def test_counting_decides_as_walking_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert difference(seed, monkeypatch) is None


# -- planted faults --------------------------------------------------------------------------------------------------


def count_one_pod_too_many(patch: pytest.MonkeyPatch) -> None:
    count = PlacementRoom.count

    def count_more(room: PlacementRoom, placements: Sequence[GroupPlacement]) -> list[int | None]:
        return [each and min(each + 1, room._number) for each in count(room, placements)]

    patch.setattr(PlacementRoom, "count", count_more)


def begin_walks_where_the_last_one_ended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WalkStart, "restore", lambda start: None)


def wait_for_no_plugin(patch: pytest.MonkeyPatch) -> None:
    explain = PlacementRoom.explain

    def explain_nothing(room: PlacementRoom, placement: GroupPlacement) -> FullPlacement:
        return replace(explain(room, placement), rejectors=frozenset())

    patch.setattr(PlacementRoom, "explain", explain_nothing)


@pytest.mark.parametrize("plant", [count_one_pod_too_many, begin_walks_where_the_last_one_ended, wait_for_no_plugin])
def test_planted_fault_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert any(difference(seed, monkeypatch) for seed in range(20))
