"""Plugins asked one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kframework import CycleState, NodeInfo, NodeTable, PendingPod, Plugin, Status, error, hookimpl
from kframework.core.runtime.registry import Registry
from kframework.plugins.taint_toleration import TaintToleration
from kframework.values.scores import Rows, Scores
from tests.testing.conformance.planted import PLUGINS, Json, Part, differing, replayed, single, with_plugins


def put(*path: str | int, value: Json) -> Callable[[Part], None]:
    """Return a change that puts a value into what is expected."""

    def change(case: Part) -> None:
        answers: Json = case["expect"]
        for step in path[:-1]:
            answers = answers.setdefault(step, {}) if isinstance(answers, dict) else answers[step]
        answers[path[-1]] = value

    return change


def drop(*path: str) -> Callable[[Part], None]:
    """Return a change that takes something out of what is expected."""

    def change(case: Part) -> None:
        answers: Json = case["expect"]
        for step in path[:-1]:
            answers = answers[step]
        del answers[path[-1]]

    return change


def test_recorded_case_has_no_difference() -> None:
    comparison = replayed(single())
    assert comparison.differences == []
    assert comparison.uncompared == ()
    assert len(comparison.facts) > 20


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (
            put("filter", "hard", "TaintToleration", "reasons", value=["tainted"]),
            {"filter.hard.TaintToleration", "filter_nodes.hard.TaintToleration"},
        ),
        (
            put("filter", "hard", "TaintToleration", "code", value="Unschedulable"),
            {"filter.hard.TaintToleration", "filter_nodes.hard.TaintToleration"},
        ),
        (drop("filter", "hard"), {"filter.hard.TaintToleration", "filter_nodes.hard.TaintToleration"}),
        (
            put("filter", "plain", value={"NodeResourcesFit": {"code": "Unschedulable", "reasons": ["Too many pods"]}}),
            {
                "filter.plain.NodeResourcesFit",
                "filter_nodes.plain.NodeResourcesFit",
            },
        ),
        (
            put("filter", "ghost", value={"NodeUnschedulable": {"code": "Unschedulable"}}),
            {"filter.ghost.NodeUnschedulable", "filter_nodes.ghost.NodeUnschedulable"},
        ),
        (put("preFilter", "NodeResourcesFit", value={"code": "Skip"}), {"preFilter.NodeResourcesFit"}),
        (
            put("preFilter", "NodeResourcesFit", value={"code": "Success", "nodeNames": ["plain"]}),
            {"preFilter.NodeResourcesFit"},
        ),
        (put("filterSkipped", value=["NodeResourcesFit"]), {"filterSkipped.NodeResourcesFit"}),
        (put("filterNotRun", value=["NodeResourcesFit"]), {"filterNotRun.NodeResourcesFit"}),
        (put("scoreSkipped", value=["TaintToleration"]), {"scoreSkipped.TaintToleration"}),
        (put("scores", "TaintToleration", "weight", value=4), {"scores.TaintToleration.weight"}),
        (
            put("scores", "TaintToleration", "raw", "soft", value=2),
            {"scores.TaintToleration.raw.soft", "score_nodes.TaintToleration.soft"},
        ),
        (
            put("scores", "TaintToleration", "normalized", "soft", value=1),
            {"scores.TaintToleration.normalized.soft"},
        ),
        (
            drop("scores", "NodeResourcesFit", "raw", "soft"),
            {"scores.NodeResourcesFit.raw.soft", "score_nodes.NodeResourcesFit.soft"},
        ),
        (drop("scores", "NodeResourcesFit"), {"scores.NodeResourcesFit"}),
        (put("scores", "NodeUnschedulable", value={"weight": 1}), {"scores.NodeUnschedulable"}),
    ],
)
def test_planted_difference_is_reported(change: Callable[[Part], None], fields: set[str]) -> None:
    assert differing(single(), change).keys() == fields


def test_unrecorded_gate_is_reported() -> None:
    case = single()
    case["input"]["pod"]["spec"]["schedulingGates"] = [{"name": "quota"}]
    fields = {fact.path[:2] for fact in replayed(case).differences}
    assert ("preEnqueue", "SchedulingGates") in fields


def test_gated_pod_is_not_compared_further() -> None:
    case = single()
    case["input"]["pod"]["spec"]["schedulingGates"] = [{"name": "quota"}]
    reasons = ["waiting for scheduling gates: [quota]"]
    gated = {"code": "UnschedulableAndUnresolvable", "reasons": reasons}
    case["expect"] = {"preEnqueue": {"SchedulingGates": gated}, "feasible": []}
    comparison = replayed(case)
    assert comparison.differences == []
    assert [fact.path for fact in comparison.facts] == [("preEnqueue", "SchedulingGates")]


class Lenient(TaintToleration):
    """A columnar form that does not agree with the scalar one."""

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        return np.zeros(len(nodes.order), dtype=np.int64)

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        return np.full(2, 7)


def test_columnar_form_that_differs_is_reported() -> None:
    facts = differing(single(), lambda case: None, Registry.with_plugins(Lenient))
    assert facts.keys() == {
        "filter_nodes.hard.TaintToleration",
        "score_nodes.TaintToleration.plain",
        "score_nodes.TaintToleration.soft",
    }


class Sick(Plugin):
    """Fails at every point."""

    name = "Sick"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return error("sick") if node.name == "soft" else None

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        raise ValueError("sick")


def test_plugin_error_is_compared_by_its_message() -> None:
    case = single()
    case["input"]["profile"] = with_plugins(*PLUGINS, "Sick")
    case["expect"]["filter"]["soft"] = {"Sick": {"code": "Error", "reasons": ["sick"]}}
    facts = differing(case, lambda case: None, Registry.with_plugins(Sick))
    assert "filter.soft.Sick" not in facts
    assert facts["scores.Sick"].expected is None
    assert "ValueError: sick" in str(facts["scores.Sick"].got)
