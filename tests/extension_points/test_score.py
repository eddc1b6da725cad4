"""PreScore, Score and NormalizeScore: scores of 0 to 100, weighted and summed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from kframework import (
    Code,
    CycleState,
    NodeInfo,
    NodeTable,
    PendingPod,
    Plugin,
    Skip,
    Status,
    error,
    min_max_normalize,
    unschedulable,
)
from kframework.values.scores import Rows, Scores
from tests.extension_points.scripted import plugin, run

#: Every node passes in two rows, so that there is something to choose.
PASSES = plugin("Passes", filter=None)


def by_node(**scores: object) -> object:
    def score(state: CycleState, pod: PendingPod, node: NodeInfo) -> object:
        answer = scores[node.name]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return score


def by_column(**scores: int) -> object:
    def score_nodes(state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        chosen = np.arange(nodes.capacity)[rows]
        return np.array([scores[nodes[row].name] for row in chosen.tolist()], dtype=np.int64)

    return score_nodes


@pytest.mark.parametrize("reads", [None, "node", "pods"])
@pytest.mark.parametrize(
    ("hooks", "weights", "totals"),
    [
        ([{"score": by_node(a=10, b=30, c=20)}], {}, [("b", 30), ("c", 20), ("a", 10)]),
        ([{"score_nodes": by_column(a=10, b=30, c=20)}], {}, [("b", 30), ("c", 20), ("a", 10)]),
        ([{"score": by_node(a=0, b=100, c=99)}], {"P0": 3}, [("b", 300), ("c", 297), ("a", 0)]),
        ([{"score_nodes": lambda *_: 7}, {"score": by_node(a=1, b=0, c=2)}], {}, [("c", 9), ("a", 8), ("b", 7)]),
        (
            [{"score": by_node(a=1, b=0, c=2)}, {"score": by_node(a=0, b=50, c=1)}],
            {"P0": 100, "P1": 2},
            [("c", 202), ("a", 100), ("b", 100)],
        ),
        (
            [
                {
                    "score": by_node(a=-5, b=5, c=1000),
                    "normalize_score": lambda state, pod, scores: min_max_normalize(scores),
                }
            ],
            {"P0": 2},
            [("c", 200), ("b", 0), ("a", 0)],
        ),
        (
            [
                {
                    "score": by_node(a=7, b=7, c=7),
                    "normalize_score": lambda state, pod, scores: min_max_normalize(scores),
                },
                {"score": by_node(a=1, b=2, c=3)},
            ],
            {},
            [("c", 3), ("b", 2), ("a", 1)],
        ),
    ],
)
def test_totals_are_weighted_sums(
    hooks: list[dict[str, object]], weights: Mapping[str, int], totals: list[tuple[str, int]], reads: str | None
) -> None:
    plugins = [plugin(f"P{n}", reads=reads, **each) for n, each in enumerate(hooks)]  # type: ignore[arg-type]  # one of three
    result = run(*plugins, nodes=("a", "b", "c"), weights=weights)
    decision = result.decisions[0]
    assert sorted(decision.best_nodes) == sorted(totals)
    assert (decision.node, decision.score, decision.feasible) == (*totals[0], 3)


def test_one_of_the_best_nodes_is_chosen_at_random() -> None:
    result = run(plugin("P", score=by_node(a=5, b=9, c=9)), nodes=("a", "b", "c"), pods=[f"p{n}" for n in range(20)])
    assert {decision.node for decision in result.decisions} == {"b", "c"}
    assert {decision.ties for decision in result.decisions} == {2}


def test_single_feasible_node_is_not_scored() -> None:
    only = plugin("Only", filter=lambda state, pod, node: None if node.name == "b" else unschedulable())
    journal: list[str] = []
    scoring = plugin("P", pre_score=error("not asked"), score=error("not asked"), journal=journal)
    result = run(only, scoring, nodes=("a", "b"))
    assert result.node_of("pod") == "b"
    assert journal == []


def test_only_feasible_nodes_are_normalised() -> None:
    seen: list[list[int]] = []

    def normalize(state: CycleState, pod: PendingPod, scores: Scores) -> Scores:
        seen.append(sorted(scores.tolist()))
        return scores

    picky = plugin("Picky", filter=lambda state, pod, node: unschedulable() if node.name == "c" else None)
    scoring = plugin("P", score=by_node(a=1, b=2, c=3), normalize_score=normalize, reads="node")
    result = run(picky, scoring, nodes=("a", "b", "c"))
    assert result.node_of("pod") == "b"
    assert set(map(tuple, seen)) == {(1, 2)}


@pytest.mark.parametrize("answer", [None, Status(Code.SUCCESS)])
def test_score_runs_after_pre_score_succeeds(answer: object) -> None:
    assert run(plugin("P", pre_score=answer, score=by_node(a=1, b=2)), nodes=("a", "b")).node_of("pod") == "b"


@pytest.mark.parametrize("reads", [None, "pods"])
def test_pre_score_skip_skips_the_score_of_the_plugin(reads: str | None) -> None:
    skipping = plugin("P", pre_score=Skip, score=by_node(a=100, b=-7), reads=reads)  # type: ignore[arg-type]  # one of two
    result = run(skipping, plugin("Q", score=by_node(a=1, b=2)), nodes=("a", "b"))
    assert result.node_of("pod") == "b"
    assert result.decisions[0].score == 2


NO_INTEGER = "which is not an integer; return one, from 0 to 100"
INVALID = (
    'applying score defaultWeights on Score plugins: plugin "P" returns an invalid score {}, '
    "it should in the range of [0, 100] after normalizing"
)
NORMALIZED = {"score": by_node(a=0, b=5)}


@pytest.mark.parametrize("reads", [None, "node", "pods"])
@pytest.mark.parametrize(
    ("hooks", "message"),
    [
        ({"pre_score": error("broken"), "score": by_node(a=1, b=2)}, 'running PreScore plugin "P": broken'),
        ({"pre_score": unschedulable("broken"), "score": by_node(a=1, b=2)}, 'running PreScore plugin "P": broken'),
        (
            {"pre_score": ValueError("broken"), "score": by_node(a=1, b=2)},
            "plugin 'P', hook pre_score: ValueError: broken",
        ),
        (
            {"pre_score": 3, "score": by_node(a=1, b=2)},
            "plugin 'P', hook pre_score: answered 3, which is not a Status",
        ),
        ({"score": by_node(a=101, b=0)}, INVALID.format(101)),
        ({"score": by_node(a=0, b=-1)}, INVALID.format(-1)),
        ({"score_nodes": by_column(a=0, b=-1)}, INVALID.format(-1)),
        ({"score_nodes": lambda *_: 101}, INVALID.format(101)),
        ({"score": by_node(a=0, b=ValueError("broken"))}, "plugin 'P', hook score: ValueError: broken"),
        ({"score": by_node(a=0, b=1.5)}, "plugin 'P', hook score: answered 1.5, " + NO_INTEGER),
        ({"score": by_node(a=0, b=True)}, "plugin 'P', hook score: answered True, " + NO_INTEGER),
        ({"score": by_node(a=0, b=None)}, "plugin 'P', hook score: answered None, " + NO_INTEGER),
        (
            NORMALIZED | {"normalize_score": ValueError("broken")},
            "plugin 'P', hook normalize_score: ValueError: broken",
        ),
        (NORMALIZED | {"normalize_score": lambda state, pod, scores: scores + 99}, INVALID.format(104)),
        (NORMALIZED | {"normalize_score": lambda state, pod, scores: scores - 1}, INVALID.format(-1)),
        (NORMALIZED | {"normalize_score": lambda state, pod, scores: 101}, INVALID.format(101)),
    ],
)
def test_scoring_fault_fails_the_attempt_and_names_the_plugin(
    hooks: dict[str, object], message: str, reads: str | None
) -> None:
    result = run(plugin("P", reads=reads, **hooks), nodes=("a", "b"))  # type: ignore[arg-type]  # one of three
    condition = result.condition_of("pod")
    assert condition is not None
    assert (condition.reason, condition.message) == ("SchedulerError", message)
    assert result.state_of("pod") == "backoff"
    assert result.queued("pod").rejectors == frozenset()


@pytest.mark.parametrize("reads", [None, "pods"])
@pytest.mark.parametrize(
    "hooks",
    [
        {"score_nodes": ValueError("broken")},
        {"score_nodes": lambda *_: None},
        {"score_nodes": lambda *_: 1.5},
        {"score_nodes": lambda state, pod, nodes, rows: np.zeros(7, dtype=np.int64)},
        {"score_nodes": lambda state, pod, nodes, rows: np.full(2, 0.5)},
        NORMALIZED | {"normalize_score": lambda state, pod, scores: None},
        NORMALIZED | {"normalize_score": lambda state, pod, scores: scores / 7},
        NORMALIZED | {"normalize_score": lambda state, pod, scores: np.zeros(7, dtype=np.int64)},
    ],
)
def test_invalid_score_columns_are_a_plugin_fault(hooks: dict[str, object], reads: str | None) -> None:
    result = run(plugin("P", reads=reads, **hooks), nodes=("a", "b"))  # type: ignore[arg-type]  # one of two
    assert result.state_of("pod") == "backoff"
    assert result.message_of("pod").startswith("plugin 'P', hook ")
    assert result.queued("pod").rejectors == frozenset()


def test_scoring_fault_on_an_infeasible_node_is_ignored() -> None:
    picky = plugin("Picky", filter=lambda state, pod, node: unschedulable() if node.name == "c" else None)
    result = run(picky, plugin("P", score=by_node(a=1, b=2, c=ValueError())), nodes=("a", "b", "c"))
    assert result.node_of("pod") == "b"


def test_scoring_fault_affects_no_other_pod() -> None:
    def score(state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return 1000 if pod.name == "victim" else 50

    result = run(plugin("P", score=score), nodes=("a", "b"), pods=("victim", "other"))
    assert (result.state_of("victim"), result.state_of("other")) == ("backoff", "bound")


def test_first_node_of_the_rotation_is_chosen_without_score_plugins() -> None:
    result = run(PASSES, nodes=("a", "b", "c"), pods=("p1", "p2", "p3", "p4"))
    assert [decision.node for decision in result.decisions] == ["a", "b", "c", "a"]
    assert {decision.evaluated for decision in result.decisions} == {1}


def scoring_alone() -> type[Plugin]:
    return plugin("P", score=by_node(a=1, b=2))


def test_pre_score_without_score_changes_no_total() -> None:
    result = run(plugin("Q", pre_score=None), scoring_alone(), nodes=("a", "b"))
    assert result.node_of("pod") == "b"
