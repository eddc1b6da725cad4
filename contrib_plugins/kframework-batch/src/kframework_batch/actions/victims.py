"""Victims: who may be one, who goes first, and how few of them are enough."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence

from kframework_batch.combination import Descending
from kframework_batch.hookspecs import Key
from kframework_batch.job import TaskInfo
from kframework_batch.queue import QueueInfo
from kframework_batch.session import Session
from kframework_batch.statement import JobStatement
from kframework_batch.task_status import PREEMPTABLE


def in_victim_order(session: Session, tasks: Iterable[TaskInfo], preemptor_queue: QueueInfo) -> list[TaskInfo]:
    """Sort tasks such that the first is the first to go.

    First counts the queue, as `victim_queue_order` says and else the last to be served; then the job, the last in the
    order of its queue; then the task, the last in the order of its job.
    """
    plugins = session.plugins
    of_job: dict[str, tuple[Key, ...]] = {}

    def key(task: TaskInfo) -> tuple[Key, ...]:
        job = task.job
        if job.uid not in of_job:
            queue = plugins.victim_queue_key(session.queues[job.queue], preemptor_queue)
            of_job[job.uid] = (queue, Descending(plugins.job_key(job)))
        return (*of_job[job.uid], Descending(plugins.task_key(task)))

    return sorted(tasks, key=key)


def fewest(
    statement: JobStatement, candidates: Sequence[TaskInfo], enough: Callable[[], bool], reason: str
) -> list[TaskInfo] | None:
    """Return whom of the candidates it takes, the first to go first; None if all of them are not enough.

    They are taken off one after the other until it is `enough`, as the tables then stand. Then each of them is kept
    that turns out not to be needed, those first that would be the last to go: the last one taken may free what makes
    those before it superfluous.
    """
    chosen = _first_enough(statement, candidates, enough, reason)
    if chosen is None:
        return None
    # Without the last of them it was not enough.
    for victim in chosen[-2::-1]:
        others = [other for other in chosen if other is not victim]
        if _are_enough(statement, others, enough, reason):
            chosen = others
    return chosen


def _first_enough(
    statement: JobStatement, candidates: Sequence[TaskInfo], enough: Callable[[], bool], reason: str
) -> list[TaskInfo] | None:
    with statement.statement() as trial:
        if enough():
            return []
        for count, victim in enumerate(candidates, start=1):
            trial.evict(victim, reason)
            if enough():
                return list(candidates[:count])
    return None


def _are_enough(statement: JobStatement, victims: Sequence[TaskInfo], enough: Callable[[], bool], reason: str) -> bool:
    with statement.statement() as trial:
        for victim in victims:
            trial.evict(victim, reason)
        return enough()


class Residents:
    """The tasks on nodes that do not forbid to be pushed out; pods without a known job are not among them."""

    def __init__(self) -> None:
        self._on: dict[str, list[TaskInfo]] = {}

    @classmethod
    def of(cls, session: Session) -> Generator[None, None, Residents]:
        """Look through the jobs of a session; yields after each."""
        residents = cls()
        for job in session.jobs.values():
            for task in job.tasks.values():
                if task.status in PREEMPTABLE and task.preemptable and task.pod.row >= 0:
                    residents._on.setdefault(task.node_name, []).append(task)
            yield
        return residents

    def on(self, node_name: str) -> list[TaskInfo]:
        """List those on a node who have not been chosen as victims yet."""
        return [task for task in self._on.get(node_name, ()) if task.status in PREEMPTABLE]
