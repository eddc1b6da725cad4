from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from kframework import CycleState
from kframework.clock import Seeds
from kframework.state.cluster import ClusterState
from tests.core.preemption.test_evaluator.slow_rules import World, best
from tests.core.preemption.test_evaluator.stopped import Counts, Cycle, cycle, told


def expected(found: tuple[Any, Any]) -> tuple[Any, Any]:
    first, second = found
    return ([pod.key for pod in first], second) if isinstance(first, list) else found


def everything(cluster: ClusterState, state: CycleState) -> object:
    """Copy all that a dry run could leave changed."""
    nodes = cluster.nodes
    columns = [*nodes.allocatables.values(), *nodes.requesteds.values(), nodes.non_zero_cpu, nodes.non_zero_memory]
    return (
        [column.values.tolist() for column in columns],
        {node.name: {pod.uid: pod.row for pod in node.pods} for node in nodes},
        [dict(pods.pods) for classes in nodes.counters._classes.values() for pods in classes],
        (nodes.node_log.end, nodes.pod_log.end, len(cluster.statements)),
        {key.name: dict(value) if isinstance(value, Counts) else value for key in state for value in [state[key]]},
    )


def random_cycles(seed: int) -> Iterator[tuple[World, Cycle]]:
    random = Random(seed)
    for _ in range(10):
        world = World(random)
        stopped = cycle(
            world.nodes,
            world.pods,
            world.preemptor,
            budgets=world.budgets,
            nominated=world.nominated,
            plugins=("TwoOfAnApp", "SpareCpu", "NotOdd"),
        )
        if stopped is not None:
            yield world, stopped


@pytest.mark.parametrize("seed", range(40))
def test_dry_runs_equal_the_reference_and_change_nothing(seed: int) -> None:
    for world, stopped in random_cycles(seed):
        before = everything(stopped.engine.cluster, stopped.search.state)
        for node in world.nodes:
            assert told(stopped.victims(node.metadata.name)) == expected(world.dry_run(node))
        assert everything(stopped.engine.cluster, stopped.search.state) == before


@pytest.mark.parametrize("seed", range(40, 60))
def test_candidates_and_choice_equal_the_reference(seed: int) -> None:
    for world, stopped in random_cycles(seed):
        enough = Random(seed).randint(1, 4)
        order = [node.name for node in stopped.engine.cluster.nodes]
        wanted = world.candidates(order, Seeds(0).generator("preemption offset"), 50, enough)
        found = stopped.candidates(percentage=50, absolute=enough)
        assert {candidate.node: told(candidate) for candidate in found.candidates} == {
            name: expected(dry_run) for name, dry_run in wanted.items()
        }
        assert [candidate.node for candidate in found.candidates] == list(wanted)
        if wanted:
            chosen = min(found.candidates, key=stopped.evaluator.key)
            assert chosen.node == best(wanted)
