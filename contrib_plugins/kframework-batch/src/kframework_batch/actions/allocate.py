"""allocate: give pending tasks room, queue by queue and gang by gang."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from typing import ClassVar

from kframework_batch.account import Outcome
from kframework_batch.action import Action
from kframework_batch.actions.candidates import SearchArguments, Turns, candidates, pending_tasks
from kframework_batch.job import INQUEUE, READY, JobInfo, TaskInfo, TaskStatus
from kframework_batch.placement import Choice
from kframework_batch.plugin import BatchArguments
from kframework_batch.queue import QueueInfo
from kframework_batch.session import Session
from kframework_batch.statement import JobStatement


class Allocate(Action):
    """Gives the first job of the first queue what it needs to be ready, and turns to the first queue again.

    So a gang gets its minimum in one turn, or nothing; tasks beyond the minimum come in later turns, one at a time. A
    queue that is overused gets no more turns.

    A gang that has lost members keeps the room that it finds for some of them until the session ends, though nobody is
    bound: where room comes free bit by bit, others would take each bit, and what the gang holds would be of no use to
    anybody for as long as they keep coming.
    """

    name: ClassVar[str] = "allocate"
    Arguments: ClassVar[type[BatchArguments]] = SearchArguments

    def run(self, session: Session) -> Iterator[None]:
        """Allocate; yields after each task."""
        if all(action.name != "enqueue" for action in session.actions):
            _let_all_in(session)
        plugins = session.plugins
        hopes: dict[str, _Hope] = {}
        jobs: dict[str, Turns[JobInfo]] = {}
        for job in candidates(session):
            if any(_may_have_room(task) for task in job.with_status(TaskStatus.PENDING).values()):
                hopes[job.uid] = _Hope(session, job)
                jobs.setdefault(job.queue, Turns(plugins.job_key)).put(job)
            yield
        queues = Turns(plugins.queue_key, (session.queues[name] for name in jobs))
        while queues:
            queue = queues.take()
            if refuser := plugins.overused(queue):
                _pass_over(session, jobs[queue.name], queue, refuser)
                continue
            job = jobs[queue.name].take()
            if (yield from hopes[job.uid].take_turn(queue)):
                jobs[queue.name].put(job)
            if jobs[queue.name]:
                queues.put(queue)


def _let_all_in(session: Session) -> None:
    for job in session.jobs.values():
        if job.is_pending:
            job.phase = INQUEUE


def _pass_over(session: Session, jobs: Turns[JobInfo], queue: QueueInfo, plugin: str) -> None:
    """Let jobs know why they got nothing."""
    message = f"queue {queue.name} has its due already"
    while jobs:
        job = jobs.take()
        if not job.is_ready:
            job.message = message
        session.log.passed_over(job, Outcome.OVERUSED, plugin, message)


def _may_have_room(task: TaskInfo) -> bool:
    return not task.gated and not task.best_effort


class _Hope:
    """A job that may get more, with its tasks that were not tried yet."""

    def __init__(self, session: Session, job: JobInfo) -> None:
        self._session = session
        self._job = job
        self._tasks: deque[TaskInfo] | None = None
        #: The roles of which a task has found no node.
        self._failed: set[str] = set()

    def take_turn(self, queue: QueueInfo) -> Generator[None, None, bool]:
        """Try tasks until the job is ready; return whether it is to have another turn."""
        job, plugins = self._job, self._session.plugins
        broken = job.is_broken
        if self._tasks is None:
            self._tasks = deque(task for task in pending_tasks(self._session, job) if _may_have_room(task))
        with self._session.statement() as statement:
            while self._tasks:
                task = self._tasks.popleft()
                error = self._place(statement, queue, task)
                yield
                if error is None:
                    if plugins.job_ready(job):
                        break
                else:
                    job.unfit(task, error)
                    if not self._may_still_be_ready():
                        break
            if plugins.job_ready(job):
                self._over(statement, Outcome.COMMITTED)
                statement.commit()
                return bool(self._tasks)
            if broken or plugins.job_pipelined(job):
                self._over(statement, Outcome.KEPT)
                statement.keep()
            else:
                self._over(statement, Outcome.DISCARDED)
        return False

    def _over(self, statement: JobStatement, outcome: Outcome) -> None:
        session = self._session
        placed = (*statement.allocated, *statement.pipelined)
        session.log.turn(self._job, outcome, session.placement.chosen, placed=placed)

    def _place(self, statement: JobStatement, queue: QueueInfo, task: TaskInfo) -> str | None:
        """Give a task room, or promise it some; return why that cannot be."""
        session = self._session
        if refuser := session.plugins.refuses_room(queue, task):
            return self._rejected(task, f"queue {queue.name} is not due room for it", refuser)
        if task.role and task.role in self._failed:
            return self._rejected(task, f"another task of role {task.role} found no node")
        choice = _nominated(session, task) or session.placement.choose(task)
        if isinstance(choice, str):
            self._failed.add(task.role)
            return self._rejected(task, choice)
        put = statement.allocate if choice.idle else statement.pipeline
        refused = put(task, choice.node)
        return None if refused is None else self._rejected(task, refused.message, refused.plugin)

    def _rejected(self, task: TaskInfo, message: str, plugin: str = "") -> str:
        self._session.log.rejected(task, message, plugin)
        return message

    def _may_still_be_ready(self) -> bool:
        """Return whether the job can have its minimum without the tasks that found no node.

        Where the minimum is the sum of those of roles, the roles that failed must have theirs already; where the roles
        ask for more than the job does, enough tasks of other roles must be left.
        """
        job, failed, minimums = self._job, self._failed, self._job.role_minimums
        if not failed:
            return True
        if job.min_available == len(job.tasks):
            return False
        if not minimums:
            return True
        if job.min_available < sum(minimums.values()):
            left = sum(task.role not in failed for task in job.with_status(TaskStatus.PENDING).values())
            return job.ready_num + job.waiting_num + left >= job.min_available
        have = job.roles(*READY, TaskStatus.PIPELINED)
        return all(have.get(role, 0) >= minimums.get(role, 0) for role in failed)


def _nominated(session: Session, task: TaskInfo) -> Choice | None:
    """Return the node that was freed for a task, if it still has room for it."""
    name = task.object.status.nominated_node_name
    row = session.nodes.row(name) if name else None
    if row is None or not session.idle.fits_future(task, row) or session.plugins.pre_predicate(task) is not None:
        return None
    if session.placement.rejection(task, row) is not None:
        return None
    session.placement.forget(task)
    return Choice(row, name, session.idle.fits_idle(task, row), score=0.0, ties=1, feasible=1)
