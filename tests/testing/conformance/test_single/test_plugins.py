"""One pod in a cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kframework import CycleState, NodeInfo, PendingPod, Plugin, Status, error, hookimpl
from kframework.core.runtime.registry import Registry
from kframework.testing.conformance.cases import Uncompared
from tests.testing.conformance.planted import PLUGINS, TAINT, Part, differing, node, replayed, single, with_plugins


def expect(**fields: object) -> Callable[[Part], None]:
    """Return a change of what is expected; None leaves a field out."""

    def change(case: Part) -> None:
        kept = {**case["expect"], **fields}
        case["expect"] = {name: value for name, value in kept.items() if value is not None}

    return change


def test_recorded_case_has_no_difference() -> None:
    assert replayed(single()).differences == []


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (
            expect(nodes={"plain": {"code": "Success"}, "soft": {"code": "Success"}}),
            {"nodes.hard"},
        ),
        (expect(totals={"plain": 397, "soft": 98}), {"totals.soft"}),
        (expect(totals={"plain": 397}), {"totals.soft"}),
        (expect(best=["soft"]), {"best"}),
        (expect(fitError="0/3 nodes are available."), {"fitError"}),
        (expect(scoreError="no"), {"scoreError"}),
        (expect(configError="no such thing"), {"configError"}),
        (expect(preEnqueue={"SchedulingGates": {"code": "Error"}}), {"preEnqueue.SchedulingGates"}),
    ],
)
def test_planted_difference_is_reported(change: Callable[[Part], None], fields: set[str]) -> None:
    assert differing(single(), change).keys() == fields


def test_infeasible_node_is_reported() -> None:
    assert "feasible" in differing(single(), expect(feasible=["plain"]))


def test_plugin_of_a_status_is_compared() -> None:
    def blame(case: Part) -> None:
        case["expect"]["nodes"]["hard"]["plugin"] = "NodeUnschedulable"

    facts = differing(single(), blame)
    assert facts.keys() == {"nodes.hard"}
    assert str(facts["nodes.hard"].got) == f"TaintToleration UnschedulableAndUnresolvable: {TAINT}"


def test_config_errors_are_equal_whatever_their_message() -> None:
    case = single()
    case["input"]["profile"] = with_plugins("NoSuchPlugin")
    case["expect"] = {"configError": "in other words", "feasible": []}
    assert replayed(case).differences == []


def test_unrecorded_config_error_is_reported() -> None:
    case = single()
    case["input"]["profile"] = with_plugins("NoSuchPlugin")
    (fact,) = replayed(case).differences
    assert (fact.path, fact.expected) == (("configError",), None)
    assert "NoSuchPlugin" in str(fact.got)


def nothing_fits(case: Part) -> None:
    tainted = {"code": "UnschedulableAndUnresolvable", "reasons": [TAINT]}
    case["input"]["nodes"] = [node("hard", key="dedicated", effect="NoSchedule")]
    case["expect"] = {
        "filter": {"hard": {"TaintToleration": tainted}},
        "nodes": {"hard": {**tainted, "plugin": "TaintToleration"}},
        "feasible": [],
        "fitError": f"0/1 nodes are available: 1 {TAINT}.",
    }


def test_messages_are_compared_exactly() -> None:
    assert differing(single(), nothing_fits) == {}

    def reworded(case: Part) -> None:
        nothing_fits(case)
        case["expect"]["fitError"] += " "

    assert differing(single(), reworded).keys() == {"fitError"}


def test_answers_of_an_unimplemented_plugin_are_left_uncompared() -> None:
    case = single()
    case["expect"]["preFilter"]["Unwritten"] = {"code": "Skip"}
    case["expect"]["scores"]["Uninstalled"] = {
        "weight": 1,
        "raw": {"plain": 0, "soft": 0},
        "normalized": {"plain": 0, "soft": 0},
    }
    comparison = replayed(case)
    assert comparison.differences == []
    assert comparison.uncompared == (
        Uncompared("answers", "Uninstalled is not implemented"),
        Uncompared("answers", "Unwritten is not implemented"),
    )


def test_totals_are_left_uncompared_without_a_scoring_plugin() -> None:
    case = single()
    case["expect"]["scores"]["Uninstalled"] = {"weight": 1, "normalized": {"plain": 0, "soft": 1}}
    case["expect"]["totals"] = {"plain": 397, "soft": 98}
    comparison = replayed(case)
    assert comparison.differences == []
    assert Uncompared("totals", "Uninstalled is not implemented") in comparison.uncompared


def test_cycle_is_left_uncompared_without_a_filtering_plugin() -> None:
    case = single()
    case["expect"]["filter"]["plain"] = {"Unwritten": {"code": "Unschedulable"}}
    case["expect"]["nodes"]["plain"] = {"code": "Unschedulable", "plugin": "Unwritten"}
    case["expect"]["feasible"] = ["soft"]
    for scored in case["expect"]["scores"].values():
        del scored["raw"]["plain"], scored["normalized"]["plain"]
    comparison = replayed(case)
    assert comparison.differences == []
    assert Uncompared("statuses, totals and messages", "Unwritten is not implemented") in comparison.uncompared


class Moody(Plugin):
    """Cannot score."""

    name = "Moody"

    @hookimpl
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: object, rows: object) -> Status | None:
        return error("no mood")

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return 0


def moody(case: Part) -> None:
    case["input"]["profile"] = with_plugins(*PLUGINS, "Moody")
    for field in ("scores", "totals", "best"):
        del case["expect"][field]


def test_recorded_error_is_no_difference() -> None:
    def change(case: Part) -> None:
        moody(case)
        case["expect"]["error"] = "in other words"

    assert differing(single(), change, Registry.with_plugins(Moody)) == {}
    assert "error" in differing(single(), moody, Registry.with_plugins(Moody))


def test_single_node_is_scored_to_compare_its_error() -> None:
    def change(case: Part) -> None:
        moody(case)
        case["input"]["nodes"] = case["input"]["nodes"][:2]
        del case["expect"]["nodes"]["soft"]
        case["expect"]["feasible"] = ["plain"]
        case["expect"]["scoreError"] = "in other words"

    assert differing(single(), change, Registry.with_plugins(Moody)) == {}
