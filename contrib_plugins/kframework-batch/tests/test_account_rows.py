"""Accounts of sessions as tables: in the words that people read, and no longer than they can."""

from __future__ import annotations

import pytest
from kframework_batch.account import (
    DeletedJob,
    JobSummary,
    Part,
    ProtectedTasks,
    QueueState,
    SessionAccount,
    TaskVerdict,
    Turn,
    TurnOutcome,
    Victim,
)
from kframework_batch.account_rows import (
    format_reasons,
    job_turns,
    pod_verdicts,
    queue_section,
    rejecting_plugin,
    session_sections,
    sessions_section,
)

from kframework.engine import Ref, Row, Section, Tone


def turn(outcome: TurnOutcome = TurnOutcome.DISCARDED, **more: object) -> Turn:
    return Turn(action="allocate", job="default/j", queue="q", outcome=outcome, had=1, minimum=2, **more)  # type: ignore[arg-type]  # its other fields


def no(message: str, plugin: str = "") -> TaskVerdict:
    return TaskVerdict("default/p", "p", message=message, plugin=plugin)


YES = TaskVerdict("default/y", "y", "n", score=3.0, ties=1, feasible=4)
GANG = ProtectedTasks("gang", 2, ("default/v",))


@pytest.mark.parametrize(
    ("said", "plugin", "reason"),
    [
        (turn(), "", ""),
        (turn(plugin="gang"), "gang", "gang"),
        (turn(plugin="gang", message="too few"), "gang", "gang: too few"),
        (turn(verdicts=(YES, no("full"))), "", "full"),
        (turn(verdicts=(no("full"), no("not due", "proportion"))), "proportion", "full; proportion: not due"),
        (turn(verdicts=(no("full"),), protected=(GANG,)), "", "full; gang protects 2 tasks"),
        (turn(protected=(ProtectedTasks("gang", 1, ()),)), "", "gang protects 1 task"),
        (turn(verdicts=tuple(map(no, "aabcde"))), "", "a; b; c; and 2 other reasons"),
    ],
)
def test_turn_shows_rejecting_plugin_and_reason(said: Turn, plugin: str, reason: str) -> None:
    assert (rejecting_plugin(said), format_reasons(said)) == (plugin, reason)


def test_reasons_of_several_turns_are_shown_once() -> None:
    assert format_reasons(turn(verdicts=(no("full."),)), turn(protected=(GANG,), verdicts=(no("full."),)), turn()) == (
        "full; gang protects 2 tasks"
    )


def only(section: Section) -> Row:
    (row,) = section.rows
    return row


def test_queue_row_shows_allocated_of_deserved() -> None:
    due = {"cpu": 4000, "memory": 0}
    state = QueueState(
        queue="q",
        weight=2,
        plugin="proportion",
        allocated={"cpu": 1000, "gpu": 1},
        deserved=due,
        share=0.25,
        held={"cpu": 3000},
        dominant=0.5,
    )
    account = SessionAccount(uid="7", at=0.0, turns=(turn(TurnOutcome.OVERUSED, plugin="capacity"),))
    section = queue_section([state], {"q": 3}, account)
    fills = {"cpu": (1000, 4000), "gpu": (1, 0)}
    assert only(section) == Row(("q", 2, 3, fills, 0.25, 0.5, "capacity"), Tone.WAITING)
    assert section.note == "In the order in which session 7 was to serve them."


@pytest.mark.parametrize(
    ("state", "row"),
    [
        (QueueState(queue="q", weight=1), Row(("q", 1, 0, {}, None, 0.0, ""))),
        (QueueState(queue="q", weight=1, plugin="proportion", share=1.0), Row(("q", 1, 0, {}, None, 0.0, ""))),
        (
            QueueState(queue="q", weight=1, held={"cpu": 5}, dominant=0.1),
            Row(("q", 1, 0, {"cpu": (5, 0)}, None, 0.1, ""), Tone.GOOD),
        ),
    ],
)
def test_queue_without_deserved_shows_no_share(state: QueueState, row: Row) -> None:
    assert only(queue_section([state], {}, None)) == row


def test_session_row_shows_outcomes() -> None:
    parts = (Part("open", "gang", 3), Part("action", "allocate", 4))
    turns = (turn(), turn(TurnOutcome.COMMITTED), turn())
    account = SessionAccount(uid="7", at=9.0, turns=turns, bound=(("default/y", "n"),), parts=parts)
    failed = SessionAccount(uid="8", at=10.0, failure="plugin gang failed")
    first, second = sessions_section([failed, account], 2).rows
    assert first == Row((Ref("session", "8"), 10.0, 0, 0, 0, 0, "ended early: plugin gang failed"), Tone.BAD)
    assert second == Row((Ref("session", "7"), 9.0, 7, 3, 1, 0, "2 discarded, 1 committed"), Tone.GOOD)


def test_session_has_all_its_tables() -> None:
    account = SessionAccount(
        uid="7",
        at=9.0,
        turns=(turn(TurnOutcome.COMMITTED, victims=(Victim("default/v", "v", "default/k", "n"),)),),
        jobs=(JobSummary(job="default/j", queue="q", next_phase="Inqueue"), JobSummary(job="default/k", queue="q")),
        gone=(
            DeletedJob(job="default/j", phase="Running", tasks={"Succeeded": 2, "Failed": 1}),
            DeletedJob(job="default/k"),
        ),
        bound=(("default/y", "n"),),
        evicted=(("default/v", "preempt"),),
        failure="plugin gang failed",
        parts=(Part("action", "allocate", 4),),
    )
    job = Ref("job", "default/j", "J")
    sections = {section.name: section for section in session_sections(account, lambda uid: Ref("job", uid, "J"))}
    assert list(sections) == ["turns", "bound", "evicted", "phases", "gone", "parts"]
    assert sections["turns"].note == "It ended early: plugin gang failed"
    assert only(sections["turns"]) == Row((job, "allocate", "q", "committed", "1 of 2", "", 1), Tone.GOOD)
    assert only(sections["bound"]) == Row((Ref("pod", "default/y"), Ref("node", "n")))
    assert only(sections["evicted"]) == Row((Ref("pod", "default/v"), "preempt"))
    assert only(sections["phases"]) == Row((job, "none", "Inqueue"))
    assert sections["gone"].rows == (
        Row((job, "Running", "2 Succeeded, 1 Failed")),
        Row((Ref("job", "default/k", "J"), "none", "none")),
    )
    assert only(sections["parts"]) == Row(("action allocate", 4))
    bare = session_sections(SessionAccount(uid="8", at=0.0), lambda uid: Ref("job", uid))
    assert [section.name for section in bare] == ["turns"]


def test_turns_of_a_job_link_to_their_session() -> None:
    taken = turn(plugin="gang", message="too few")
    row = only(job_turns([(SessionAccount(uid="7", at=9.0), taken)]))
    assert row == Row((Ref("session", "7"), 9.0, "allocate", "discarded", "1 of 2", "gang: too few"), Tone.WAITING)


@pytest.mark.parametrize(
    ("verdict", "node", "feasible", "reason", "tone"),
    [
        (YES, Ref("node", "n"), 4, "", Tone.GOOD),
        (TaskVerdict("p", "p", "n", promised=True), Ref("node", "n", "n, promised"), None, "", Tone.GOOD),
        (no("not due", "proportion"), None, None, "proportion: not due", Tone.WAITING),
    ],
)
def test_verdicts_show_node_or_reason(
    verdict: TaskVerdict, node: Ref | None, feasible: int | None, reason: str, tone: Tone
) -> None:
    row = only(pod_verdicts([(SessionAccount(uid="7", at=9.0), turn(TurnOutcome.COMMITTED), verdict)]))
    assert row == Row((Ref("session", "7"), 9.0, "allocate", node, feasible, "committed, 1 of 2", reason), tone)
