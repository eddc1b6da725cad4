"""Random worlds in which pods and nodes come and go, and the load is measured, late, incomplete or not at all."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from kframework_load_aware import LoadVariationRiskBalancing, LowRiskOverCommitment, TargetLoadPacking
from kframework_load_aware.load_aware import LoadAware
from kframework_load_aware.providers import NodeLoad

from kframework import PendingPod, Scores
from kframework.clock import seconds_of
from kframework.engine import MemoryCluster
from kframework.objects import Node, Pod
from kframework.testing import RUN_SECONDS, Scenario, ScenarioResult, create, make_container, make_node, make_pod, patch
from tests.support.scale import seeds

#: When virtual time begins, and how long a world lasts.
BEGIN, LENGTH = seconds_of("2026-01-01T00:00:00Z"), 1500


def audited(plugin: type[LoadAware[Any, Any]]) -> type[LoadAware[Any, Any]]:
    """Return the plugin, which measures the nodes again for every score and fails if it knew something else of them."""

    class Audited(plugin):  # type: ignore[valid-type,misc]  # a class that is an argument
        name = plugin.name

        def _scores(self, pod: PendingPod, rows: Any) -> Scores:
            scores: Scores = super()._scores(pod, rows)
            again = self.measure([self.handle.nodes[row] for row in rows.tolist()])
            np.testing.assert_array_equal(self._figures[..., rows], again)
            return scores

    return Audited


def run_world(plugin: type[LoadAware[Any, Any]], seed: int) -> ScenarioResult:
    random = Random(seed)
    names = [f"n{number}" for number in range(6)]
    nodes = [make_node(name, cpu=random.choice([4, 8]), memory="32Gi") for name in names[:4]]
    scenario = Scenario(nodes=nodes, plugins=[audited(plugin)])
    script = scenario.source(plugin.name, "load")
    changes: list[Callable[[float], Callable[[MemoryCluster], object]]] = [
        *[lambda at: create(draw_pod(random))] * 12,
        *[lambda at: script.publish(draw_loads(random, names, at))] * 6,
        lambda at: script.fail("connection refused"),
        lambda at: script.stop_publishing(),
        lambda at: patch(nodes[0], {"spec": {"unschedulable": random.random() < 0.5}}),
    ]
    for name in names[4:]:
        scenario.at(random.uniform(0, LENGTH / 2), create(make_node(name, cpu=8, memory="32Gi")))
    for _ in range(80):
        at = random.uniform(0, LENGTH)
        scenario.at(at, random.choice(changes)(at))
    return scenario.run(until=LENGTH + 1000)


def draw_pod(random: Random) -> Pod:
    cpu = random.choice([None, "100m", "500m"])
    container = make_container(cpu=cpu, memory="64Mi", limits=random.choice([{}, {"cpu": "2", "memory": "1Gi"}]))
    run = {RUN_SECONDS: str(random.randint(10, 900))}
    return make_pod(f"pod-{random.randrange(1 << 40)}", containers=[container], annotations=run)


def draw_loads(random: Random, names: list[str], at: float) -> dict[str, NodeLoad]:
    """Draw measurements that are a little late, of some nodes, with windows of any length."""

    def percent() -> float | None:
        return random.choice([None, random.uniform(-5, 120)])

    end, window = BEGIN + at - random.uniform(0, 200), random.choice([30.0, 60.0, 900.0])
    measured = random.sample(names, random.randint(0, len(names)))
    return {
        name: NodeLoad(end, percent(), random.uniform(0, 60), percent(), random.uniform(0, 60), window=window)
        for name in measured
    }


def check_world(plugin: type[LoadAware[Any, Any]], seed: int) -> None:
    result = run_world(plugin, seed)
    pods = result.cluster.objects(Pod)
    assert len(pods) > 20
    assert len(result.cluster.objects(Node)) == 6
    assert all(pod.spec.node_name for pod in pods), "the nodes have room for all of them"
    assert not [decision.message for decision in result.decisions if decision.message]


FAMILY = (TargetLoadPacking, LoadVariationRiskBalancing, LowRiskOverCommitment)


@pytest.mark.parametrize("seed", seeds(7))
@pytest.mark.parametrize("plugin", FAMILY)
def test_every_pod_is_scheduled_by_what_is_known_at_the_time(plugin: type[LoadAware[Any, Any]], seed: int) -> None:
    check_world(plugin, seed)


@pytest.mark.slow
def test_audit_notices_figures_that_are_not_measured_again() -> None:
    class Forgetful(TargetLoadPacking):
        name = "TargetLoadPacking"

        def _catch_up(self, rows: Any) -> None:
            if not self._known.any():
                super()._catch_up(np.arange(len(self.handle.nodes)))

    messages = [decision.message for decision in run_world(Forgetful, 0).decisions]
    assert any("Arrays are not equal" in message for message in messages)
