"""What is logged of decisions and bindings."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from kframework.cli.logs import plain_text
from kframework.core.cycle.records import Binding, Decision, GroupDecision, Result
from kframework.observe.journal import Journal
from kframework.values.status import Code
from kframework.verbosity import NOTICE, V2

DECISION = Decision(
    attempt=7,
    pod_attempts=1,
    pod="shop/web",
    uid="u",
    profile="p",
    queued_at=0.0,
    popped_at=0.0,
    result=Result.SCHEDULED,
    node="a",
    nodes=5,
    evaluated=5,
    feasible=3,
    score=90,
    ties=1,
    best_nodes=(("a", 90), ("b", 80)),
    sample_value=0.25,
    timings=(("filter", 2_000_000, Code.SUCCESS), ("score", 500_000, Code.SUCCESS)),
)
UNFIT = replace(
    DECISION,
    result=Result.UNSCHEDULABLE,
    code=Code.UNSCHEDULABLE,
    node="",
    best_nodes=(),
    feasible=0,
    reasons={"no": 5},
    rejectors=("Fit",),
    message="0/5 nodes are available: 5 no.",
)
FAILED = replace(UNFIT, result=Result.ERROR, code=Code.ERROR, reasons={}, rejectors=(), message="odd")
BOUND = Binding(
    attempt=7,
    pod="shop/web",
    uid="u",
    profile="p",
    node="a",
    started_at=0.0,
    ended_at=0.0,
    code=Code.SUCCESS,
    sample_value=0.25,
)


def lines(
    caplog: pytest.LogCaptureFixture,
    level: int,
    *records: Decision | Binding,
    took: int = 0,
    journal: Journal | None = None,
) -> list[str]:
    """Return what is logged of these records."""
    journal = journal or Journal(now=lambda: took)
    with caplog.at_level(level):
        for record in records:
            if isinstance(record, Decision):
                journal.on_decision(record)
            else:
                journal.on_binding(record)
    return [plain_text(record) for record in caplog.records]


def test_bound_pod_is_logged_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    assert lines(caplog, V2, DECISION, BOUND) == [
        'Successfully bound pod to node pod="shop/web" node="a" attempt=7 evaluatedNodes=5 feasibleNodes=3'
    ]


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (
            UNFIT,
            'Unable to schedule pod; no fit; waiting pod="shop/web" attempt=7 err="0/5 nodes are available: 5 no."',
        ),
        (
            replace(BOUND, code=Code.UNSCHEDULABLE, message="rejected"),
            'Unable to schedule pod; no fit; waiting pod="shop/web" node="a" attempt=7 err="rejected"',
        ),
    ],
)
def test_unschedulable_pod_is_logged_with_one_line(
    caplog: pytest.LogCaptureFixture, record: Decision | Binding, line: str
) -> None:
    assert lines(caplog, V2, record) == [line]


def test_preemption_is_logged_with_node_and_victims(caplog: pytest.LogCaptureFixture) -> None:
    _, line = lines(caplog, V2, replace(UNFIT, nominated="b", victims=("shop/old",)))
    assert line == (
        'The target node for the preemption is determined pod="shop/web" attempt=7 node="b" victims=["shop/old"]'
    )


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        (FAILED, 'pod="shop/web" attempt=7 err="odd"'),
        (replace(BOUND, code=Code.ERROR, message="odd"), 'pod="shop/web" node="a" attempt=7 err="odd"'),
    ],
)
def test_error_is_logged_at_any_verbosity(
    caplog: pytest.LogCaptureFixture, record: Decision | Binding, fields: str
) -> None:
    assert lines(caplog, NOTICE, record) == [f"Error scheduling pod; retrying {fields}"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_missing_permission_is_not_logged_as_error_for_every_pod(caplog: pytest.LogCaptureFixture) -> None:
    message = 'User "me" cannot create resource "pods/binding" in API group ""'
    failed = replace(BOUND, code=Code.ERROR, message=message)
    assert lines(caplog, NOTICE, failed) == []
    fields = f'pod="shop/web" node="a" attempt=7 err={json.dumps(message)}'
    assert lines(caplog, V2, failed) == [f"Error scheduling pod; retrying {fields}"]


def test_skipped_binding_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert lines(caplog, V2, replace(BOUND, code=Code.SKIP)) == []


def test_successful_attempts_are_not_logged_without_verbosity(caplog: pytest.LogCaptureFixture) -> None:
    assert lines(caplog, logging.INFO, DECISION, BOUND, UNFIT, took=99_999_999) == []


@pytest.mark.parametrize("sample_value", [0.0, 0.99])
def test_slow_attempt_is_logged_with_its_steps(caplog: pytest.LogCaptureFixture, sample_value: float) -> None:
    slow = replace(DECISION, started=1_000_000, sample_value=sample_value)
    assert lines(caplog, NOTICE, slow, took=101_000_000) == [
        'Slow scheduling attempt pod="shop/web" node="a" attempt=7 milliseconds=100.0 steps={"filter":2.0,"score":0.5}'
    ]


def test_slow_attempt_is_logged_with_the_slowest_timed_plugins(caplog: pytest.LogCaptureFixture) -> None:
    spent = {"A": 100_000, "B": 4_000_000, "C": 1_000_000, "D": 2_000_000}
    timed = replace(DECISION, plugins=tuple(("filter", plugin, ns, Code.SUCCESS) for plugin, ns in spent.items()))
    (line,) = lines(caplog, NOTICE, timed, took=100_000_000)
    assert line.endswith('slowest={"B.filter":4.0,"D.filter":2.0,"C.filter":1.0}')


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (DECISION, 'node="a" attempt=7 best_nodes={"a":90,"b":80} score=90 ties=1'),
        (UNFIT, 'attempt=7 reasons={"no":5} rejectors=["Fit"]'),
        (replace(UNFIT, pending=("Fit",)), 'attempt=7 reasons={"no":5} rejectors=["Fit"] pending=["Fit"]'),
        (FAILED, "attempt=7"),
    ],
)
def test_plugin_answers_are_logged_at_verbosity_4(
    caplog: pytest.LogCaptureFixture, decision: Decision, said: str
) -> None:
    line = lines(caplog, logging.DEBUG, decision, took=3_000_000)[0]
    steps = 'milliseconds=3.0 steps={"filter":2.0,"score":0.5}'
    assert line == f'Plugin answers pod="shop/web" {said} {steps}'


def test_log_lines_of_traced_attempts_have_the_trace_id(caplog: pytest.LogCaptureFixture) -> None:
    def trace_id(attempt: int, sample_value: float) -> str:
        return f"{attempt:032x}" if sample_value < 0.5 else ""

    journal = Journal(trace_id, now=lambda: 0)
    untraced = replace(DECISION, sample_value=0.75), replace(BOUND, sample_value=0.75)
    first, second = lines(caplog, V2, DECISION, BOUND, *untraced, journal=journal)
    assert f'attempt=7 trace_id="{7:032x}"' in first
    assert "trace_id" not in second


def test_journal_keeps_nothing_of_ended_bindings(caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(now=lambda: 0)
    lines(caplog, V2, DECISION, BOUND, journal=journal)
    caplog.clear()
    kept: Mapping[int, object] = journal._binding
    assert not kept
    assert lines(caplog, V2, BOUND, journal=journal) == [
        'Successfully bound pod to node pod="shop/web" node="a" attempt=7'
    ]


def test_group_is_logged_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    group = GroupDecision(group="shop/red", profile="p", pods=3, result=Result.SCHEDULED)
    with caplog.at_level(V2):
        Journal().on_group_decision(group)
        Journal().on_group_decision(replace(group, placement="r1"))
        Journal().on_group_decision(replace(group, result=Result.UNSCHEDULABLE, message="no room"))
        Journal().on_group_decision(replace(group, result=Result.UNSCHEDULABLE, message="victims", preempts=True))
    assert [plain_text(record) for record in caplog.records] == [
        'Successfully scheduled a pod group podGroup="shop/red" pods=3',
        'Successfully scheduled a pod group podGroup="shop/red" pods=3 placement="r1"',
        'Unable to schedule a pod group podGroup="shop/red" pods=3 err="no room"',
        'Pod group is waiting for preemption podGroup="shop/red" pods=3 err="victims"',
    ]
