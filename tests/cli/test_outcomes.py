"""What a simulation came to, as it is printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from kframework.cli.logs import logging_to_stderr
from kframework.cli.options import Output
from kframework.cli.outcomes import print_moved, print_outcomes, report_notices, summarise
from kframework.core.cycle.records import Decision, Result
from kframework.simulation.records import PodOutcome, SimulationResult

PLACED = PodOutcome("shop/web", "node-a", "", 1, "batch", "Running")
WAITING = PodOutcome("shop/huge", None, "no room", 3, "batch", rejected_by=("gang", "predicates"))
FOREIGN = PodOutcome("shop/other", None, "", 0, "mine")


def decision(pod: str, **facts: Any) -> Decision:
    """Make an attempt with only the printed fields filled in."""
    return Decision(
        attempt=1,
        pod_attempts=1,
        pod=pod,
        uid=pod,
        profile="batch",
        queued_at=0.0,
        popped_at=0.0,
        result=Result.ERROR,
        **facts,
    )


PREEMPTION = decision("shop/huge", evaluated=4, rejectors=("gang", "predicates"), victims=("shop/small",))
SIMULATION = SimulationResult(
    outcomes=(PLACED, WAITING, FOREIGN),
    decisions=(decision("shop/web", feasible=2, evaluated=4, score=70, best_nodes=(("node-a", 70),)), PREEMPTION),
    bindings=(),
    preemptions=(PREEMPTION,),
    seconds=90.0,
    retrying=("shop/huge", "shop/one", "shop/two"),
    stuck=dict.fromkeys(("shop/one", "shop/two"), "in Quota.pre_bind for 600 s"),
    notices=("plugin odd is passed over",),
)


@pytest.fixture(autouse=True)
def said() -> Iterator[None]:
    """Let what is said come to stderr."""
    with logging_to_stderr():
        yield


def printed(capsys: pytest.CaptureFixture[str], output: Output | None) -> str:
    print_outcomes(SIMULATION, output)
    return capsys.readouterr().out


def test_table_has_a_row_per_pod(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, None).splitlines() == [
        "NAMESPACE  POD    NODE    STATUS   ATTEMPTS  MESSAGE",
        "shop       web    node-a  Running  1",
        "shop       huge   <none>  Pending  3         no room",
        "shop       other  <none>  Pending  0",
    ]


def test_wide_table_shows_the_last_attempt(capsys: pytest.CaptureFixture[str]) -> None:
    _, *rows = printed(capsys, Output.WIDE).splitlines()
    assert [row.split()[5:] for row in rows] == [
        ["70", "2", "4", "batch", "<none>"],
        ["<none>", "0", "4", "batch", "gang,predicates", "no", "room"],
        ["<none>", "<none>", "<none>", "mine", "<none>"],
    ]


def test_items_and_names(capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.loads(printed(capsys, Output.JSON))
    assert answer["items"][1] == {
        "pod": "shop/huge",
        "node": None,
        "message": "no room",
        "attempts": 3,
        "profile": "batch",
        "phase": "Pending",
        "rejectedBy": ["gang", "predicates"],
        "group": "",
    }
    assert yaml.safe_load(printed(capsys, Output.YAML)) == answer
    assert printed(capsys, Output.NAME) == "pod/web\npod/huge\npod/other\n"


def outcomes(**places: str) -> dict[str, PodOutcome]:
    """Make outcomes by pod, of nodes; what begins with a capital is the reason why a pod waits."""
    return {
        f"shop/{name}": PodOutcome(
            f"shop/{name}", None if place[0].isupper() else place, place if place[0].isupper() else "", attempts=1
        )
        for name, place in places.items()
    }


def test_moved_pod_is_elsewhere_or_waits_for_another_reason(capsys: pytest.CaptureFixture[str]) -> None:
    before = outcomes(stays="a", moves="a", starts="Full", waits="Full", goes="a", same="Full")
    now = outcomes(stays="a", moves="b", starts="a", waits="Tainted", same="Full", comes="b")
    print_moved(before, now)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["NAMESPACE", "POD", "BEFORE", "NOW", "MESSAGE"],
        ["shop", "moves", "a", "b"],
        ["shop", "starts", "<pending>", "a"],
        ["shop", "waits", "<pending>", "<pending>", "Tainted"],
        ["shop", "comes", "<new>", "b"],
        ["shop", "goes", "a", "<gone>"],
    ]
    print_moved(now, now)
    assert capsys.readouterr() == ("", "notice: nothing moved\n")


def test_notices_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    report_notices(SIMULATION, ["batch"])
    assert capsys.readouterr().err.splitlines() == [
        "notice: plugin odd is passed over",
        "notice: preempted: shop/small (for shop/huge)",
        "notice: no profile has the schedulerName 'mine'; not scheduled: shop/other",
    ]


def test_last_line_is_the_account(capsys: pytest.CaptureFixture[str]) -> None:
    summarise(SIMULATION)
    assert capsys.readouterr().err.splitlines() == [
        "warning: gave up on shop/one, shop/two: in Quota.pre_bind for 600 s",
        "warning: gave up on pods that were retried without success: shop/huge",
        "1 of 3 pods bound, 2 pending; 2 scheduling cycles in 1m30s of virtual time",
    ]
