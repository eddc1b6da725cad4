"""Jobs whose pod group is gone: what the accounts of the sessions say of them, and what is left of their tasks."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from kframework_batch.account import JobState, SessionAccount, Turn
from kframework_batch.engine import BatchEngine
from kframework_batch.explain.course import course, pieces
from kframework_batch.explain.explanation import Explanation, TaskPlace


class Ended(NamedTuple):
    """Names a job by its uid, or one of its tasks (`pod`, by namespace/name)."""

    job: str
    pod: str = ""


def find_ended(sessions: Sequence[SessionAccount], namespace: str, name: str) -> Generator[None, None, Ended | None]:
    """Return the job that was called so last, the newest session coming first; None if none is remembered.

    It goes by the name of its pod group, or of what that belonged to; or else by the name of one of its tasks. Yields
    where others may have their turn.
    """
    pod = f"{namespace}/{name}"
    of_task: Ended | None = None
    for account in pieces(sessions):
        if account is None:
            yield
            continue
        job = next((uid for uid, owner in _told(account) if _is(uid, owner, namespace, name)), None)
        if job is not None:
            return Ended(job)
        of_task = of_task or next((Ended(turn.job, pod) for turn in account.turns if _tells(turn, pod)), None)
    return of_task


def _told(account: SessionAccount) -> Iterator[tuple[str, str]]:
    yield from ((gone.job, gone.owner) for gone in account.gone)
    yield from ((state.job, state.owner) for state in account.jobs)


def _is(uid: str, owner: str, namespace: str, name: str) -> bool:
    """Return whether a job is called so; before the namespace in its uid may stand an API group."""
    group, _, own = uid.rpartition("/")
    called = own == name and group.rpartition("/")[2] == namespace
    return called or owner.partition(" ")[2] == f"{namespace}/{name}"


def _tells(turn: Turn, pod: str) -> bool:
    return any(verdict.pod == pod for verdict in turn.verdicts)


def explaining_ended(
    engine: BatchEngine, sessions: Sequence[SessionAccount], ended: Ended
) -> Generator[None, None, Explanation]:
    """Explain a job whose pod group is gone, or one of its tasks, by accounts of sessions, the newest first.

    Yields where others may have their turn.
    """
    job, pod = ended
    went = yield from course(reversed(sessions), job)
    last = next((account for account in sessions if _turns(account, ended)), None)
    states = (state for account in sessions for state in account.jobs if state.job == job)
    gone = next(((account.at, each) for account in sessions for each in account.gone if each.job == job), None)
    known = next((state for state in states if state.queue), JobState(job=job, queue=""))
    left = engine.cache.jobs.get(job)
    tasks = () if left is None else left.tasks.values()
    return Explanation(
        job=job,
        owner=known.owner if gone is None else gone[1].owner,
        pod=pod,
        at=engine.clock.now(),
        phase=known.next_phase if gone is None else gone[1].phase,
        priority=known.priority,
        minimum=known.minimum,
        tasks=tuple(TaskPlace(each.key, each.status.value, each.node_name) for each in tasks if pod in ("", each.key)),
        queue=None if last is None else last.queue(known.queue),
        queue_name=known.queue,
        order=() if last is None else tuple(state.queue for state in last.queues),
        session="" if last is None else last.uid,
        session_at=0.0 if last is None else last.at,
        turns=() if last is None else _turns(last, ended),
        course=went,
        gone_at=engine.clock.now() if gone is None else gone[0],
        notes=() if engine.synced else ("the scheduler has not seen the whole cluster yet",),
    )


def _turns(account: SessionAccount, ended: Ended) -> tuple[Turn, ...]:
    """Return the turns of a job in a session; of a task those that tell of it."""
    return tuple(turn for turn in account.turns_of(ended.job) if not ended.pod or _tells(turn, ended.pod))
