"""Explain a job or a pod by its name: its history, its last session, and what would help."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kframework import ExplainError
from kframework.engine import (
    STANDBY_NOTE,
    EngineExplanation,
    Scheduler,
    explain_route,
    run_cooperatively,
    wait_until_idle,
)
from kframework_batch.account import JobSummary, SessionAccount, Turn
from kframework_batch.engine import BatchEngine
from kframework_batch.explain.explanation import JobExplanation, JobRemedy, TaskPlace, format_explanation
from kframework_batch.explain.history import EndedJob, find_ended_job, find_job, job_history
from kframework_batch.explain.remedies import SessionTooLarge, next_session, remedies
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.membership import owner_of
from kframework_batch.task_status import TaskStatus

if TYPE_CHECKING:
    from aiohttp import web

#: The accounts of the last sessions, the newest first.
Sessions = Callable[[], Sequence[SessionAccount]]

#: How many changes that would help are enough.
_ENOUGH = 5

#: Statuses of tasks that wait for a node.
_WAITING = (TaskStatus.PENDING, TaskStatus.PIPELINED)


def explain_by_name(
    engine: BatchEngine, sessions: Sequence[SessionAccount], namespace: str, name: str, notes: Sequence[str] = ()
) -> Generator[None, None, EngineExplanation]:
    """Explain the job or pod of this name, which may be gone; ExplainError if there never was one.

    Yields so that other work can run; no session may be open when it is driven on.
    """
    found = find_job(engine, namespace, name)
    ended = None
    if found is None or not found[0].has_group:
        ended = yield from find_ended_job(sessions, namespace, name)
    if ended is not None:
        explanation = yield from explain_ended_steps(engine, sessions, ended)
    elif found is not None:
        explanation = yield from explain_steps(engine, sessions, *found)
    else:
        raise ExplainError(f"no job and no pod {namespace}/{name} belongs to this scheduler")
    explanation = _add_notes(explanation, *notes)
    data = msgspec.Raw(msgspec.json.encode(explanation))
    return EngineExplanation("batch", format_explanation(explanation), format_explanation(explanation, wide=True), data)


def explain_routes(scheduler: Scheduler[BatchEngine], sessions: Sessions) -> list[web.RouteDef]:
    cluster = scheduler.engine.cluster

    async def explain_job(namespace: str, name: str) -> EngineExplanation:
        notes = [STANDBY_NOTE] if scheduler.standing_by else []
        await wait_until_idle(cluster)  # so that the session that is open now is among them
        return await run_cooperatively(cluster, explain_by_name(scheduler.engine, sessions(), namespace, name, notes))

    return [explain_route(explain_job)]


def explain_steps(
    engine: BatchEngine, sessions: Sequence[SessionAccount], job: JobInfo, task: TaskInfo | None = None
) -> Generator[None, None, JobExplanation]:
    """Explain a job or one of its tasks, from the accounts of the last sessions, the newest first."""
    went = yield from job_history(reversed(sessions), job.uid)
    explanation = replace(_state_of(engine, sessions, job, task), history=went)
    yield
    if task is None:
        waits = job.is_pending or any(job.with_status(status) for status in _WAITING)
    else:
        waits = task.status in _WAITING
    if not engine.synced or not waits:
        return explanation
    if note := next_session(engine, job, task):
        return _add_notes(explanation, note)
    # A task gets no node before its job has enough, unless its job gets that without it.
    wanted = task if job.is_ready or next_session(engine, job, None) else None
    found: list[JobRemedy] = []
    try:
        for remedy in remedies(engine, job, explanation.turns, wanted):
            if remedy is not None:
                found.append(remedy)
            if len(found) == _ENOUGH:
                break
            yield
    except SessionTooLarge:
        return _add_notes(explanation, "no remedy was tried: sessions take too long in this cluster")
    return replace(explanation, remedies=tuple(found))


def _state_of(
    engine: BatchEngine, sessions: Sequence[SessionAccount], job: JobInfo, task: TaskInfo | None
) -> JobExplanation:
    last = next((account for account in sessions if account.turns_of(job.uid)), sessions[0] if sessions else None)
    explanation = JobExplanation(
        job=job.uid,
        owner="" if job.object is None else owner_of(job.object),
        pod="" if task is None else task.key,
        at=engine.clock.now(),
        phase=job.phase,
        priority=job.priority,
        minimum=job.min_available,
        ready=job.ready_num,
        requests={name: amount for name, amount in (job.requested if task is None else task.request).items() if amount},
        tasks=tuple(map(_task_place, job.tasks.values() if task is None else [task])),
        queue_name=job.queue,
        message=job.invalid_reason or job.message or ("" if job.has_group else "there is no pod group of this name"),
        notes=_notes(engine),
    )
    return explanation if last is None else _add_session(explanation, last, last.turns_of(job.uid))


def explain_ended_steps(
    engine: BatchEngine, sessions: Sequence[SessionAccount], ended: EndedJob
) -> Generator[None, None, JobExplanation]:
    """Explain a job whose pod group is gone, or one of its tasks, by accounts of sessions, the newest first."""
    job, pod = ended
    went = yield from job_history(reversed(sessions), job)
    last = next((account for account in sessions if _turns(account, ended)), None)
    states = (state for account in sessions for state in account.jobs if state.job == job)
    gone = next(((account.at, each) for account in sessions for each in account.gone if each.job == job), None)
    known = next((state for state in states if state.queue), JobSummary(job=job, queue=""))
    left = engine.cache.jobs.get(job)
    tasks = () if left is None else left.tasks.values()
    explanation = JobExplanation(
        job=job,
        owner=known.owner if gone is None else gone[1].owner,
        pod=pod,
        at=engine.clock.now(),
        phase=known.next_phase if gone is None else gone[1].phase,
        priority=known.priority,
        minimum=known.minimum,
        tasks=tuple(_task_place(each) for each in tasks if pod in ("", each.key)),
        queue_name=known.queue,
        history=went,
        gone_at=engine.clock.now() if gone is None else gone[0],
        notes=_notes(engine),
    )
    return explanation if last is None else _add_session(explanation, last, _turns(last, ended))


def _turns(account: SessionAccount, ended: EndedJob) -> tuple[Turn, ...]:
    turns = account.turns_of(ended.job)
    if not ended.pod:
        return turns
    return tuple(turn for turn in turns if any(verdict.pod == ended.pod for verdict in turn.verdicts))


def _task_place(task: TaskInfo) -> TaskPlace:
    return TaskPlace(task.key, task.status.value, task.node_name)


def _notes(engine: BatchEngine) -> tuple[str, ...]:
    return () if engine.synced else ("the scheduler has not synced with the cluster yet",)


def _add_notes(explanation: JobExplanation, *notes: str) -> JobExplanation:
    return replace(explanation, notes=(*explanation.notes, *notes))


def _add_session(explanation: JobExplanation, session: SessionAccount, turns: tuple[Turn, ...]) -> JobExplanation:
    return replace(
        explanation,
        queue=session.queue(explanation.queue_name),
        order=tuple(state.queue for state in session.queues),
        session=session.uid,
        session_at=session.at,
        turns=turns,
    )
