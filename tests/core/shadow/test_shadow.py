"""A shadow: what its decisions are counted as, and why they differ."""

from __future__ import annotations

import logging

import pytest

from kframework import CycleState, NodeInfo, PendingPod, Plugin, Status, hookimpl, unschedulable
from kframework.core.shadow.difference import (
    AGREED,
    FAILED,
    OTHER_NODE,
    OTHER_VICTIMS,
    WOULD_FIT,
    WOULD_NOT_FIT,
    ScoreMargin,
)
from kframework.objects import ApiObject
from kframework.testing import make_node, make_pod
from tests.core.shadow.shadowed import only_shadow, shadowed

LARGE, SMALL, TAINTED = make_node("large", cpu=16), make_node("small", cpu=4), make_node("t", taints=["k=v:NoSchedule"])
POD = make_pod("p", cpu="1")
VICTIM = make_pod("victim", cpu="3", node_name="small", priority=0)
PACKING = "pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]"


def without(plugin: str) -> str:
    return f"plugins: {{multiPoint: {{disabled: [{{name: {plugin}}}]}}}}"


class Refusing(Plugin):
    """Reject all nodes."""

    name = "Refusing"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return self.reject()

    def reject(self) -> Status:
        return unschedulable("refused")


class Failing(Refusing):
    """Raise."""

    name = "Failing"

    def reject(self) -> Status:
        raise ValueError("never")


def enabled(plugin: type[Plugin]) -> str:
    return f"plugins: {{multiPoint: {{enabled: [{{name: {plugin.name}}}]}}}}"


@pytest.mark.parametrize(
    ("objects", "candidate", "outcome", "reason", "plugin"),
    [
        ([LARGE, SMALL, POD], PACKING, OTHER_NODE, "NodeResourcesFit 3 → 12; total", "NodeResourcesFit"),
        ([TAINTED, POD], without("TaintToleration"), WOULD_FIT, "0/1 nodes are available", "TaintToleration"),
        ([LARGE, POD], enabled(Refusing), WOULD_NOT_FIT, "0/1 nodes are available: 1 refused", "Refusing"),
        ([LARGE, POD], enabled(Failing), FAILED, "plugin 'Failing'", ""),
        (
            [SMALL, VICTIM, make_pod("first", cpu="2", priority=9)],
            without("DefaultPreemption"),
            OTHER_VICTIMS,
            "0/1 nodes are available",
            "",
        ),
    ],
)
def test_each_difference_is_counted_with_its_reason(
    objects: list[ApiObject], candidate: str, outcome: str, reason: str, plugin: str
) -> None:
    simulation = shadowed(objects, candidate, plugins=[Refusing, Failing]).run()
    shadow = only_shadow(simulation)
    difference = shadow.differences[0]
    assert (difference.outcome, difference.plugin) == (outcome, plugin)
    assert difference.reason.startswith(reason)
    assert shadow.counts[outcome] >= 1
    assert +shadow.plugins == ({plugin: shadow.counts[outcome]} if plugin else {})


def test_shadow_has_the_scores_of_both_nodes_the_largest_margin_first() -> None:
    shadow = only_shadow(shadowed([LARGE, SMALL, POD], PACKING).run())
    (difference,) = shadow.differences
    assert (difference.decision.node, difference.shadow_decision.node) == ("large", "small")
    assert difference.margins[0].plugin == "NodeResourcesFit"
    assert difference.margins[0].margin > 0 >= difference.margins[-1].margin
    totals = dict(difference.shadow_decision.best_nodes)
    assert sum(each.shadow_score for each in difference.margins) == totals["small"]
    assert sum(each.node_score for each in difference.margins) == totals["large"]
    assert isinstance(difference.margins[0], ScoreMargin)


def test_pods_of_a_run_are_decided_each_on_the_state_before_it() -> None:
    pods = [make_pod(f"p{number}", cpu="1") for number in range(20)]
    simulation = shadowed([LARGE, SMALL, *pods], PACKING).run()
    shadow = only_shadow(simulation)
    assert shadow.counts[AGREED] + shadow.counts[OTHER_NODE] == 20
    assert {each.shadow_decision.node for each in shadow.differences} <= {"small", "large"}


def test_faults_of_a_shadow_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    pods = [make_pod(f"p{number}", cpu="1") for number in range(5)]
    with caplog.at_level(logging.WARNING):
        shadow = only_shadow(shadowed([LARGE, SMALL, *pods], enabled(Failing), plugins=[Failing]).run())
    assert shadow.counts[FAILED] == 5
    lines = [record.getMessage() for record in caplog.records if "candidate" in record.getMessage()]
    assert lines == [
        "shadow 'candidate' of profile 'default-scheduler': plugin 'Failing', hook filter: ValueError: never"
    ]
