"""allocate: give pending tasks room, queue by queue and gang by gang."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from kframework_batch.account import Outcome, Tried, Verdict
from kframework_batch.action import Action
from kframework_batch.actions.candidates import SearchArguments, Turns, candidates, pending_tasks
from kframework_batch.actions.domains import domains, in_words, shortage, why_none
from kframework_batch.hypernodes import Domain
from kframework_batch.job import INQUEUE, JobInfo, Place, TaskInfo
from kframework_batch.placement import Choice
from kframework_batch.plugin import BatchArguments
from kframework_batch.queue import QueueInfo
from kframework_batch.session import Session
from kframework_batch.statement import JobStatement
from kframework_batch.task_status import READY, TaskStatus


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


@dataclass
class _Try:
    """What came of trying a job in one hypernode, or in the whole cluster (None), before that was taken back."""

    domain: Domain | None
    had: int
    keeps: bool = False
    message: str = ""
    errors: dict[str, str] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    rejected: tuple[Verdict, ...] = ()

    def take_from(self, session: Session, job: JobInfo) -> None:
        """Take what was said of the job's tasks, so that the next try begins anew."""
        self.errors, self.places, self.rejected = dict(job.fit_errors), dict(job.places), session.log.set_aside()
        job.fit_errors.clear()
        self.message = next((verdict.message for verdict in self.rejected), "its tasks have room, but not enough")


def _most(tries: Iterable[_Try], minimum: int) -> _Try | None:
    """Return the first of those in which a job had most of what it needs."""
    return max(tries, key=lambda each: min(each.had, minimum), default=None)


def _named(tries: Iterable[_Try]) -> list[Tried]:
    return [Tried(each.domain.name, each.domain.tier, each.had, each.message) for each in tries if each.domain]


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
        if self._tasks is None:
            self._tasks = deque(task for task in pending_tasks(self._session, self._job) if _may_have_room(task))
        closeness = self._job.closeness
        if closeness is None:
            return (yield from self._turn_anywhere(queue))
        found: list[Domain | None] = [*domains(self._session, self._job)]
        if not closeness.hard:
            if not found:
                return (yield from self._turn_anywhere(queue))
            found.append(None)
        return (yield from self._turn_within(queue, found))

    def _turn_anywhere(self, queue: QueueInfo) -> Generator[None, None, bool]:
        job, plugins = self._job, self._session.plugins
        broken = job.is_broken
        with self._session.statement() as statement:
            yield from self._fill(statement, queue, None)
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

    def _fill(self, statement: JobStatement, queue: QueueInfo, domain: Domain | None) -> Iterator[None]:
        """Give tasks room, in a hypernode if there is one, until the job is ready or cannot be any more."""
        job, tasks = self._job, self._tasks
        while tasks:
            task = tasks.popleft()
            error = self._place(statement, queue, task, domain)
            yield
            if error is None:
                if self._session.plugins.job_ready(job):
                    break
            else:
                job.unfit(task, error)
                if not self._may_still_be_ready():
                    break

    # -- within a hypernode --------------------------------------------------------------------------------------------

    def _turn_within(self, queue: QueueInfo, found: Sequence[Domain | None]) -> Generator[None, None, bool]:
        """Try one hypernode after the other until the job is ready in one; None stands for the whole cluster.

        Room now, in whichever of them, goes before room to come: that is kept only where no hypernode has room now.
        """
        session, job, tasks = self._session, self._job, deque(self._tasks or ())
        before, broken = dict(job.places), job.is_broken
        tries: list[_Try] = []
        for domain in found:
            self._tasks, self._failed = deque(tasks), set()
            attempt = _Try(domain, job.placed_num, message=self._hopeless(domain))
            if not attempt.message:
                with session.statement() as statement:
                    yield from self._fill(statement, queue, domain)
                    placed = bool(statement.allocated or statement.pipelined)
                    if placed and session.plugins.job_ready(job):
                        self._over(statement, Outcome.COMMITTED, domain, tries)
                        statement.commit()
                        return bool(self._tasks)
                    attempt.had = job.placed_num
                    attempt.keeps = placed and (broken or session.plugins.job_pipelined(job))
                attempt.take_from(session, job)
                job.places = dict(before)
            tries.append(attempt)
        self._tasks, self._failed = tasks, set()
        yield from self._not_ready_within(queue, tries)
        return False

    def _hopeless(self, domain: Domain | None) -> str:
        """Say why trying is of no use; "" if it may be."""
        job, plugins = self._job, self._session.plugins
        if domain is None:
            return ""
        partly = job.is_broken or plugins.job_ready(job) or plugins.job_pipelined(job)
        count = 1 if partly else max(job.min_available - job.placed_num, 1)
        return shortage(self._session, self._tasks or (), count, domain)

    def _not_ready_within(self, queue: QueueInfo, tries: list[_Try]) -> Iterator[None]:
        """Keep what the job found where it found most, the lowest tier first, if it is to be kept; else say why not."""
        session, job = self._session, self._job
        kept = _most((each for each in tries if each.keeps), job.min_available)
        if kept is not None:
            others = [each for each in tries if each is not kept]
            with session.statement() as statement:
                yield from self._fill(statement, queue, kept.domain)
                self._over(statement, Outcome.KEPT, kept.domain, others)
                statement.keep()
            return
        best = _most(tries, job.min_available)
        if best is not None:
            job.fit_errors.update(best.errors)
            job.places.update(best.places)
            session.log.again(best.rejected)
        ready = session.plugins.job_ready(job)
        message = in_words(each.message for each in tries) if tries else why_none(session, job)
        if not ready:
            job.message = message
        outcome = Outcome.COMMITTED if ready else Outcome.DISCARDED
        session.log.turn(job, outcome, session.placement.chosen, message=message, tried=_named(tries))

    def _over(
        self, statement: JobStatement, outcome: Outcome, domain: Domain | None = None, tries: Iterable[_Try] = ()
    ) -> None:
        session = self._session
        session.log.turn(
            self._job,
            outcome,
            session.placement.chosen,
            placed=(*statement.allocated, *statement.pipelined),
            hypernode="" if domain is None else domain.name,
            tried=_named(tries),
        )

    def _place(self, statement: JobStatement, queue: QueueInfo, task: TaskInfo, domain: Domain | None) -> str | None:
        """Give a task room, or promise it some; return why that cannot be."""
        session = self._session
        if refuser := session.plugins.refuses_room(queue, task):
            return self._rejected(task, f"queue {queue.name} is not due room for it", refuser)
        if task.role and task.role in self._failed:
            return self._rejected(task, f"another task of role {task.role} found no node")
        choice = _nominated(session, task, domain) or session.placement.choose(task, domain)
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


def _nominated(session: Session, task: TaskInfo, domain: Domain | None) -> Choice | None:
    """Return the node that was freed for a task, if it still has room for it."""
    name = task.object.status.nominated_node_name
    row = session.nodes.row(name) if name else None
    if row is None or not session.idle.fits_future(task, row) or session.plugins.pre_predicate(task) is not None:
        return None
    if session.placement.rejection(task, row) is not None or (domain is not None and not domain.holds([row])):
        return None
    session.placement.forget(task)
    return Choice(row, name, session.idle.fits_idle(task, row), score=0.0, ties=1, feasible=1)
