"""The account of one job: where it stands, what its last turns came to, and what would help."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import msgspec

from kframework.engine import finished
from kframework_batch.account import SessionAccount
from kframework_batch.engine import BatchEngine
from kframework_batch.explain.course import course
from kframework_batch.explain.explanation import Explanation, Remedy, TaskPlace
from kframework_batch.explain.remedies import Unaffordable, remedies, will_be_served
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.membership import owner_of
from kframework_batch.task_status import TaskStatus

#: So many changes that would help are enough.
_ENOUGH = 5

#: Statuses of tasks that wait for a node.
_WAITING = (TaskStatus.PENDING, TaskStatus.PIPELINED)


def explaining(
    engine: BatchEngine, sessions: Sequence[SessionAccount], job: JobInfo, task: TaskInfo | None = None
) -> Generator[None, None, Explanation]:
    """Explain a job or one of its tasks, from the accounts of the last sessions, the newest first.

    Yields where others may have their turn; no session may be open when it is driven on.
    """
    went = yield from course(reversed(sessions), job.uid)
    explanation = msgspec.structs.replace(_standing(engine, sessions, job, task), course=went)
    yield
    if not engine.synced or not _waits(job, task):
        return explanation
    if will_be_served(engine, job):
        note = "as things stand the next session serves it"
        return msgspec.structs.replace(explanation, notes=(*explanation.notes, note))
    found: list[Remedy] = []
    try:
        for remedy in remedies(engine, job, explanation.turns):
            if remedy is not None:
                found.append(remedy)
            if len(found) == _ENOUGH:
                break
            yield
    except Unaffordable:
        note = "nothing was tried that might help: sessions are too long here to try one"
        return msgspec.structs.replace(explanation, notes=(*explanation.notes, note))
    return msgspec.structs.replace(explanation, help=tuple(found))


def explain(
    engine: BatchEngine, sessions: Sequence[SessionAccount], job: JobInfo, task: TaskInfo | None = None
) -> Explanation:
    """Explain a job or one of its tasks in one piece."""
    return finished(explaining(engine, sessions, job, task))


def _waits(job: JobInfo, task: TaskInfo | None) -> bool:
    if task is not None:
        return task.status in _WAITING
    return job.is_pending or any(job.with_status(status) for status in _WAITING)


def _standing(
    engine: BatchEngine, sessions: Sequence[SessionAccount], job: JobInfo, task: TaskInfo | None
) -> Explanation:
    """Say where it stands, and what came of the last session in which it had turns."""
    shown = list(job.tasks.values()) if task is None else [task]
    last = next((account for account in sessions if account.turns_of(job.uid)), sessions[0] if sessions else None)
    return Explanation(
        job=job.uid,
        owner="" if job.object is None else owner_of(job.object),
        pod="" if task is None else task.key,
        at=engine.clock.now(),
        phase=job.phase,
        priority=job.priority,
        minimum=job.min_available,
        ready=job.ready_num,
        requests={name: amount for name, amount in (job.requested if task is None else task.request).items() if amount},
        tasks=tuple(TaskPlace(each.key, each.status.value, each.node_name) for each in shown),
        queue=None if last is None else last.queue(job.queue),
        queue_name=job.queue,
        order=() if last is None else tuple(state.queue for state in last.queues),
        session="" if last is None else last.uid,
        session_at=0.0 if last is None else last.at,
        turns=() if last is None else last.turns_of(job.uid),
        message=job.refused or job.message or ("" if job.known else "there is no pod group of this name"),
        notes=() if engine.synced else ("the scheduler has not seen the whole cluster yet",),
    )
