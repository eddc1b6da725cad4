"""Preemption by and of groups, as in kube-scheduler's podgrouppreemption_test."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from kframework import CycleState, NodeInfo, PendingPod, Plugin, Status, hookimpl, unschedulable
from kframework.config.configuration import Configuration
from kframework.config.load import parse
from kframework.objects import (
    Affinity,
    ApiObject,
    LabelSelector,
    LabelSelectorRequirement,
    Node,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodGroup,
    PreferredSchedulingTerm,
    Resources,
    TopologySpreadConstraint,
)
from tests.conformance.groups.story import Story, group, node, pods
from tests.core.preemption.test_evaluator.stopped import budget
from tests.support.groups import GROUPS, with_gates

HOSTNAME = "kubernetes.io/hostname"
POLICIES = with_gates("GenericWorkload", "PodGroupPreemptionPolicy")


def nodes(*cpus: float) -> list[Node]:
    return [node(f"node{number}", cpu) for number, cpu in enumerate(cpus, 1)]


def low(names: str, cpu: float = 1, **more: Any) -> list[Pod]:
    return pods(names, "", cpu, 10, **more)


def high(names: str, cpu: float = 1, **more: Any) -> list[Pod]:
    return pods(names, "pg1", cpu, 100, **more)


def on(*names: str, of: str = "", priority: int = 10) -> list[Pod]:
    """Make pods of one CPU that run on node1, node2 and so on."""
    return [pods(name, of, 1, priority, f"node{number}")[0] for number, name in enumerate(names, 1)]


def never(pods: list[Pod]) -> list[Pod]:
    return [replace(pod, spec=replace(pod.spec, preemption_policy="Never")) for pod in pods]


def with_policy(of: PodGroup, policy: str) -> PodGroup:
    return replace(of, spec=replace(of.spec, preemption_policy=policy))


GANG, BASIC = group("pg1", 3, 100), group("pg1", 0, 100)
THREE = high("high-1 high-2 high-3")
MORE_IMPORTANT = [*pods("p3", "", 1, 200, "node3"), *pods("p4", "", 1, 200, "node4")]
GANG_AND_POD: list[ApiObject] = [
    *nodes(1, 1, 1),
    group("v", 1, 50, all_at_once=True),
    *on("v1", "v2", of="v", priority=50),
    *pods("v3", "", 1, 10, "node3"),
]
VICTIMS: list[ApiObject] = [group("v", 2, 50, all_at_once=True), *on("v1", "v2", of="v", priority=50)]
TWO_GANGS: list[ApiObject] = [
    *nodes(1, 1, 1, 1),
    *VICTIMS,
    group("w", 2, 200, all_at_once=True),
    *pods("v3", "w", 1, 200, "node3"),
    *pods("v4", "w", 1, 200, "node4"),
]


@pytest.mark.parametrize(
    ("before", "preemptors", "victims", "unschedulable"),
    [
        pytest.param([*nodes(3), *low("low-1 low-2 low-3")], [GANG, *THREE], "low-1 low-2 low-3", "", id="all"),
        pytest.param([*nodes(3), *low("low-1 low-2 low-3")], [BASIC, *THREE], "low-1 low-2 low-3", "", id="all, basic"),
        pytest.param(
            [*nodes(2, 2), *on("low-1", "low-3"), *on("low-2", "low-4")],
            [group("pg1", 4, 100), *high("high-1 high-2 high-3 high-4")],
            "low-1 low-2 low-3 low-4",
            "",
            id="several nodes",
        ),
        pytest.param(
            [*nodes(3), *pods("mid-1", priority=500), *low("low-1 low-2")],
            [GANG, *THREE],
            "",
            "high-1 high-2 high-3",
            id="not enough room",
        ),
        pytest.param(
            [*nodes(3), *pods("mid-1", priority=50), *low("low-1 low-2")],
            [group("pg1", 2, 100), *high("high-1 high-2")],
            "low-1 low-2",
            "",
            id="least important pods",
        ),
        pytest.param(
            [*nodes(3), group("pg2", 3, 10, all_at_once=True), *pods("low-1 low-2 low-3", "pg2", 1, 10)],
            [group("pg1", 1, 100), *high("high-1")],
            "low-1 low-2 low-3",
            "",
            id="a whole gang for one pod",
        ),
        pytest.param(
            [*nodes(3), group("pg2", 0, 10, all_at_once=True), *pods("low-1 low-2 low-3", "pg2", 1, 10)],
            [group("pg1", 1, 100), *high("high-1")],
            "low-1 low-2 low-3",
            "",
            id="a whole basic group for one pod",
        ),
        pytest.param(
            [*nodes(1, 1, 1, 1), *on("p1", "p2"), *MORE_IMPORTANT],
            [group("pg1", 1, 100), *THREE],
            "p1 p2",
            "high-3",
            id="as many pods as possible",
        ),
        pytest.param(
            [*nodes(1, 1, 1, 1), *on("p1", "p2"), *MORE_IMPORTANT],
            [BASIC, *THREE],
            "p1 p2",
            "high-3",
            id="as many pods as possible, basic",
        ),
        pytest.param(GANG_AND_POD, [GANG, *THREE], "v1 v2 v3", "", id="a gang and a less important pod"),
        pytest.param(GANG_AND_POD, [BASIC, *THREE], "v1 v2 v3", "", id="a gang and a less important pod, basic"),
        pytest.param(
            TWO_GANGS,
            [group("pg1", 1, 100, all_at_once=True), *THREE],
            "v1 v2",
            "high-3",
            id="a less important gang but no other",
        ),
        pytest.param(
            TWO_GANGS,
            [group("pg1", 0, 100, all_at_once=True), *THREE],
            "v1 v2",
            "high-3",
            id="a less important gang but no other, basic",
        ),
        pytest.param(
            [*nodes(2, 2), *pods("low-1", "", 2, 10, "node1")],
            [group("pg1", 2, 100), *high("high-1 high-2", 2)],
            "low-1",
            "",
            id="resources of a node",
        ),
        pytest.param(
            [*nodes(2, 2), *pods("low-1", "", 1, 5, "node1"), *pods("low-2", "", 1, 10, "node1")],
            [
                group("pg1", 2, 100),
                *high("high-1", node_selector={HOSTNAME: "node1"}),
                *high("high-2", node_selector={HOSTNAME: "node2"}),
            ],
            "low-1",
            "",
            id="more important pods come back first",
        ),
    ],
)
def test_group_preempts_what_it_needs(
    before: list[ApiObject], preemptors: list[ApiObject], victims: str, unschedulable: str
) -> None:
    story = Story(*before)
    story.create(*preemptors)
    mine = {pod.metadata.name for pod in preemptors if isinstance(pod, Pod)} - set(unschedulable.split())
    others = {pod.metadata.name for pod in before if isinstance(pod, Pod)} - set(victims.split())
    story.expect(scheduled=" ".join(mine | others), unschedulable=unschedulable)
    assert story.victims() == set(victims.split())
    assert len(story.nominated()) >= min(len(mine), len(victims.split()))


@pytest.mark.parametrize(
    ("config", "of", "members", "preempts"),
    [
        (POLICIES, with_policy(GANG, "Never"), never(THREE), False),
        (POLICIES, with_policy(GANG, "PreemptLowerPriority"), THREE, True),
        (POLICIES, GANG, THREE, True),
        (GROUPS, GANG, never(THREE), False),
    ],
)
def test_group_preempts_if_its_policy_allows(
    config: Configuration, of: PodGroup, members: list[Pod], preempts: bool
) -> None:
    story = Story(*nodes(3), *low("low-1 low-2 low-3"), config=config)
    story.create(of, *members)
    if preempts:
        story.expect(scheduled="high-1 high-2 high-3")
    else:
        story.expect(scheduled="low-1 low-2 low-3", unschedulable="high-1 high-2 high-3")


def test_resources_of_whole_pods_count() -> None:
    """Their containers alone would fit beside each other."""
    story = Story(*nodes(2, 2), *of_two_cpus(low("low-1", on="node1")))
    story.create(group("pg1", 2, 100), *of_two_cpus(high("high-1 high-2", 0.5)))
    story.expect(scheduled="high-1 high-2")
    assert story.victims() == {"low-1"}


def of_two_cpus(pods: list[Pod]) -> list[Pod]:
    """Return the pods as ones that ask for two CPUs, whatever their containers ask for."""
    resources = Resources(requests={"cpu": "2"})
    return [replace(pod, spec=replace(pod.spec, resources=resources)) for pod in pods]


@pytest.mark.parametrize(("of", "count"), [(BASIC, 3), (GANG, 4)])
def test_last_member_preempts_where_the_others_run_though_all_prefer_another_zone(of: PodGroup, count: int) -> None:
    machines = [node("a", count - 1, zone="a"), node("b", count, zone="b")]
    story = Story(*machines, *pods("va", "", count - 1, 50, "a"), *low("vb", on="b"))
    story.create(of, *high(" ".join(f"p{number}" for number in range(count)), labels=FOO, affinity=IN_ZONE_OF_ALL))
    story.expect(scheduled=" ".join(["va", *(f"p{number}" for number in range(count))]))
    assert story.victims() == {"vb"}


def test_pods_of_a_budget_are_spared() -> None:
    guarded = low("low-1 low-2", labels={"app": "foo"})
    story = Story(*nodes(3), budget("foo", LabelSelector(match_labels={"app": "foo"})), *guarded, *low("low-3"))
    story.create(group("pg1", 2, 100), *high("high-1 high-2", 0.5))
    story.expect(scheduled="low-1 low-2 high-1 high-2")


@pytest.mark.parametrize(("all_at_once", "left"), [(True, ""), (False, "v2")])
def test_pod_without_a_group_preempts_a_whole_group_if_that_wants_it(all_at_once: bool, left: str) -> None:
    """In 1.36 only groups took whole groups for one victim."""
    story = Story(*nodes(1, 1), group("v", 2, 50, all_at_once=all_at_once), *on("v1", "v2", of="v", priority=50))
    story.create(*pods("high", priority=100, node_selector={HOSTNAME: "node1"}))
    story.expect(scheduled=f"high {left}")
    assert story.victims() == {"v1", "v2"} - {left}


# -- rules between pods ---------------------------------------------------------------------------------------------

EXISTS = LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator="Exists"),))
REPELS_ALL = Affinity(
    pod_anti_affinity=PodAntiAffinity(
        required_during_scheduling_ignored_during_execution=(
            PodAffinityTerm(label_selector=EXISTS, topology_key=HOSTNAME),
        )
    )
)
IN_A = NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key="zone", operator="In", values=("a",)),))
IN_ZONE_OF_ALL = Affinity(
    node_affinity=NodeAffinity(
        preferred_during_scheduling_ignored_during_execution=(PreferredSchedulingTerm(weight=100, preference=IN_A),)
    ),
    pod_affinity=PodAffinity(
        required_during_scheduling_ignored_during_execution=(
            PodAffinityTerm(label_selector=EXISTS, topology_key="zone"),
        )
    ),
)
SPREAD = TopologySpreadConstraint(
    max_skew=2,
    topology_key=HOSTNAME,
    when_unsatisfiable="DoNotSchedule",
    label_selector=LabelSelector(match_labels={"app": "foo"}),
    min_domains=10,
)
FOO, ON_NODE_1 = {"app": "foo"}, {HOSTNAME: "node1"}


@pytest.mark.parametrize(
    ("running", "members"),
    [
        pytest.param(
            low("low-1", 0.25, labels={"app": "initial"}, on="node1"),
            high("high-1 high-2", 1.5, affinity=REPELS_ALL),
            id="anti-affinity",
        ),
        pytest.param(
            low("low-1", 0.25, host_ports=[8080], on="node1"), high("high-1 high-2", 1.5, host_ports=[8080]), id="ports"
        ),
        pytest.param(
            low("low-1", 0.25, labels=FOO, on="node1"),
            high("high-1 high-2", 0.5, labels=FOO, topology_spread=[SPREAD], node_selector=ON_NODE_1),
            id="spread",
        ),
        pytest.param(
            [*low("low-1", 0.25, labels=FOO, on="node1"), *pods("low-2", "", 0.25, 5, "node2", labels=FOO)],
            high("high-1 high-2", 0.5, labels=FOO, topology_spread=[SPREAD], node_selector=ON_NODE_1),
            id="spread, one comes back",
        ),
    ],
)
def test_pod_that_breaks_a_rule_of_a_member_is_a_victim_though_there_is_room(
    running: list[Pod], members: list[Pod]
) -> None:
    story = Story(*nodes(2, 2), *running)
    story.create(group("pg1", 2, 100), *members)
    others = " ".join(pod.metadata.name for pod in running if pod.metadata.name != "low-1")
    story.expect(scheduled=f"high-1 high-2 {others}")
    assert story.victims() == {"low-1"}
    assert story.nominated() == {"high-1", "high-2"}


# -- with plugins ---------------------------------------------------------------------------------------------------


class Prefers(Plugin):
    """Prefers node1 to all others."""

    name = "Prefers"

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return 100 if node.name == "node1" else 0


class Slots(Plugin):
    """Has two slots on each node: pods that run with the label `taken` have one, and pods with `slot` reserve one."""

    name = "Slots"

    reserved: ClassVar[set[str]] = set()

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        if "slot" not in pod.labels:
            return None
        taken = sum("taken" in other.labels for other in node.pods)
        return unschedulable("no slot") if taken + len(self.reserved) >= 2 else None

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self.reserved.add(pod.uid)

    @hookimpl
    def unreserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self.reserved.discard(pod.uid)


def with_plugin(plugin: type[Plugin], weight: int = 0) -> Configuration:
    about = f"name: {plugin.name}, weight: {weight}" if weight else f"name: {plugin.name}"
    return parse(f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{{plugins: {{multiPoint: {{enabled: [{{{about}}}]}}}}}}]
---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
featureGates: {{GenericWorkload: true}}
""")


@pytest.mark.parametrize(
    ("of", "before", "expected"),
    [
        (GANG, [*nodes(2, 2), *low("low-1", 2, on="node1"), *low("low-2", 1, on="node2")], "low-2"),
        (BASIC, [*nodes(2, 2), *low("low-1", 1, on="node1"), *pods("low-2", "", 1, 5, "node2")], "low-2"),
    ],
)
def test_members_take_the_nodes_that_they_prefer_and_the_pods_there_leave(
    of: PodGroup, before: list[ApiObject], expected: str
) -> None:
    story = Story(*before, config=with_plugin(Prefers, 1000), plugins=[Prefers])
    story.create(of, *THREE)
    story.expect(scheduled=f"high-1 high-2 high-3 {expected}")
    assert story.victims() == {"low-1"}


def test_reserve_counts_while_pods_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slots, "reserved", set())
    taken = pods("v1", "", 1, 15, "node1", labels={"taken": "true"})
    story = Story(*nodes(3), *taken, *pods("v2", "", 1, 10, "node1"), config=with_plugin(Slots), plugins=[Slots])
    story.create(group("pg1", 2, 100), *high("high-1 high-2", labels={"slot": "true"}))
    story.expect(scheduled="high-1 high-2 v2")


@pytest.mark.parametrize("minimum", [0, 2])
def test_pod_that_fits_is_bound_before_its_group_preempts_for_the_others(minimum: int) -> None:
    running = pods("pg-1 pg-2", "pg1", 1, 100)
    story = Story(*nodes(4), group("pg1", minimum, 100), *running, *low("low-1"))
    story.create(*high("high-1 high-2"))
    story.expect(scheduled="pg-1 pg-2 high-1 high-2")
    assert story.victims() == {"low-1"}
    assert story.nominated() == {"high-2"}


def test_nominations_last_while_victims_leave_though_a_better_node_is_free() -> None:
    config = with_plugin(Prefers, 1000)
    story = Story(*nodes(1, 1, 1), config=config, plugins=[Prefers])
    story.create(*pods("pod1", "", 1, 100, "node1"), *low("pod2", on="node2"), *low("pod3", on="node3"))
    story.simulation.create(group("pg", 2, 50))
    for pod in pods("p1 p2", "pg", 1, 50):
        story.simulation.create(pod)
    story.simulation.run(2)
    nominated = nominations(story)
    assert set(nominated.values()) == {"node2", "node3"}
    story.simulation.delete(Pod, "pod1")
    story.simulation.run(10)
    assert nominations(story) == nominated
    story.simulation.run(60)
    assert story.nodes_of("p1 p2") == ["node2", "node3"]


def nominations(story: Story) -> dict[str, str]:
    found = {pod.metadata.name: pod.status.nominated_node_name for pod in story.simulation.objects(Pod)}
    return {name: found[name] or "" for name in ("p1", "p2")}
