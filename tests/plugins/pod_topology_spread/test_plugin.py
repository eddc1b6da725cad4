from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework import (
    NOTHING,
    ActionType,
    Code,
    CycleState,
    Handle,
    NodeInfo,
    PodInfo,
    Skip,
    Status,
    unresolvable,
    unschedulable,
)
from kframework.framework.events import ClusterEvent, QueueingHint
from kframework.objects import (
    LabelSelector,
    Node,
    ObjectMeta,
    OwnerReference,
    Pod,
    ReplicaSet,
    Service,
    ServiceSpec,
    TopologySpreadConstraint,
    WorkloadSpec,
)
from kframework.objects.label_selectors import EVERYTHING, SelectorError
from kframework.plugins.pod_topology_spread.plugin import (
    PodTopologySpread,
    PodTopologySpreadArgs,
    after_selector_change,
)
from kframework.state.cluster import ClusterState
from kframework.state.pod_counts import Selection
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod
from kframework.testing import check_plugin, check_wake_ups, make_node, make_pod
from tests.plugins.asking import filter_rows
from tests.plugins.slow_spread import SlowSpread
from tests.plugins.spread_worlds import ARGS, HOSTNAME, INVALID, ZONE, World, constraint

SEEDS = st.integers(0, 2**32)


def plugin_of(cluster: ClusterState, args: PodTopologySpreadArgs = ARGS[0]) -> PodTopologySpread:
    """Make the plugin with the cluster behind its handle."""
    return PodTopologySpread(args, cast("Handle", cluster))


# -- compared with the rules, slow and obvious -------------------------------------------------------------------------


@given(SEEDS)
def test_rules_give_the_expected_answers(seed: int) -> None:
    random = Random(seed)
    world = World(random, random.randint(1, 12))
    plugins = [plugin_of(world.cluster, args) for args in ARGS]
    for _ in range(4):
        compare(random.choice(plugins), world, world.pod())


@pytest.mark.slow
@given(SEEDS)
def test_rules_while_everything_changes(seed: int) -> None:
    random = Random(seed)
    world = World(random, random.randint(1, 12))
    plugins = [plugin_of(world.cluster, args) for args in ARGS]
    pods = [world.pod() for _ in range(4)]
    for _ in range(30):
        world.change()
        compare(random.choice(plugins), world, random.choice(pods))


def test_rules_with_more_nodes_than_there_was_room_for() -> None:
    world = World(Random(0), 50)
    plugin, pods = plugin_of(world.cluster), [world.pod() for _ in range(8)]
    for _ in range(5):
        for pod in pods:
            compare(plugin, world, pod)
        for _ in range(20):
            world.add_node()
            world.start_pod()


def compare(plugin: PodTopologySpread, world: World, pod: Pod) -> None:
    """Ask the plugin all it can answer about a pod, and work out the same slowly."""
    slow = SlowSpread(world.cluster, pod, plugin.args)
    state, pending = CycleState(), PendingPod(pod, world.cluster.interner)
    compare_filter(plugin, state, pending, slow)
    feasible = world.random.sample(slow.nodes, world.random.randint(1, len(slow.nodes)))
    compare_scores(plugin, state, pending, slow, feasible)
    if state_of_filter(plugin, pending, slow) is not None:
        compare_what_if(plugin, world, pending, slow)


def compare_filter(plugin: PodTopologySpread, state: CycleState, pod: PendingPod, slow: SlowSpread) -> None:
    said = plugin.pre_filter(state, pod, slow.cluster.nodes)
    try:
        limits = slow.limits()
    except SelectorError:
        assert said is not None and said.code == Code.ERROR
        return
    assert said == (None if limits else Skip)
    if limits:
        assert rejections(plugin, state, pod, slow.nodes) == [slow.rejection(limits, node) for node in slow.nodes]


def rejections(
    plugin: PodTopologySpread, state: CycleState, pod: PendingPod, nodes: Sequence[NodeInfo]
) -> list[Status | None]:
    """Ask about each of the nodes in both forms."""
    scalar = [plugin.filter(state, pod, node) for node in nodes]
    table = nodes[0].table
    bits = filter_rows(plugin, state, pod, table, np.array([node.row for node in nodes]))
    assert bits.dtype == np.int64
    assert [plugin.filter_status(pod, each) if each else None for each in bits.tolist()] == scalar
    every = filter_rows(plugin, state, pod, table, slice(0, table.capacity))
    assert [int(every[node.row]) for node in nodes] == bits.tolist()
    return scalar


def compare_scores(
    plugin: PodTopologySpread, state: CycleState, pod: PendingPod, slow: SlowSpread, feasible: Sequence[NodeInfo]
) -> None:
    table, rows = slow.cluster.nodes, np.array([node.row for node in feasible])
    said = plugin.pre_score(state, pod, table, rows)
    try:
        expected = slow.scores(feasible)
    except SelectorError:
        assert said is not None and said.code == Code.ERROR
        return
    assert said == (Skip if expected is None else None)
    if expected is None:
        return
    raw, evened = expected
    assert {node.name: plugin.score(state, pod, node) for node in feasible} == raw
    scores = plugin.score_nodes(state, pod, table, rows)
    assert scores.dtype == np.int64
    assert scores.tolist() == [raw[node.name] for node in feasible]
    final = np.broadcast_to(plugin.normalize_score(state, pod, scores), len(rows))
    assert final.tolist() == [evened[node.name] for node in feasible]


def state_of_filter(plugin: PodTopologySpread, pod: PendingPod, slow: SlowSpread) -> CycleState | None:
    state = CycleState()
    return state if plugin.pre_filter(state, pod, slow.cluster.nodes) is None else None


def compare_what_if(plugin: PodTopologySpread, world: World, pod: PendingPod, slow: SlowSpread) -> None:
    """Let pods come and go, first on one node, then anywhere, with an updated copy of the state and one live."""
    state, limits, random = state_of_filter(plugin, pod, slow), slow.limits(), world.random
    assert state is not None
    copied = state.clone()
    home = random.choice(slow.nodes)
    with world.cluster.statement() as statement:
        for step in range(8):
            if step == 3:
                copied = copied.clone()
            node = home if step < 5 else random.choice(slow.nodes)
            there = [*node.pods]
            if there and random.random() < 0.6:
                other: PodInfo = random.choice(there)
                statement.remove(other)
                plugin.remove_pod(copied, pod, other, node)
                slow.add(limits, other, node, -1)
            else:
                other = PodInfo(world.pod(constrained=False), world.cluster.interner)
                statement.add(other, node.name)
                plugin.add_pod(copied, pod, other, node)
                slow.add(limits, other, node, 1)
            expected = [slow.rejection(limits, each) for each in slow.nodes]
            assert rejections(plugin, copied, pod, slow.nodes) == expected
            compare_live(plugin, state, pod, slow)
    compare_live(plugin, state, pod, slow)
    with world.cluster.statement() as statement:
        statement.set_node(world.node(home.name))
        compare_live(plugin, state, pod, slow)
    compare_live(plugin, state, pod, slow)


def compare_live(plugin: PodTopologySpread, state: CycleState, pod: PendingPod, slow: SlowSpread) -> None:
    limits = slow.limits()
    assert rejections(plugin, state, pod, slow.nodes) == [slow.rejection(limits, node) for node in slow.nodes]


WEB: dict[str, Any] = {"labelSelector": {"matchLabels": {"app": "web"}}}
REASON = "node(s) didn't match pod topology spread constraints"


def web(
    name: str = "new", *spread: TopologySpreadConstraint, labels: Mapping[str, str] | None = None, **more: Any
) -> Pod:
    return make_pod(name, labels={"app": "web"} if labels is None else labels, topology_spread=spread, **more)


U, UU = Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_pods_that_share_a_state_count_again_after_a_count_was_dropped() -> None:
    cluster = ClusterState()
    for name in ("a", "b"):
        cluster.put_node(make_node(name, zone=name))
    plugin, state = plugin_of(cluster), CycleState()
    wish = constraint(ZONE, "ScheduleAnyway", 1, labelSelector={"matchLabels": {"app": "web"}})
    pod = PendingPod(web("new", wish), cluster.interner)

    def score() -> dict[str, int]:
        nodes = cluster.nodes
        plugin.pre_score(state, pod, nodes, nodes.order)
        return {nodes[row].name: plugin.score(state, pod, nodes[row]) for row in nodes.order.tolist()}

    assert score() == {"a": 0, "b": 0}
    for number in range(10_000):  # more than are kept
        cluster.nodes.counters.count(Selection(frozenset((f"team-{number}",)), EVERYTHING, terminating=False))
    cluster.put_pod(make_pod("on-a", labels={"app": "web"}, node_name="a"))
    assert score() == {"a": 1, "b": 0}


def test_words_are_kube_schedulers() -> None:
    plugin, pod = plugin_of(ClusterState()), PendingPod(web(), TemplateInterner())
    assert plugin.filter_status(pod, 1) == unschedulable(REASON)
    assert plugin.filter_status(pod, 2) == unresolvable(f"{REASON} (missing required label)")


@pytest.mark.parametrize(("when", "hook"), [("DoNotSchedule", "pre_filter"), ("ScheduleAnyway", "pre_score")])
def test_selector_that_does_not_parse_is_an_error_where_it_is_needed(when: str, hook: str) -> None:
    cluster = ClusterState()
    cluster.put_node(make_node("n", zone="a"))
    plugin, state = plugin_of(cluster), CycleState()
    pod = PendingPod(web("new", constraint(when=when, labelSelector=INVALID)), cluster.interner)
    answers = {
        "pre_filter": plugin.pre_filter(state, pod, cluster.nodes),
        "pre_score": plugin.pre_score(state, pod, cluster.nodes, cluster.nodes.order),
    }
    said = answers.pop(hook)
    assert said is not None and said.code == Code.ERROR and "unknown operator" in said.message
    assert list(answers.values()) == [Skip]


@pytest.mark.parametrize(
    ("args", "pod", "is_selected"),
    [
        (ARGS[0], web(), True),
        (ARGS[0], web(labels={"app": "db"}), False),
        (ARGS[0], web(namespace="other"), False),
        (ARGS[1], web(), False),
        (ARGS[1], web("new", constraint()), False),
        (ARGS[2], web(), True),
    ],
)
def test_pods_without_any_constraint_are_passed_over(args: PodTopologySpreadArgs, pod: Pod, is_selected: bool) -> None:
    """Such are pods without constraints of their own that no service selects, for as long as none does."""
    cluster = ClusterState()
    plugin, pending = plugin_of(cluster, args), PendingPod(pod, TemplateInterner())
    before = plugin.sign(pending)
    assert before is not None and (before is NOTHING) is not bool(pod.spec.topology_spread_constraints)
    chosen = service(app="web")
    cluster.objects(Service).put(chosen.metadata, chosen)
    assert (plugin.sign(pending) != before) is is_selected
    cluster.objects(Service).remove(chosen.metadata)
    assert plugin.sign(pending) == before


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (web("a", constraint(**WEB), labels={"app": "web", "index": "1"}), web("b", constraint(**WEB)), True),
        (web("a", constraint(**WEB)), web("b", constraint(**WEB), labels={"app": "db"}), False),
        (web("a", constraint(**WEB)), web("b", constraint(skew=7, **WEB)), False),
        (web("a", constraint(**WEB)), web("b", constraint(**WEB), namespace="other"), False),
        (web("a", constraint(**WEB)), web("b", constraint(**WEB), node_selector={"disk": "ssd"}), False),
    ],
)
def test_pods_that_are_spread_alike_have_equal_signatures(one: Pod, other: Pod, alike: bool) -> None:
    plugin, templates = plugin_of(ClusterState(), ARGS[0]), TemplateInterner()
    first, second = (plugin.sign(PendingPod(each, templates)) for each in (one, other))
    assert first is not None and (first == second) is alike


def test_pod_with_an_invalid_selector_is_not_signed() -> None:
    pending = PendingPod(web("new", constraint(labelSelector=INVALID)), TemplateInterner())
    assert plugin_of(ClusterState(), ARGS[0]).sign(pending) is None


def test_events_to_register_are_those_of_kube_scheduler() -> None:
    plugin = plugin_of(ClusterState())
    of_pods = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION | ActionType.DELETE
    of_nodes = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
    expected = [
        ClusterEvent("Pod", of_pods, plugin.after_pod_change),
        ClusterEvent("Node", of_nodes, plugin.after_node_change),
    ]
    assert plugin.events_to_register() == expected


def test_events_of_workloads_are_registered_for_hard_default_constraints() -> None:
    events = plugin_of(ClusterState(), ARGS[2]).events_to_register()
    assert [event.resource for event in events[2:]] == [
        "Service",
        "replicationcontrollers.v1.",
        "replicasets.v1.apps",
        "statefulsets.v1.apps",
    ]


QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
HONORING = web("new", constraint(nodeTaintsPolicy="Honor", **WEB), node_selector={"disk": "ssd"})


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, web("p", node_name="n"), QUEUE),
        (web("p", node_name="n"), None, QUEUE),
        (web("p", nominated_node_name="n"), None, QUEUE),
        (web("p"), None, SKIP),
        (None, web("p", node_name="n", namespace="other"), SKIP),
        (None, web("p", node_name="n", labels={"app": "db"}), SKIP),
        (web("p", node_name="n"), web("p", node_name="n", labels={}), QUEUE),
        (web("p", node_name="n", labels={}), web("p", node_name="n"), QUEUE),
        (web("p", node_name="n"), web("p", node_name="n", labels={"app": "web", "x": "y"}), SKIP),
        (web("p", node_name="n"), web("p", node_name="n", tolerations=["x"]), SKIP),
    ],
)
def test_other_pods_wake_a_pod_when_they_are_of_its_kind(old: Pod | None, new: Pod | None, hint: QueueingHint) -> None:
    plugin = plugin_of(ClusterState())
    pod = PendingPod(web("new", constraint(**WEB), constraint(nodeTaintsPolicy="Honor", **WEB)), TemplateInterner())
    before, after = (PodInfo(each, TemplateInterner()) if each is not None else None for each in (old, new))
    assert plugin.after_pod_change(pod, before, after) is hint


@pytest.mark.parametrize(
    ("stated", "old", "new", "hint"),
    [
        ({}, {}, {"labels": {}}, QUEUE),
        ({}, {}, {"labels": {"app": "web", "x": "y"}}, SKIP),
        ({}, {}, {"tolerations": ["x"]}, SKIP),
        ({"nodeTaintsPolicy": "Honor"}, {}, {"tolerations": ["x"]}, QUEUE),
        ({"matchLabelKeys": ["rev"]}, {"labels": {"rev": "1"}}, {"labels": {"rev": "2"}}, QUEUE),
        ({"matchLabelKeys": ["rev"]}, {"labels": {"x": "1"}}, {"labels": {"x": "2"}}, SKIP),
    ],
)
def test_change_of_its_own_wakes_a_pod_when_its_constraints_mean_something_else(
    stated: dict[str, Any], old: dict[str, Any], new: dict[str, Any], hint: QueueingHint
) -> None:
    spread, interned = constraint(**WEB | stated), TemplateInterner()
    before, after = (PendingPod(web("new", spread, **each), interned) for each in (old, new))
    assert plugin_of(ClusterState()).after_pod_change(after, before, after) is hint


def node(zone: str = "a", disk: str = "ssd", *taints: str) -> Node:
    return make_node("n", zone=zone, labels={"disk": disk}, taints=taints)


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, node(), QUEUE),
        (None, node(""), SKIP),
        (node(), None, QUEUE),
        (node(""), None, SKIP),
        (node(), node("b"), QUEUE),
        (node(), node(""), QUEUE),
        (node(""), node("b"), QUEUE),
        (node(), node("a", "ssd", "full:NoSchedule"), QUEUE),
        (node(""), node("", "ssd", "full:NoSchedule"), SKIP),
        (node(), node("a", "hdd"), QUEUE),
        (node("a", "hdd"), node("a", "tape"), SKIP),
        (node(), node(), SKIP),
    ],
)
def test_nodes_wake_a_pod_when_other_domains_or_nodes_count(
    old: Node | None, new: Node | None, hint: QueueingHint
) -> None:
    assert plugin_of(ClusterState()).after_node_change(PendingPod(HONORING, TemplateInterner()), old, new) is hint


def service(namespace: str = "default", **labels: str) -> Service:
    return Service(metadata=ObjectMeta(name="s", namespace=namespace), spec=ServiceSpec(selector=labels))


def replica_set(name: str = "x", **labels: str) -> ReplicaSet:
    chosen = WorkloadSpec(selector=LabelSelector(match_labels=labels))
    return ReplicaSet(metadata=ObjectMeta(name=name, namespace="default"), spec=chosen)


OWNED = web("new", owner=OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="x", controller=True))


@pytest.mark.parametrize(
    ("old", "new", "pod", "hint"),
    [
        (None, service(app="web"), OWNED, QUEUE),
        (service(app="web"), None, OWNED, QUEUE),
        (service(app="web"), service(app="db"), OWNED, QUEUE),
        (service(app="web"), service(app="web"), OWNED, SKIP),
        (None, service("other", app="web"), OWNED, SKIP),
        (None, service(app="web"), web("new", constraint()), SKIP),
        (None, replica_set(app="web"), OWNED, QUEUE),
        (None, replica_set("y", app="web"), OWNED, SKIP),
    ],
)
def test_selectors_wake_a_pod_that_is_spread_by_default(
    old: Service | ReplicaSet | None, new: Service | ReplicaSet | None, pod: Pod, hint: QueueingHint
) -> None:
    assert after_selector_change(PendingPod(pod, TemplateInterner()), old, new) is hint


PODS = [
    web("hard", constraint(**WEB)),
    web("hosts", constraint(HOSTNAME, minDomains=2, **WEB), constraint(skew=2, **WEB)),
    web("soft", constraint(when="ScheduleAnyway", **WEB), constraint(HOSTNAME, "ScheduleAnyway", **WEB)),
    HONORING,
    web("revised", constraint(matchLabelKeys=["tier"], **WEB), labels={"app": "db", "tier": "front"}),
    OWNED,
]
OBJECTS = [service(app="web"), service(app="web", tier="front"), replica_set(app="web"), replica_set(tier="front")]
LIST = {
    "defaultingType": "List",
    "defaultConstraints": [{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
}


def test_contract_is_kept() -> None:
    found = check_plugin(PodTopologySpread, pods=PODS, objects=OBJECTS, examples=4)
    assert found.reasons.keys() == {REASON, f"{REASON} (missing required label)"}
    assert found.passes and found.skips["pre_filter"] and found.skips["pre_score"] and len(found.scores) > 3


def test_contract_is_kept_with_a_list_of_defaults() -> None:
    found = check_plugin(PodTopologySpread, args=LIST, pods=PODS, objects=OBJECTS, examples=4)
    assert found.codes.keys() == {U, UU}


def test_no_wake_up_is_lost() -> None:
    found = check_wake_ups(PodTopologySpread, args=LIST, pods=PODS, objects=OBJECTS, examples=15)
    assert found.needless_share < 0.8
