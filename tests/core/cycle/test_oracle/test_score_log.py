"""The scores of every node are logged, and nothing is changed by that."""

from __future__ import annotations

import logging
from itertools import count
from random import Random

import pytest

from kframework import CycleState, PendingPod
from kframework.core.cycle.records import Result
from kframework.objects import ApiObject
from kframework.simulation.simulation import Simulation, simulate
from kframework.testing import make_node, make_pod
from kframework.values.scores import Scores
from kframework.verbosity import V5, V10
from tests.core.test_pod_engine import Stage
from tests.extension_points.scripted import held, plugin


def run(caplog: pytest.LogCaptureFixture, level: int, *objects: ApiObject) -> Simulation:
    with caplog.at_level(level):
        return simulate(objects)


def scores(caplog: pytest.LogCaptureFixture, message: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.message == message]


def test_of_each_node_the_score_of_each_plugin_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    result = run(caplog, V10, make_node("a", cpu="4"), make_node("b", cpu="8"), make_pod("web", cpu="1"))
    (decision,) = result.decisions
    given: dict[str, int] = {}
    for record in scores(caplog, "Plugin scored node for pod"):
        node, score = record.__dict__["node"], record.__dict__["score"]
        given[node] = given.get(node, 0) + score
    finals = {r.__dict__["node"]: r.__dict__["score"] for r in scores(caplog, "Calculated node's final score for pod")}
    assert given == finals == dict(decision.best_nodes)


def test_single_feasible_node_is_not_scored(caplog: pytest.LogCaptureFixture) -> None:
    run(caplog, V10, make_node("a"), make_pod("web"))
    assert not [record for record in caplog.records if record.name == "kframework.core.cycle.oracle"]


def test_decisions_are_the_same_with_and_without(caplog: pytest.LogCaptureFixture) -> None:
    objects = [*(make_node(f"node-{i}") for i in range(5)), *(make_pod(f"pod-{i}") for i in range(20))]
    loud, quiet = run(caplog, V10, *objects), run(caplog, V5, *objects)
    assert [decision.node for decision in loud.decisions] == [decision.node for decision in quiet.decisions]


def test_plugin_that_fails_only_when_it_is_asked_again_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    calls = count()

    def normalize_score(state: CycleState, pod: PendingPod, scores: Scores) -> Scores:
        held(moody).random.random()
        if next(calls):
            raise ValueError("not again")
        return scores

    moody = plugin("Moody", score=1, normalize_score=normalize_score)
    stage = Stage(moody, objects=[make_node("a"), make_node("b"), make_pod()], verifying=False)
    drawn_once = Random()
    drawn_once.setstate(held(moody).random.getstate())
    drawn_once.random()
    with caplog.at_level(V10):
        stage.engine.step()
    (decision,) = stage.decisions
    assert decision.result is Result.SCHEDULED
    assert next(calls) == 2
    assert held(moody).random.getstate() == drawn_once.getstate()
    assert "Calculated node's final score for pod" in caplog.messages
