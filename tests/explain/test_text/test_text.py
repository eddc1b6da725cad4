"""An explanation in words: less than forty lines, whatever there is to say, and nothing said twice."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.core.cycle.records import Binding, Decision, Result
from kframework.explain.explanation import (
    Assessment,
    Explanation,
    NodeChoice,
    NodeScore,
    NominatedRoom,
    PreemptionPreview,
    Rejection,
    RejectionDetails,
    Score,
    State,
    Waiting,
    WakeEvents,
    WeightChange,
)
from kframework.explain.remedies.remedies import Remedy
from kframework.explain.text import format_explanation
from kframework.values.status import Code

CPU = Rejection("NodeResourcesFit", "Insufficient cpu", 4000, 3000, 2000, ("n1", "n2", "n3", "n4", "n5"), True)
UNFIT = Assessment(
    nodes=5000, feasible=0, enough=500, message="0/5000", reasons={"Insufficient cpu": 3000}, rejections=(CPU,)
)
LAST_DECISION = Decision(
    attempt=9,
    pod_attempts=3,
    pod="shop/web",
    uid="u",
    profile="default-scheduler",
    queued_at=0.0,
    popped_at=940.0,
    result=Result.UNSCHEDULABLE,
    nodes=5000,
    reasons={"Insufficient cpu": 3000},
    message="0/5000 nodes are available: 3000 Insufficient cpu.",
)
CHOSEN = msgspec.structs.replace(
    LAST_DECISION,
    result=Result.SCHEDULED,
    node="n1",
    score=430,
    ties=1,
    evaluated=500,
    feasible=40,
    best_nodes=(("n1", 430), ("n2", 420)),
    reasons={},
    message="",
)
ONLY = Explanation(
    pod="shop/web",
    uid="u",
    profile="default-scheduler",
    at=1000.0,
    state=State.UNSCHEDULABLE,
    attempts=3,
    assessment=UNFIT,
)


def lines(**fields: Any) -> list[str]:
    return format_explanation(msgspec.structs.replace(ONLY, **fields)).splitlines()


def wide(**fields: Any) -> list[str]:
    return format_explanation(msgspec.structs.replace(ONLY, **fields), wide=True).splitlines()


def test_explanation_text_starts_with_the_pod() -> None:
    requests = {"cpu": "2", "memory": "1Gi"}
    assert lines(requests=requests, priority=7, nominated="n4", last_decision=LAST_DECISION)[:8] == [
        "Pod:          shop/web",
        "Scheduler:    default-scheduler",
        "Requests:     cpu 2, memory 1Gi",
        "Priority:     7",
        "Status:       unschedulable, tried 3 times",
        "Node:         <none>",
        "Nominated:    n4",
        "Last attempt: 1m0s ago, with the same result as now",
    ]


@pytest.mark.parametrize(("attempts", "words"), [(0, "never tried"), (1, "tried once"), (2, "tried 2 times")])
def test_attempts_are_counted(attempts: int, words: str) -> None:
    assert f"Status:       unschedulable, {words}" in lines(attempts=attempts)


@pytest.mark.parametrize(
    ("last_decision", "words"),
    [
        (
            {"reasons": {"Insufficient cpu": 1}},
            "1m0s ago: 0/5000 nodes are available: 3000 Insufficient cpu.",
        ),
        ({"nodes": 4999}, "1m0s ago: 0/5000 nodes are available: 3000 Insufficient cpu."),
        ({"reasons": {}, "message": "plugin failed"}, "1m0s ago: plugin failed"),
    ],
)
def test_last_attempt_message_is_shown_if_it_differs_from_now(last_decision: dict[str, Any], words: str) -> None:
    assert f"Last attempt: {words}" in lines(last_decision=msgspec.structs.replace(LAST_DECISION, **last_decision))


@pytest.mark.parametrize(
    ("last_decision", "words"),
    [
        ({}, "1m0s ago: n1 with score 430 (n2 had 420); 40 of 500 evaluated nodes fit"),
        (
            {"ties": 2},
            "1m0s ago: n1 with score 430, chosen at random from 2 with this score; 40 of 500 evaluated nodes fit",
        ),
        ({"best_nodes": ()}, "1m0s ago: n1, the only feasible node of 500 evaluated"),
    ],
)
def test_last_attempt_names_node_score_and_alternatives(last_decision: dict[str, Any], words: str) -> None:
    assert f"Last attempt: {words}" in lines(node="n1", last_decision=msgspec.structs.replace(CHOSEN, **last_decision))


def test_choice_is_a_paragraph_and_lists_all_weights_if_wide() -> None:
    changes = (WeightChange("A", 1, 2), WeightChange("B", 3, 0))
    choice = NodeChoice(node="n1", runner_up="n2", message="n1 had 430 points. " * 8, weight_changes=changes)
    told = lines(choice=choice)
    begin = next(index for index, line in enumerate(told) if line.startswith("WHY HERE: n1 had 430 points."))
    assert told[begin + 1].startswith("  ") and max(map(len, told[begin : begin + 2])) <= 120
    assert not any("Each of these weights" in line for line in told)
    assert "  B       3       0" in wide(choice=choice)


def test_condition_replaces_a_decision_that_is_no_longer_kept() -> None:
    told = lines(condition="0/3 nodes are available: 3 Insufficient cpu.")
    assert [line.partition(":")[2].strip() for line in told if line.startswith("Condition:")] == [
        "0/3 nodes are available: 3 Insufficient cpu."
    ]
    assert not any(line.startswith("Last attempt:") for line in told)


def test_plugin_reasons_are_escaped_onto_one_line() -> None:
    odd = msgspec.structs.replace(CPU, reason="no\nroom\x1b[31m at all")
    assert any(
        r"no\nroom\x1b[31m at all" in line
        for line in lines(assessment=msgspec.structs.replace(UNFIT, rejections=(odd,)))
    )


def test_binding_failure_is_shown_with_the_last_attempt() -> None:
    failed = Binding(
        attempt=9,
        pod="shop/web",
        uid="u",
        profile="default-scheduler",
        node="n1",
        started_at=0.0,
        ended_at=1.0,
        code=Code.ERROR,
        message="node is gone",
    )
    assert lines(last_decision=CHOSEN, binding=failed)[4].endswith("evaluated nodes fit; node is gone")


def test_rejections_are_a_table() -> None:
    assert lines()[5:8] == [
        "WHY NOT: 0 of 5000 nodes fit. ONLY: nodes rejected for this reason alone.",
        "  NODES  ONLY  PLUGIN            REASON            FOR EXAMPLE",
        "  4000   2000  NodeResourcesFit  Insufficient cpu  n1, n2 and 3998 more",
    ]


def test_wide_rejection_table_names_more_nodes() -> None:
    assert any(line.endswith("n1, n2, n3, n4, n5 and 3995 more") for line in wide())


def test_rejection_table_is_limited_and_counts_the_rest() -> None:
    many = tuple(msgspec.structs.replace(CPU, reason=f"reason {n}") for n in range(30))
    assessment = msgspec.structs.replace(UNFIT, rejections=many)
    assert "  ... and 25 more reasons; -o wide shows more" in lines(assessment=assessment)
    assert len(wide(assessment=assessment)) == len(lines(assessment=assessment)) + 24
    countless = msgspec.structs.replace(assessment, reasons_left_out=7)
    assert "  ... and 32 more reasons; -o wide shows more" in lines(assessment=countless)
    assert "  ... and 7 more reasons" in wide(assessment=countless)


def test_rejection_details_follow_for_one_node_or_all_if_wide() -> None:
    said = [RejectionDetails("Devices", name, ("gpu wants 2", "  1 in use")) for name in ("n1", "n2")]
    assessment = msgspec.structs.replace(UNFIT, details=(*said, RejectionDetails("Other", "n2", ("\u202eso",))))
    behind = ["    gpu wants 2", "      1 in use"]
    assert lines(assessment=assessment)[-5:] == ["  Devices on n1:", *behind, "  Other on n2:", "    \\u202eso"]
    assert wide(assessment=assessment)[-8:-2] == ["  Devices on n1:", *behind, "  Devices on n2:", *behind]


def node(name: str, place: int, *weighted: int) -> NodeScore:
    scores = tuple(Score(f"P{n}", 2, each * 10, each // 2, each) for n, each in enumerate(weighted))
    return NodeScore(name, place, sum(weighted), scores)


FIT = Assessment(
    nodes=5,
    feasible=4,
    enough=4,
    top=(node("n1", 1, 90, 10), node("n2", 2, 80, 10), node("n3", 3, 70, 10), node("n4", 4, 60, 10)),
    ties=1,
    margin=10,
    decided_by="P0",
)


def test_best_nodes_are_compared_side_by_side() -> None:
    assert lines(assessment=FIT, state=State.ACTIVE)[5:] == [
        "WHERE: 4 of 5 nodes fit, 1 does not.",
        "  n1 leads n2 by 10, mostly because of P0.",
        "  PLUGIN  WEIGHT  n1   n2  n3",
        "  P0      2       90   80  70",
        "  TOTAL           100  90  80",
        "  Equal on all of them: P1 10.",
    ]


def test_wide_score_table_has_raw_and_normalised_scores() -> None:
    assert "  P0      2       90 (900 -> 45)  80 (800 -> 40)  70 (700 -> 35)  60 (600 -> 30)" in wide(assessment=FIT)


def test_pods_own_node_is_among_them() -> None:
    text = lines(assessment=FIT, node="n4", state=State.BOUND)
    assert "WHERE: 4 of 5 nodes fit if it is scheduled again, 1 does not." in text
    assert "  n4, the pod's own node, ranks 4th with 70." in text
    assert "  PLUGIN  WEIGHT  n1   n2  n3  n4" in text


def test_nodes_with_equal_scores_are_reported_as_a_random_choice() -> None:
    equal = msgspec.structs.replace(
        FIT, top=(node("n1", 1, 9), node("n2", 1, 9)), ties=2, margin=0, decided_by="", nodes=4
    )
    assert lines(assessment=equal)[5:9] == [
        "WHERE: 4 of 4 nodes fit.",
        "  2 nodes share the best score of 9; one of them is chosen at random.",
        "  For example: n1, n2.",
        "  Equal on all of them: P0 9.",
    ]


def test_text_says_when_an_attempt_stops_at_a_sample() -> None:
    text = lines(assessment=msgspec.structs.replace(FIT, enough=3))
    assert "  An attempt stops at 3 feasible nodes; here all of them are compared." in text


def test_text_says_that_a_single_feasible_node_is_not_scored() -> None:
    only = NodeScore("n1", 1, 0, ())
    text = lines(assessment=Assessment(nodes=2, feasible=1, enough=2, ties=1, top=(only,)))
    assert "  It is n1; a single feasible node is not scored." in text


def test_text_for_a_gated_pod_assumes_that_it_is_not_gated() -> None:
    assert "WHERE: 4 of 5 nodes fit once it is no longer gated, 1 does not." in lines(assessment=FIT, state=State.GATED)


def test_text_for_a_cluster_without_nodes_is_one_line() -> None:
    assert lines(assessment=Assessment(nodes=0, feasible=0, enough=0))[-1] == "There are no nodes."


def test_plugin_fault_is_shown() -> None:
    assert "FAULT: plugin 'A' failed" in lines(assessment=msgspec.structs.replace(UNFIT, fault="plugin 'A' failed"))


def test_room_kept_for_nominated_pods_is_shown() -> None:
    kept = (NominatedRoom("n1", ("a/one", "a/two", "a/three", "a/four")),)
    assessment = msgspec.structs.replace(UNFIT, kept_room=kept)
    assert "  Room on n1 is kept for a/one, a/two, a/three and 1 more." in lines(assessment=assessment)


def test_remedies_are_listed() -> None:
    text = lines(remedies=tuple(Remedy(f"do {n}", ()) for n in range(9)))
    assert text[text.index("WHAT WOULD HELP, each by itself:") + 1 :] == [f"  - do {n}" for n in range(5)]


@pytest.mark.parametrize(
    ("preemption", "words"),
    [
        (
            PreemptionPreview(node="n1", victims=("a/1", "a/2", "a/3", "a/4"), broken_budgets=2),
            ["PREEMPTION would help: evicting a/1, a/2, a/3 and 1 more makes room on n1, violating 2 budgets."],
        ),
        (
            PreemptionPreview(node="n1", victims=("a/1",)),
            ["PREEMPTION would help: evicting a/1 makes room on n1."],
        ),
        (
            PreemptionPreview(node="n1", victims=("a/1",), in_progress=True),
            ["PREEMPTION is in progress: waiting for a/1 to leave n1."],
        ),
        (
            PreemptionPreview(node="n1", victims=("a/1", "a/2"), in_progress=True),
            ["PREEMPTION is in progress: waiting for a/1, a/2 to leave n1."],
        ),
        (PreemptionPreview(why="never"), ["PREEMPTION would not help: never."]),
        (
            PreemptionPreview(why="no room", reasons={"few": 1, "many": 4, "some": 3, "more": 2}),
            ["PREEMPTION would not help: no room:", "  4 nodes: many", "  3 nodes: some", "  2 nodes: more"],
        ),
    ],
)
def test_preemption_result_is_shown(preemption: PreemptionPreview, words: list[str]) -> None:
    assert lines(preemption=preemption)[-len(words) :] == words


SINCE = "40 s, since 1970-01-01T00:16:00Z"
SOON = "at 1970-01-01T00:16:44Z, in 4s"
WAKERS = (WakeEvents("Fit", {"Pod": ("delete", "update_pod_scale_down"), "Node": ("add", "update_node_label")}),)


@pytest.mark.parametrize(
    ("state", "waiting", "words"),
    [
        (State.ACTIVE, Waiting(active=1), ["WAITS FOR its turn."]),
        (State.ACTIVE, Waiting(active=4), ["WAITS FOR its turn, with 3 other active pods."]),
        (
            State.BACKOFF,
            Waiting(until=1004.0),
            [f"WAITS FOR the end of its backoff, {SOON}, or until no pod is active."],
        ),
        (
            State.PERMIT,
            Waiting(held_by=("Gang", "Quota"), queued_at=960.0, until=1060.0, hook="permit"),
            [f"WAITS FOR Gang, Quota to permit it, for {SINCE}; it is rejected at 1970-01-01T00:17:40Z, in 1m0s."],
        ),
        (
            State.BINDING,
            Waiting(held_by=("Quota",), queued_at=960.0, hook="pre_bind"),
            [f"WAITS in Quota.pre_bind for {SINCE}."],
        ),
        (
            State.GATED,
            Waiting(held_by=("Gates",), why="waiting for scheduling gates: [a]", wakers=WAKERS),
            [
                "WAITS FOR Gates: waiting for scheduling gates: [a]. It is checked again on these events:",
                "  Fit: Pod deleted, scaled down; Node added, labels changed",
            ],
        ),
        (
            State.UNSCHEDULABLE,
            Waiting(wakers=(*WAKERS, WakeEvents("Odd", {})), retried_at=1300.0),
            [
                "WAITS FOR one of these events, if it may help:",
                "  Fit: Pod deleted, scaled down; Node added, labels changed",
                "  Odd: no event",
                "  Without one it is retried at 1970-01-01T00:21:40Z, in 5m0s.",
            ],
        ),
    ],
)
def test_wait_is_described_by_state(state: State, waiting: Waiting, words: list[str]) -> None:
    assert lines(state=state, waiting=waiting)[-len(words) :] == words


def test_resources_with_equal_actions_are_grouped() -> None:
    events = {"Pod": ("add", "delete"), "Node": ("add",), "StorageClass": ("add", "delete")}
    waiting = Waiting(wakers=(WakeEvents("Odd", events),), retried_at=1300.0)
    assert "  Odd: Pod, StorageClass added, deleted; Node added" in lines(waiting=waiting)


def test_waking_plugins_are_limited_and_the_rest_named() -> None:
    waiting = Waiting(wakers=tuple(WakeEvents(f"P{n}", {"Node": ("add",)}) for n in range(5)), retried_at=1300.0)
    assert "  ... and events for P3, P4; -o wide shows them" in lines(waiting=waiting)
    assert "  P4: Node added" in wide(waiting=waiting)


def test_notes_are_the_last_lines() -> None:
    assert lines(notes=("one", "two"))[-2:] == ["Note: one.", "Note: two."]


def test_brief_text_stays_under_forty_lines() -> None:
    many = tuple(msgspec.structs.replace(CPU, reason=f"reason {n}") for n in range(30))
    explanation = msgspec.structs.replace(
        ONLY,
        requests={"cpu": "2"},
        priority=7,
        nominated="n4",
        last_decision=LAST_DECISION,
        assessment=msgspec.structs.replace(UNFIT, rejections=many, kept_room=(NominatedRoom("n1", ("a/b",)),) * 5),
        remedies=tuple(Remedy(f"do {n}", ()) for n in range(9)),
        preemption=PreemptionPreview(why="no room", reasons={f"reason {n}": 1 for n in range(9)}),
        waiting=Waiting(wakers=(WAKERS[0],) * 9, retried_at=1300.0),
        notes=("one",),
    )
    assert len(format_explanation(explanation).splitlines()) < 40
