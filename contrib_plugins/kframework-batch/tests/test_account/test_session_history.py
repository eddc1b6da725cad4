"""The last sessions are remembered, with the turns of jobs and the verdicts on pods in them; memory does not grow."""

from __future__ import annotations

import pytest
from kframework_batch.account import (
    JobSummary,
    QueueState,
    SessionAccount,
    SessionHistory,
    TaskVerdict,
    Turn,
    TurnOutcome,
)


def turn(job: str, *pods: str, action: str = "allocate") -> Turn:
    verdicts = tuple(TaskVerdict(pod, pod, message="no") for pod in pods)
    return Turn(action=action, job=job, queue="q", outcome=TurnOutcome.DISCARDED, verdicts=verdicts)


def session(number: int, *turns: Turn) -> SessionAccount:
    return SessionAccount(uid=str(number), at=float(number), turns=turns)


def remembering(*accounts: SessionAccount, kept: int = 1_000) -> SessionHistory:
    history = SessionHistory(kept)
    for account in accounts:
        history.on_account(account)
    return history


def test_newest_session_comes_first() -> None:
    history = remembering(session(1), session(2), session(3))
    assert [account.uid for account in history] == ["3", "2", "1"]
    assert history.last is not None and history.last.uid == "3"
    assert history.session("2") == session(2)
    assert (history.session("4"), remembering().last) == (None, None)


def test_accounts_of_other_kinds_are_ignored() -> None:
    history = SessionHistory()
    history.on_account(QueueState(queue="q", weight=1))
    assert len(history) == 0


def test_last_turns_of_a_job_are_from_its_last_session() -> None:
    first, second = session(1, turn("a"), turn("b")), session(2, turn("a"), turn("a", action="preempt"))
    history = remembering(first, second, session(3))
    assert history.last_turns("a") == (second, list(second.turns))
    assert history.last_turns("b") == (first, [turn("b")])
    assert history.last_turns("c") is None
    assert [(account.uid, each.action) for account, each in history.turns("a")] == [
        ("2", "allocate"),
        ("2", "preempt"),
        ("1", "allocate"),
    ]


def test_verdicts_on_a_pod_are_found() -> None:
    history = remembering(session(1, turn("a", "x", "y")), session(2, turn("a", "y"), turn("b", "x")))
    assert [(account.uid, each.job, verdict.pod) for account, each, verdict in history.verdicts("x")] == [
        ("2", "b", "x"),
        ("1", "a", "x"),
    ]


@pytest.mark.parametrize(
    ("account", "kept"),
    [
        (session(1), 12),
        (session(1, turn("a")), 6),
        (session(1, turn("a", "x", "y")), 3),
        (SessionAccount(uid="1", at=0.0, bound=(("a", "n"),), evicted=(("b", "why"),)), 4),
        (SessionAccount(uid="1", at=0.0, jobs=(JobSummary(job="a", queue="q"),)), 6),
        (SessionAccount(uid="1", at=0.0, queues=(QueueState(queue="q", weight=1),)), 6),
        (session(1, turn("a", *map(str, range(50)))), 1),
    ],
)
def test_fewer_large_accounts_are_kept(account: SessionAccount, kept: int) -> None:
    assert len(remembering(*[account] * 20, kept=12)) == kept


def test_forgotten_sessions_leave_nothing() -> None:
    history = remembering(session(1, turn("a")), session(2, turn("b")), session(3, turn("b")), kept=4)
    assert len(history) == 2
    assert history.last_turns("a") is None
    assert history.last_turns("b") == (session(3, turn("b")), [turn("b")])
