from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import cast

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kframework import Code, CycleState, Handle, NodeInfo, PodInfo, Skip, Status
from kframework.config.args import PodTopologySpreadArgs
from kframework.objects import Pod
from kframework.plugins.pod_topology_spread import PodTopologySpread
from kframework.selectors import SelectorError
from kframework.state.cluster import ClusterState
from kframework.state.pods import PendingPod
from tests.plugins.slow_spread import SlowSpread
from tests.plugins.spread_worlds import ARGS, World

SEEDS = st.integers(0, 2**32)


def plugin_of(cluster: ClusterState, args: PodTopologySpreadArgs = ARGS[0]) -> PodTopologySpread:
    """Make the plugin with the cluster behind its handle."""
    return PodTopologySpread(args, cast("Handle", cluster))


# -- compared with the rules, slow and obvious -------------------------------------------------------------------------


@settings(max_examples=300)
@given(SEEDS)
def test_the_rules(seed: int) -> None:
    random = Random(seed)
    world = World(random, random.randint(1, 12))
    plugins = [plugin_of(world.cluster, args) for args in ARGS]
    for _ in range(4):
        compare(random.choice(plugins), world, world.pod())


@settings(max_examples=60)
@given(SEEDS)
def test_the_rules_while_everything_changes(seed: int) -> None:
    random = Random(seed)
    world = World(random, random.randint(1, 12))
    plugins = [plugin_of(world.cluster, args) for args in ARGS]
    pods = [world.pod() for _ in range(4)]
    for _ in range(30):
        world.change()
        compare(random.choice(plugins), world, random.choice(pods))


def test_the_rules_with_more_nodes_than_there_was_room_for() -> None:
    world = World(Random(0), 60)
    plugin, pods = plugin_of(world.cluster), [world.pod() for _ in range(20)]
    for _ in range(10):
        for pod in pods:
            compare(plugin, world, pod)
        for _ in range(20):
            world.add_node()
            world.start_pod()


def compare(plugin: PodTopologySpread, world: World, pod: Pod) -> None:
    """Ask the plugin all it can answer about a pod, and work out the same slowly."""
    slow = SlowSpread(world.cluster, pod, plugin.args)
    state, pending = CycleState(), PendingPod(pod, world.cluster.interned)
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
        assert objections(plugin, state, pod, slow.nodes) == [slow.objection(limits, node) for node in slow.nodes]


def objections(
    plugin: PodTopologySpread, state: CycleState, pod: PendingPod, nodes: Sequence[NodeInfo]
) -> list[Status | None]:
    """Ask about each of the nodes in both forms."""
    scalar = [plugin.filter(state, pod, node) for node in nodes]
    table = nodes[0].table
    bits = plugin.filter_nodes(state, pod, table, np.array([node.row for node in nodes]))
    assert bits.dtype == np.int64
    assert [plugin.filter_status(pod, each) if each else None for each in bits.tolist()] == scalar
    every = plugin.filter_nodes(state, pod, table, slice(0, table.capacity))
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


# -- what-ifs ----------------------------------------------------------------------------------------------------------


def state_of_filter(plugin: PodTopologySpread, pod: PendingPod, slow: SlowSpread) -> CycleState | None:
    state = CycleState()
    return state if plugin.pre_filter(state, pod, slow.cluster.nodes) is None else None


def compare_what_if(plugin: PodTopologySpread, world: World, pod: PendingPod, slow: SlowSpread) -> None:
    """Let pods come and go, first on one node, then anywhere, with a copy of the state that is told and one live."""
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
                other = PodInfo(world.pod(constrained=False), world.cluster.interned)
                statement.add(other, node.name)
                plugin.add_pod(copied, pod, other, node)
                slow.add(limits, other, node, 1)
            expected = [slow.objection(limits, each) for each in slow.nodes]
            assert objections(plugin, copied, pod, slow.nodes) == expected
            compare_live(plugin, state, pod, slow)
    compare_live(plugin, state, pod, slow)


def compare_live(plugin: PodTopologySpread, state: CycleState, pod: PendingPod, slow: SlowSpread) -> None:
    limits = slow.limits()
    assert objections(plugin, state, pod, slow.nodes) == [slow.objection(limits, node) for node in slow.nodes]
