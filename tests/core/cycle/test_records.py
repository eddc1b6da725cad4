"""The records of what happened, and the words made of them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.core.cycle.records import Binding, Decision, Result, fit_error
from kframework.values.status import Code


@pytest.mark.parametrize(
    ("nodes", "reasons", "pre", "post", "text"),
    [
        (
            5,
            {"node(s) had untolerated taint(s)": 3, "Insufficient cpu": 2},
            "",
            "",
            "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s).",
        ),
        (12, {"foo": 10, "bar": 2}, "", "", "0/12 nodes are available: 10 foo, 2 bar."),
        (3, {"a": 3}, "", "not found", "0/3 nodes are available: 3 a. not found"),
        (
            3,
            {"a": 3},
            "pod has unbound immediate PersistentVolumeClaims",
            "not found",
            "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
        ),
        (1, {}, "", "", "0/1 nodes are available:"),
        (1, {}, "", "preemption: none", "0/1 nodes are available: preemption: none"),
    ],
)
def test_fit_error_has_the_text_of_kube_scheduler(
    nodes: int, reasons: Mapping[str, int], pre: str, post: str, text: str
) -> None:
    assert fit_error(nodes, reasons, pre_filter_message=pre, post_filter_message=post) == text


@given(st.dictionaries(st.text("ab ", min_size=1), st.integers(1, 200), max_size=5))
def test_order_of_the_reasons_does_not_matter(reasons: dict[str, int]) -> None:
    backwards = dict(reversed(reasons.items()))
    assert fit_error(9, reasons) == fit_error(9, backwards)


def test_records_survive_being_written_down() -> None:
    decision = Decision(
        attempt=1,
        pod_attempts=1,
        pod="default/p",
        uid="u",
        profile="default-scheduler",
        queued_at=1.0,
        popped_at=2.0,
        result=Result.UNSCHEDULABLE,
        code=Code.UNSCHEDULABLE,
        reasons={"full": 2},
        rejectors=("Fit",),
        message="0/2 nodes are available: 2 full.",
        best_nodes=(("a", 5),),
    )
    binding = Binding(
        attempt=1,
        pod="default/p",
        uid="u",
        profile="default-scheduler",
        node="a",
        started_at=1.0,
        ended_at=2.0,
        code=Code.SUCCESS,
    )
    for record in (decision, binding):
        assert msgspec.json.decode(msgspec.json.encode(record), type=type(record)) == record
