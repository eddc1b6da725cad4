"""The pods that fit into each placement are counted without a search for each, and only the best one is walked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from kframework import CycleState, NodeInfo, NodeTable, PendingPod, Plugin, Simulation, Status, hookimpl, unschedulable
from kframework.config.load import parse
from kframework.core.cycle.search import Search
from kframework.core.groups.walk import FindNode, WalkedPod
from kframework.framework.answers import PlacedGroup
from kframework.framework.suspendable import Suspendable
from kframework.objects import (
    ApiObject,
    GenericPodGroup,
    Node,
    ObjectMeta,
    Pod,
    Service,
    ServiceSpec,
)
from kframework.testing import make_node
from kframework.values.scores import Rows, Scores
from tests.core.groups.test_cycle import condition, messages, places
from tests.support.groups import apart, gang, in_one, members


class ThreeToANode(Plugin):
    """Lets three pods onto a node; those that count like pods say how many more that are."""

    name = "ThreeToANode"
    reads = "pods"

    @hookimpl
    def sign(self, pod: PendingPod) -> str:
        return ""

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return unschedulable("node(s) had three pods") if len(node.pods) >= 3 else None


class CountsToThree(ThreeToANode):
    """The same with the form for many pods."""

    name = "CountsToThree"

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        return (nodes.requested("pods")[rows] >= 3).astype("int64")

    @hookimpl
    def filter_more(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows, added: Scores) -> Scores:
        return (nodes.requested("pods")[rows] + added >= 3).astype("int64")

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return unschedulable("node(s) had three pods")


class Fails(CountsToThree):
    """Raises for added pods."""

    name = "Fails"

    @hookimpl
    def filter_more(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows, added: Scores) -> Scores:
        raise ValueError("cannot count")


class LooksAtNodes(Plugin):
    """Prefers the placement where the first pod's node comes last by name."""

    name = "LooksAtNodes"

    @hookimpl
    def placement_score(self, group: GenericPodGroup, placed: Sequence[PlacedGroup], nodes: NodeTable) -> list[int]:
        names = sorted(each.nodes[0][1] for each in placed)
        return [names.index(each.nodes[0][1]) * 100 // len(names) for each in placed]


def racks(count: int, size: int = 2, cpu: int = 9) -> list[Node]:
    names = [f"r{number}" for number in range(count)]
    return [make_node(f"{rack}-{number}", cpu=cpu, labels={"rack": rack}) for rack in names for number in range(size)]


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the names of the pods for which a node is searched."""
    names: list[str] = []
    schedule = WalkedPod.schedule

    def noted(pod: WalkedPod, find_node: FindNode, last: Search | None) -> Suspendable[Search | None]:
        names.append(pod.attempt.pod.name)
        return schedule(pod, find_node, last)

    monkeypatch.setattr(WalkedPod, "schedule", noted)
    return names


def simulate(*objects: ApiObject, plugins: Sequence[type[Plugin]] = (), disabled: str = "") -> Simulation:
    enabled = ", ".join(f"{{name: {plugin.name}}}" for plugin in plugins)
    config = parse(f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{{plugins: {{multiPoint: {{enabled: [{enabled}], disabled: [{disabled}]}}}}}}]
---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
featureGates: {{GenericWorkload: true, TopologyAwareWorkloadScheduling: true}}
""")
    simulation = Simulation(list(objects), config=config, plugins=list(plugins))
    simulation.run(0.5)
    return simulation


def group(size: int, *kinds: str) -> list[ApiObject]:
    """Make a gang in one rack, whose pods request these amounts of cpu in turn."""
    kinds = kinds or ("1",)
    pods: list[Pod] = [members("g", size, cpu=kinds[number % len(kinds)])[number] for number in range(size)]
    return [in_one("rack", gang("g", size)), *pods]


def bound(simulation: Simulation) -> int:
    return sum(node is not None for node in places(simulation).values())


@pytest.mark.parametrize(
    ("plugins", "size", "searches"),
    [
        ((), 3, 3),
        ((), 12, 12),
        ((ThreeToANode,), 3, 12),  # it cannot count, so all four placements are walked, and the best one repeated
        ((CountsToThree,), 3, 3),
        ((CountsToThree,), 6, 6),
        ((Fails,), 3, 12),
        ((LooksAtNodes,), 3, 15),  # it looks at the nodes in all four
    ],
)
def test_only_the_chosen_placement_is_walked_if_the_pods_can_be_counted(
    walked: list[str], plugins: Sequence[type[Plugin]], size: int, searches: int
) -> None:
    simulation = simulate(*racks(4), *group(size), plugins=plugins)
    assert bound(simulation) == size
    assert len(walked) == searches


@pytest.mark.parametrize(
    ("cpu", "kinds", "searches"),
    [
        (9, ("1", "2"), 4),  # each node takes four pods of either kind
        (4, ("3", "1"), 16),  # a node takes one for sure, and whether both depends on the order
    ],
)
def test_pods_of_several_kinds_are_walked_unless_all_of_them_fit_anyhow(
    walked: list[str], cpu: int, kinds: tuple[str, ...], searches: int
) -> None:
    assert bound(simulate(*racks(4, cpu=cpu), *group(4, *kinds))) == 4
    assert len(walked) == searches


def test_placements_without_room_are_left_out(walked: list[str]) -> None:
    small = [make_node(f"s-{number}", cpu=1, labels={"rack": "s"}) for number in range(2)]
    assert bound(simulate(*racks(2), *small, *group(3))) == 3
    assert len(walked) == 3


def test_group_without_room_is_walked_in_the_first_placement_and_waits_for_all(walked: list[str]) -> None:
    closed = make_node("b-0", cpu=9, labels={"rack": "s"}, unschedulable=True)
    simulation = simulate(*racks(1, cpu=1), closed, *group(3))
    assert walked == ["g-0", "g-1", "g-2"]
    text = "pod group is unschedulable, minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
    assert condition(simulation, "g")[2].startswith(f"0/2 placements are available, first placement status: {text}")
    assert messages(simulation)["g-2"] == "0/2 nodes are available: 2 Insufficient cpu."
    (queued,) = simulation.scheduler.engine.queue
    assert queued.unschedulable_plugins == {"GangScheduling", "NodeResourcesFit", "NodeUnschedulable"}


def labelled(objects: Sequence[ApiObject]) -> list[ApiObject]:
    return [
        replace(each, metadata=replace(each.metadata, labels={"app": "web"})) if isinstance(each, Pod) else each
        for each in objects
    ]


def test_pods_that_are_spread_by_preference_are_counted(walked: list[str]) -> None:
    service = Service(metadata=ObjectMeta(name="web", namespace="default"), spec=ServiceSpec(selector={"app": "web"}))
    assert bound(simulate(service, *racks(4), *labelled(group(3)))) == 3
    assert len(walked) == 3


def test_pods_that_keep_apart_are_walked(walked: list[str]) -> None:
    gang_and_pods = [apart(each) if isinstance(each, Pod) else each for each in group(2)]
    assert bound(simulate(*racks(4), *gang_and_pods)) == 2
    assert len(walked) == 8
