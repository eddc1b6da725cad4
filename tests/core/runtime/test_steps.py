"""Hooks as a profile compiles them: nothing raises, what is answered is checked, and the culprit is named."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from kframework import Code, CycleState, Handle, PendingPod, Plugin, Skip, Status, error, unschedulable
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.steps import Hook, Step, as_column, find_hook, status_step
from kframework.state.cluster import ClusterState
from kframework.testing import make_node, make_pod
from tests.extension_points.scripted import plugin, profile


def asked(compiled: Profile) -> tuple[CycleState, PendingPod, Any]:
    cluster = ClusterState()
    cluster.put_node(make_node("a"))
    return CycleState(), PendingPod(make_pod(), cluster.interner), cluster.nodes[0]


def made(kind: type[Plugin]) -> Plugin:
    return kind(kind.Args(), cast("Handle", None))


def fault(plugin: str, hook: str, problem: BaseException | str) -> Status:
    return Status(Code.ERROR, (f"{plugin}/{hook}: {problem}",), plugin)


@pytest.mark.parametrize(
    ("answer", "checked"),
    [
        (None, None),
        (Status(Code.SUCCESS), None),
        (unschedulable("x"), Status(Code.UNSCHEDULABLE, ("x",), "A")),
        (error("x"), Status(Code.ERROR, ("running it: x",), "A")),
        (Status(Code.WAIT), Status(Code.ERROR, ("running it: Wait",), "A")),
        ("yes", Status(Code.ERROR, ("A/filter: answered 'yes', which is not a Status",), "A")),
    ],
)
def test_status_is_checked_and_stamped(answer: object, checked: Status | None) -> None:
    assert Hook("A", "filter", fault).check_answer(answer, "it") == checked


def test_skip_of_pre_score_is_returned_unchecked() -> None:
    raw = Step(made(plugin("A")), lambda: Skip)
    assert status_step(raw, Hook("A", "x", fault), "X", (Code.SKIP,)).call() is Skip


def test_step_with_fixed_answer_does_not_call_the_plugin() -> None:
    def ask(*arguments: object) -> Status:
        raise AssertionError("asked")

    step = Step(made(plugin("A")), ask).with_fixed_answer(Skip)
    assert (step.name, step.call(1, 2, 3)) == ("A", Skip)


@pytest.mark.parametrize(("filters", "status"), [({"filter": None}, None), ({"filter": ValueError("x")}, Code.ERROR)])
def test_one_row_uses_the_scalar_form(filters: dict[str, Any], status: Code | None) -> None:
    compiled = profile(plugin("A", **filters))
    answer = compiled.filters[0].run(*asked(compiled))
    assert (None if answer is None else answer.code) == status


def test_one_row_uses_the_columnar_form_if_there_is_no_scalar_one() -> None:
    words: dict[str, Any] = {"filter_status": lambda pod, bits: unschedulable(f"bits {bits}")}
    compiled = profile(plugin("A", filter_nodes=lambda state, pod, nodes, rows: np.full(len(rows), 3), **words))
    (step,) = compiled.filters
    assert step.run(*asked(compiled)) == Status(Code.UNSCHEDULABLE, ("bits 3",), "A")
    assert step.explain(asked(compiled)[1], 5) == Status(Code.UNSCHEDULABLE, ("bits 5",), "A")


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (101, "returns an invalid score 101"),
        (1.5, "answered 1.5, which is not an integer"),
        (ValueError("x"), "ValueError: x"),
    ],
)
def test_score_out_of_range_or_not_an_integer_is_an_error(score: object, message: str) -> None:
    compiled = profile(plugin("A", score=score))
    answer = compiled.scores[0].run(*asked(compiled))
    assert isinstance(answer, Status) and answer.plugin == "A" and message in answer.message


@pytest.mark.parametrize(
    ("answer", "normalized"),
    [([0, 100], [0, 100]), (50, 50), ([0, 101], "invalid score 101"), ([-1, 0], "invalid score -1"), ([0], "shape")],
)
def test_normalised_scores_out_of_range_are_an_error(answer: Any, normalized: Any) -> None:
    given = answer if isinstance(answer, int) else np.array(answer)
    compiled = profile(plugin("A", score=1, normalize_score=lambda state, pod, scores: given))
    state, pod, _ = asked(compiled)
    got = compiled.scores[0].normalize_scores(state, pod, np.array([1, 2]))
    if isinstance(normalized, str):
        assert isinstance(got, Status) and normalized in got.message
    else:
        assert not isinstance(got, Status) and np.array_equal(got, normalized)


def test_columns_must_have_one_integer_per_row() -> None:
    assert as_column(7, 3).tolist() == [7, 7, 7]
    assert as_column(np.array([1, 2], dtype=np.int32), 2).dtype == np.int64
    with pytest.raises(TypeError, match=r"answered \[1, 2\] for 3 rows; return an integer for each, in their order"):
        as_column([1, 2], 3)
    with pytest.raises(TypeError, match=r"answered None for 1 rows"):
        as_column(None, 1)
    with pytest.raises(TypeError, match=r"answered an array of float64 and shape \(2,\) for 2 rows"):
        as_column(np.array([0.5, 1]), 2)


def test_find_hook_returns_implemented_hooks_only() -> None:
    one = made(plugin("A", filter=None))
    assert find_hook(one, "filter") is not None and find_hook(one, "score") is None
