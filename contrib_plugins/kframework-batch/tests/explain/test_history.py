"""The history of a job over its sessions, in as few stretches as possible."""

from __future__ import annotations

import pytest
from kframework_batch.account import DeletedJob, JobSummary, SessionAccount, TaskVerdict, Turn, TurnOutcome, Victim
from kframework_batch.explain.explanation import HistoryEntry
from kframework_batch.explain.history import in_pieces, job_history

from kframework.engine import run_to_end

JOB = "default/train"


def turn(
    outcome: TurnOutcome = TurnOutcome.DISCARDED,
    action: str = "allocate",
    *,
    had: int = 1,
    plugin: str = "",
    message: str = "",
) -> Turn:
    return Turn(action=action, job=JOB, queue="q", outcome=outcome, had=had, minimum=4, plugin=plugin, message=message)


def session(number: int, *turns: Turn, **more: object) -> SessionAccount:
    return SessionAccount(uid=f"{number}", at=float(number), turns=turns, **more)  # type: ignore[arg-type]  # its other fields


def left(phase: str, next_phase: str, message: str = "", **tasks: int) -> JobSummary:
    return JobSummary(job=JOB, queue="q", phase=phase, next_phase=next_phase, tasks=tasks, message=message)


def told(*accounts: SessionAccount) -> tuple[HistoryEntry, ...]:
    return run_to_end(job_history(accounts, JOB))


def lines(*accounts: SessionAccount) -> list[str]:
    return [said for stretch in told(*accounts) for said in stretch.events]


def test_repeated_events_are_one_entry_with_the_text_of_the_last_session() -> None:
    (waits, served) = told(
        session(1, turn(had=1, message="1 node")),
        session(2),
        session(3, turn(had=2, message="2 nodes")),
        session(4, turn(TurnOutcome.COMMITTED, had=4)),
    )
    assert (waits.at, waits.first, waits.last) == (1.0, "1", "3")
    assert waits.events == ("allocate: discarded; 2 of the 4 tasks that it needs had a place; 2 nodes",)
    assert (served.at, served.first, served.last) == (4.0, "4", "4")


@pytest.mark.parametrize(
    "other",
    [
        turn(TurnOutcome.KEPT),
        turn(action="preempt"),
        turn(plugin="capacity"),
    ],
    ids=["another outcome", "another action", "another opponent"],
)
def test_different_events_are_another_entry(other: Turn) -> None:
    assert len(told(session(1, turn()), session(2, other), session(3, turn()))) == 3


def test_turns_with_the_same_outcome_are_grouped() -> None:
    invalid = [turn(TurnOutcome.INVALID, action, plugin="gang", message="no") for action in ("allocate", "backfill")]
    more = [turn(TurnOutcome.COMMITTED, had=count) for count in (4, 5, 6)]
    assert lines(session(1, *invalid), session(2, *more)) == [
        "allocate, backfill: cannot be scheduled; gang: no",
        "allocate: got nothing more; 6 of the 4 tasks that it needs had a place",
    ]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (left("Inqueue", "Running", Running=4), ["Running"]),
        (left("Inqueue", "Running", Running=4, Binding=1), ["Running: 4 Running, 1 Binding"]),
        (left("Running", "Completed", Succeeded=3, Failed=1), ["Completed: 3 Succeeded, 1 Failed"]),
        (left("", "Inqueue", Pending=4), []),
        (left("Running", "Running", Running=4, Pending=1), []),
        (left("Pending", "Pending", "there is no queue 'q'"), ["there is no queue 'q'"]),
    ],
)
def test_phases_are_reported_where_turns_do_not_show_them(state: JobSummary, said: list[str]) -> None:
    assert lines(session(1, jobs=(state,))) == said


def test_evictions_of_known_pods_of_the_job_are_reported() -> None:
    placed = Turn(
        action="allocate",
        job=JOB,
        queue="q",
        outcome=TurnOutcome.COMMITTED,
        verdicts=(TaskVerdict("default/train-0", "u0", "n"),),
    )
    other = Turn(
        action="preempt",
        job="default/other",
        queue="q",
        outcome=TurnOutcome.COMMITTED,
        victims=(Victim("default/train-1", "u1", JOB, "n"), Victim("default/else-1", "u2", "default/else", "n")),
    )
    evicted = tuple((f"default/{pod}", "preempt") for pod in ("train-0", "train-1", "else-1"))
    said = lines(session(1, placed), session(2, other, evicted=evicted))
    assert said[1:] == ["evicted because of preempt: default/train-0, default/train-1"]


@pytest.mark.parametrize(
    ("tasks", "said"), [({"Succeeded": 4}, "remaining tasks: 4 Succeeded"), ({}, "remaining tasks: none")]
)
def test_deletion_of_the_pod_group_is_reported(tasks: dict[str, int], said: str) -> None:
    gone = (DeletedJob(job=JOB, tasks=tasks), DeletedJob(job="default/other"))
    assert lines(session(1, gone=gone)) == [f"its pod group was deleted; {said}"]


def test_job_history_yields_after_a_number_of_lines() -> None:
    long = [session(number, *[turn()] * 300) for number in range(10)]
    assert [account is None for account in in_pieces(long)].count(True) == 2
    assert sum(1 for _ in job_history(long, JOB)) == 2
