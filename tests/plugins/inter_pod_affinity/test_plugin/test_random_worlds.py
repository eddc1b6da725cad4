from __future__ import annotations

from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kframework import CycleState, Skip
from kframework.objects import Pod
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.statement import Statement
from tests.plugins.asking import filter_rows, filtered, pending, scored
from tests.plugins.inter_pod_affinity.test_plugin.worlds import World

SEEDS = st.integers(0, 2**40)


def check(world: World, pod: Pod) -> None:
    """Compare the plugin with the slow rules."""
    slow, plugin, nodes = world.slow(pod), world.plugin, world.state.nodes
    info = pending(pod, world.state)
    assert (plugin.pre_filter(CycleState(), info, nodes) == Skip) is slow.skips_filter
    assert filtered(plugin, world.state, pod) == ({} if slow.skips_filter else slow.rejections())
    assert (plugin.pre_score(CycleState(), info, nodes, nodes.order) == Skip) is slow.skips_score
    assert scored(plugin, world.state, pod) == ({} if slow.skips_score else slow.scores())


@given(SEEDS)
def test_pod_in_a_random_cluster_has_the_answers_of_the_slow_rules(seed: int) -> None:
    world = World(Random(seed))
    for _ in range(3):
        check(world, world.pod())


@given(SEEDS)
def test_cached_answers_stay_true_through_random_changes(seed: int) -> None:
    world = World(Random(seed))
    pods = [world.pod(chance=0.8) for _ in range(4)]
    for _ in range(15):
        for pod in pods:
            check(world, pod)
        world.change()


def come(world: World, statement: Statement, asked: tuple[CycleState, PendingPod], pod: Pod) -> None:
    """Put a nominated pod on a node, in the what-if and in the slow world."""
    node = world.random.choice(list(world.state.nodes))
    world.pods[pod.metadata.uid] = msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, node_name=node.name)
    )
    rival = pending(pod, world.state)
    statement.add(rival, node.name)
    world.plugin.add_pod(*asked, rival, node)


def go(world: World, statement: Statement, asked: tuple[CycleState, PendingPod], victim: PodInfo) -> None:
    """Take a pod off its node, and perhaps put it back."""
    node = world.state.nodes[victim.row]
    statement.remove(victim)
    if world.random.random() < 0.3:
        statement.add(victim, node.name)
        world.plugin.add_pod(*asked, victim, node)
    else:
        del world.pods[victim.uid]


@given(SEEDS)
def test_dry_run_is_as_if_it_had_happened(seed: int) -> None:
    world = World(Random(seed))
    nodes, random = world.state.nodes, world.random
    pod, before = world.pod(chance=0.9), dict(world.pods)
    info, state = pending(pod, world.state), CycleState()
    if not len(nodes) or world.plugin.pre_filter(state, info, nodes) == Skip:
        return
    with world.state.statement() as statement:
        inner = state.clone()
        for _ in range(6):
            on_nodes = [other for other in world.state.pods.values() if other.row >= 0]
            if on_nodes and random.random() < 0.6:
                go(world, statement, (inner, info), random.choice(on_nodes))
            else:
                come(world, statement, (inner, info), world.pod())
            assert rejections(world, inner, info) == world.slow(pod).rejections()
    world.pods = before
    assert rejections(world, state, info) == world.slow(pod).rejections()


def rejections(world: World, state: CycleState, pod: PendingPod) -> dict[str, object]:
    """Ask both forms of Filter about every node, as they stand."""
    plugin, nodes = world.plugin, world.state.nodes
    bits = filter_rows(plugin, state, pod, nodes, nodes.order).tolist()
    at_once = [plugin.filter_status(pod, each) if each else None for each in bits]
    answers = [plugin.filter(state, pod, node) for node in nodes]
    assert at_once == answers
    return {node.name: answer for node, answer in zip(nodes, answers, strict=True) if answer is not None}
