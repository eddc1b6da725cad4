"""network-topology-aware: which hypernode is best for a job, and which node beside those that it has."""

from __future__ import annotations

import pytest
from kframework_batch.config import parse
from kframework_batch.objects import NetworkTopology
from kframework_batch.program import compile_program
from kframework_batch.testing import Stage, make_gang, make_hypernode, make_node
from msgspec.structs import replace

from kframework import ConfigError

CONFIGURATION = """
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: network-topology-aware
    arguments: {%s}
"""


@pytest.mark.parametrize(
    ("arguments", "score"),
    [
        pytest.param("", 100 * (6 / 8 + 3 / 4) / 2, id="the mean of what is asked for"),
        pytest.param("weight: 3", 300 * (6 / 8 + 3 / 4) / 2, id="what the plugin weighs"),
        pytest.param("weight: -1", 100 * (6 / 8 + 3 / 4) / 2, id="a weight below 0 is 1"),
        pytest.param("hypernode.binpack.cpu: 0", 100 * 3 / 4, id="memory alone"),
        pytest.param("hypernode.binpack.memory: 3", 100 * (6 / 8 + 3 * 3 / 4) / 4, id="what a resource weighs"),
        pytest.param("hypernode.binpack.cpu: 0, hypernode.binpack.memory: 0", 0.0, id="nothing weighs"),
    ],
)
def test_hypernode_score_is_its_utilisation_with_the_job(arguments: str, score: float) -> None:
    nodes = [make_node(name, cpu=4, memory="2Gi") for name in "ab"]
    other = make_gang("other", 2, cpu=2, on=["a", "b"])
    group, pods = make_gang("j", 2, cpu=1)
    pods = [
        replace(
            pod,
            spec=replace(
                pod.spec,
                containers=tuple(
                    replace(each, resources=replace(each.resources, requests={"cpu": "1", "memory": "1536Mi"}))
                    for each in pod.spec.containers
                ),
            ),
        )
        for pod in pods
    ]
    stage = Stage(
        CONFIGURATION % arguments, nodes=nodes, gangs=[other, (group, pods)], objects=[make_hypernode("h", 1, *"ab")]
    )
    stage.engine.apply_messages()
    trial = stage.engine.trial()
    (domain,) = trial.hypernodes.domains()
    assert trial.plugins.hypernode_score(stage.job("j"), domain) == pytest.approx(score)
    trial.run_trial()


def test_hypernode_that_is_too_small_scores_zero() -> None:
    stage = Stage(
        CONFIGURATION % "",
        nodes=[make_node("a", cpu=1)],
        gangs=[make_gang("j", 2)],
        objects=[make_hypernode("h", 1, "a")],
    )
    stage.engine.apply_messages()
    trial = stage.engine.trial()
    assert trial.plugins.hypernode_score(stage.job("j"), trial.hypernodes.domains()[0]) == 0.0
    trial.run_trial()


@pytest.mark.parametrize("seed", range(4))
def test_tasks_of_soft_job_are_placed_close_to_each_other(seed: int) -> None:
    """It needs three racks of two: those of the hall where it is already go before the one outside."""
    tree = [
        *(make_hypernode(f"r{number}", 1, *pair) for number, pair in enumerate(("ab", "cd", "ef"))),
        make_hypernode("hall", 2, *"abcd"),
    ]
    group, pods = make_gang("j", 5, on=["a"])
    group = replace(group, spec=replace(group.spec, network_topology=NetworkTopology(mode="soft")))
    nodes = [make_node(name, cpu=1) for name in "abcdef"]
    stage = Stage(CONFIGURATION % "", nodes=nodes, gangs=[(group, pods)], objects=tree, seed=seed).session()
    first, *others, last = stage.bound.values()
    assert (first, set(others)) == ("b", {"c", "d"})
    assert last in ("e", "f")


def test_invalid_weight_is_rejected() -> None:
    text = CONFIGURATION % "hypernode.binpack.resources: gpu, hypernode.binpack.resources.gpu: much"
    with pytest.raises(ConfigError, match="expected a whole number, not 'much'"):
        compile_program(parse(text))
