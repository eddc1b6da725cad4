"""allocate: give pending tasks room, queue by queue and gang by gang."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from kframework_batch.account import RejectedHypernode, SubJobTurn, TurnOutcome
from kframework_batch.action import Action, KeyedQueue, SearchArguments, pending_tasks, schedulable_jobs
from kframework_batch.actions.domains import candidate_domains, format_shortages, no_domain_reason, shortage
from kframework_batch.hookspecs import Key
from kframework_batch.hypernodes import Domain
from kframework_batch.job import INQUEUE, GangInfo, JobInfo, SubJobInfo, TaskInfo, TentativeNode
from kframework_batch.placement import Choice
from kframework_batch.plugin import BatchArguments
from kframework_batch.queue import QueueInfo
from kframework_batch.session import JobStatement, Session
from kframework_batch.session_log import NO_REJECTIONS, TurnRejections
from kframework_batch.task_status import READY, TaskStatus


class Allocate(Action):
    """Gives the first job of the first queue what it needs to be ready, then starts again at the first queue.

    So a gang gets its minimum in one turn, or nothing; tasks beyond the minimum come in later turns, one at a time, and
    so do optional subgroups. A queue that is overused gets no more turns.

    A gang that has lost members keeps the room that it finds for some of them until the session ends, without binding
    any: where room becomes free bit by bit, other jobs would take each bit, and what the gang holds would be wasted for
    as long as new jobs arrive.
    """

    name: ClassVar[str] = "allocate"
    Arguments: ClassVar[type[BatchArguments]] = SearchArguments

    def run(self, session: Session) -> Iterator[None]:
        if all(action.name != "enqueue" for action in session.actions):
            for job in session.jobs.values():
                if job.is_pending:
                    job.phase = INQUEUE
        plugins = session.plugins
        worksheets: dict[str, JobAllocation] = {}
        jobs: dict[str, KeyedQueue[JobInfo]] = {}
        for job in schedulable_jobs(session):
            if any(needs_allocation(task) for task in job.with_status(TaskStatus.PENDING).values()):
                worksheets[job.uid] = JobAllocation(session, job)
                jobs.setdefault(job.queue, KeyedQueue(plugins.job_key)).put(job)
            yield
        queues = KeyedQueue(plugins.queue_key, (session.queues[name] for name in jobs))
        while queues:
            queue = queues.pop()
            if refuser := plugins.overused_by(queue):
                while jobs[queue.name]:
                    job = jobs[queue.name].pop()
                    job.message = f"queue {queue.name} already holds its share"
                    session.log.log_outcome(job, TurnOutcome.OVERUSED, refuser, job.message)
                continue
            job = jobs[queue.name].pop()
            if (yield from worksheets[job.uid].run_turn(queue)):
                jobs[queue.name].put(job)
            if jobs[queue.name]:
                queues.put(queue)


def needs_allocation(task: TaskInfo) -> bool:
    return not task.is_gated and not task.is_best_effort


@dataclass
class _DomainAttempt:
    """The result of trying a gang in one hypernode, or in all that it may use (None), before it was rolled back."""

    domain: Domain | None
    had: int
    is_kept: bool = False
    message: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    tentative_nodes: Mapping[str, TentativeNode] = field(default_factory=dict)
    rejections: TurnRejections = NO_REJECTIONS


@dataclass
class _SearchResult:
    """The hypernode with a gang's room, if the search has left it any, and the hypernodes without."""

    outcome: TurnOutcome
    domain: Domain | None = None
    message: str = ""
    attempts: Sequence[_DomainAttempt] = ()

    @property
    def hypernode(self) -> str:
        return "" if self.domain is None else self.domain.name

    @property
    def rejected_hypernodes(self) -> list[RejectedHypernode]:
        return [
            RejectedHypernode(each.domain.name, each.domain.tier, each.had, each.message)
            for each in self.attempts
            if each.domain
        ]


def _best_attempt(tries: Iterable[_DomainAttempt], minimum: int) -> _DomainAttempt | None:
    """Return the first of those in which a gang had most of what it needs."""
    return max(tries, key=lambda each: min(each.had, minimum), default=None)


class JobAllocation:
    """A job that may get more, with its tasks that were not tried yet.

    A job without subgroups is one gang; else its subgroups are gangs too, each served as a whole within what serves the
    job. Both are searched for in the same way: one hypernode after the other, where they are to be close together.
    """

    def __init__(self, session: Session, job: JobInfo) -> None:
        self._session = session
        self._job = job
        #: The tasks of the job, or of each of its parts, and how many of them were tried.
        self._tasks: dict[GangInfo, list[TaskInfo]] = {}
        self._tried: dict[GangInfo, int] = {}
        #: The roles with a task that found no node.
        self._failed: dict[GangInfo, set[str]] = {}

    def run_turn(self, queue: QueueInfo) -> Generator[None, None, bool]:
        """Try tasks until the job is ready; return whether it is to have another turn."""
        job, session = self._job, self._session
        if not self._tasks:
            for task in filter(needs_allocation, pending_tasks(session, job)):
                self._tasks.setdefault(task.subjob or job, []).append(task)
            self._tried = dict.fromkeys(self._tasks, 0)
        with session.statement() as statement:
            result = yield from self._search(statement, job, queue, None)
            if result.outcome is not TurnOutcome.COMMITTED:
                result.message = result.message or job.missing_subgroups(session.plugins.subjob_ready)
            if result.outcome is TurnOutcome.DISCARDED:
                job.message = result.message
            session.log.log_turn(
                job,
                result.outcome,
                session.placement.choices,
                placed=statement.allocated,
                promised=(*statement.pipelined, *statement.reserved),
                message=result.message,
                hypernode=result.hypernode,
                tried=result.rejected_hypernodes,
            )
            if result.outcome is TurnOutcome.COMMITTED:
                statement.commit()
            elif result.outcome is TurnOutcome.KEPT:
                statement.keep()
            more = result.outcome is TurnOutcome.COMMITTED and statement.has_allocations
        return more and any(map(self._has_untried, self._tasks))

    def _has_untried(self, gang: GangInfo) -> bool:
        return gang in self._tasks and self._tried[gang] < len(self._tasks[gang])

    # -- one hypernode after the other ---------------------------------------------------------------------------------

    def _search(
        self, statement: JobStatement, gang: GangInfo, queue: QueueInfo, domain: Domain | None
    ) -> Generator[None, None, _SearchResult]:
        """Allocate a gang in the first hypernode where it has enough; None means all that it may use.

        Idle room in any hypernode is preferred to future room, which is used only if no hypernode has idle room.
        Without a choice of hypernodes, the allocations stay in the statement, whatever the result.
        """
        session, job, tried = self._session, self._job, dict(self._tried)
        found, was_broken = candidate_domains(session, gang, domain), self._is_broken(gang)
        if len(found) == 1 and found[0] is domain:
            yield from self._allocate_gang(statement, gang, queue, domain)
            outcome = self._outcome(gang, was_broken)
            named = gang.topology is not None and outcome is not TurnOutcome.DISCARDED
            return _SearchResult(outcome, domain if named else None)
        errors, tentative = dict(job.fit_errors), dict(job.tentative_nodes)
        tries: list[_DomainAttempt] = []
        for domain in found:
            self._reset_tried(tried)
            attempt = _DomainAttempt(domain, gang.allocated_num, message=self._domain_shortage(gang, domain))
            tries.append(attempt)
            if attempt.message:
                continue
            mark = session.log.mark()
            with statement.statement() as inner:
                yield from self._allocate_gang(inner, gang, queue, domain)
                outcome = self._outcome(gang, was_broken) if inner.has_allocations else TurnOutcome.DISCARDED
                if outcome is TurnOutcome.COMMITTED:
                    inner.commit()
                    return _SearchResult(outcome, domain, attempts=tries[:-1])
                attempt.had, attempt.is_kept = gang.allocated_num, outcome is TurnOutcome.KEPT
            attempt.errors, attempt.tentative_nodes, attempt.rejections = (
                job.fit_errors,
                job.tentative_nodes,
                session.log.take_since(mark),
            )
            attempt.message = attempt.rejections.message or "too few of its tasks have room"
            job.fit_errors, job.tentative_nodes = dict(errors), dict(tentative)
        kept = _best_attempt((each for each in tries if each.is_kept), gang.min_available)
        if kept is not None:
            self._reset_tried(tried)
            with statement.statement() as inner:
                yield from self._allocate_gang(inner, gang, queue, kept.domain)
                inner.commit()
            return _SearchResult(TurnOutcome.KEPT, kept.domain, attempts=[each for each in tries if each is not kept])
        return self._no_room(gang, tries)

    def _no_room(self, gang: GangInfo, tries: Sequence[_DomainAttempt]) -> _SearchResult:
        """Return why a gang has no room, with the fit errors of the most successful try."""
        session, job = self._session, self._job
        best = _best_attempt(tries, gang.min_available)
        if best is not None:
            job.fit_errors.update(best.errors)
            job.tentative_nodes.update(best.tentative_nodes)
            session.log.restore(best.rejections)
        message = format_shortages(each.message for each in tries) if tries else no_domain_reason(session, gang)
        return _SearchResult(
            TurnOutcome.COMMITTED if self._is_ready(gang) else TurnOutcome.DISCARDED, message=message, attempts=tries
        )

    def _reset_tried(self, tried: Mapping[GangInfo, int]) -> None:
        self._tried = dict(tried)
        self._failed.clear()

    def _domain_shortage(self, gang: GangInfo, domain: Domain | None) -> str:
        """Return why trying is of no use; "" if it may be."""
        if domain is None:
            return ""
        parts = self._tasks if gang is self._job else (gang,)
        tasks = [task for part in parts if part in self._tasks for task in self._tasks[part][self._tried[part] :]]
        partly = self._is_broken(gang) or self._is_ready(gang) or self._is_pipelined(gang)
        count = 1 if partly else max(gang.min_available - gang.allocated_num, 1)
        return shortage(self._session, tasks, count, domain)

    # -- whether it has enough -----------------------------------------------------------------------------------------

    def _outcome(self, gang: GangInfo, was_broken: bool) -> TurnOutcome:
        if self._is_ready(gang):
            return TurnOutcome.COMMITTED
        return TurnOutcome.KEPT if was_broken or self._is_pipelined(gang) else TurnOutcome.DISCARDED

    def _is_broken(self, gang: GangInfo) -> bool:
        """Return whether a gang has lost members; of parts of a job others may do instead."""
        return gang is self._job and self._job.is_broken

    def _is_ready(self, gang: GangInfo) -> bool:
        plugins = self._session.plugins
        return plugins.subjob_ready(gang) if isinstance(gang, SubJobInfo) else plugins.job_ready(self._job)

    def _is_pipelined(self, gang: GangInfo) -> bool:
        plugins = self._session.plugins
        return plugins.subjob_pipelined(gang) if isinstance(gang, SubJobInfo) else plugins.job_pipelined(self._job)

    # -- its tasks -----------------------------------------------------------------------------------------------------

    def _allocate_gang(
        self, statement: JobStatement, gang: GangInfo, queue: QueueInfo, domain: Domain | None
    ) -> Iterator[None]:
        """Allocate a gang, in a hypernode if there is one, until it is ready or cannot be any more."""
        if gang is self._job and self._job.subjobs:
            yield from self._allocate_subjobs(statement, queue, domain)
            return
        failed = self._failed.setdefault(gang, set())
        while self._has_untried(gang):
            task = self._tasks[gang][self._tried[gang]]
            self._tried[gang] += 1
            error = self._allocate_task(statement, queue, task, domain, failed)
            yield
            if error is None:
                if self._is_ready(gang):
                    break
            else:
                self._job.set_fit_error(task, error)
                if not self._may_still_be_ready(gang, failed):
                    break

    def _allocate_subjobs(self, statement: JobStatement, queue: QueueInfo, domain: Domain | None) -> Iterator[None]:
        """Allocate each part of the job enough room or none, those first that the job needs."""
        job, plugins, needed = self._job, self._session.plugins, self._needed_subjobs()

        def key(part: SubJobInfo) -> tuple[Key, ...]:
            return (part.name not in needed, *plugins.subjob_key(part))

        parts = KeyedQueue(key, filter(self._has_untried, job.subjobs.values()))
        while parts:
            part = parts.pop()
            with statement.statement() as own:
                result = yield from self._search(own, part, queue, domain)
                turn = SubJobTurn(
                    subjob=part.name,
                    had=part.allocated_num,
                    minimum=part.min_available,
                    outcome=result.outcome,
                    message=result.message,
                    hypernode=result.hypernode,
                    rejected_hypernodes=tuple(result.rejected_hypernodes),
                )
                self._session.log.log_subjob_turn(turn)
                if result.outcome is TurnOutcome.COMMITTED:
                    own.commit()
                elif result.outcome is TurnOutcome.KEPT:
                    own.keep()
                got = own.is_closed and own.has_allocations
            if got and plugins.job_ready(job):
                return
            if got and self._has_untried(part):
                parts.put(part)

    def _needed_subjobs(self) -> set[str]:
        """Name the parts that would give the job enough of each policy, the first in order."""
        plugins, job = self._session.plugins, self._job
        ready = Counter(part.policy for part in job.subjobs.values() if plugins.subjob_ready(part))
        missing = {groups.name: groups.minimum - ready[groups.name] for groups in job.subgroups}
        needed = set()
        for part in sorted(job.subjobs.values(), key=plugins.subjob_key):
            if part.policy is not None and missing[part.policy] > 0 and not plugins.subjob_ready(part):
                missing[part.policy] -= 1
                needed.add(part.name)
        return needed

    def _allocate_task(
        self, statement: JobStatement, queue: QueueInfo, task: TaskInfo, domain: Domain | None, failed: set[str]
    ) -> str | None:
        """Allocate or pipeline a task; return why that cannot be. `failed` are roles that found no node."""
        session = self._session
        if refuser := session.plugins.allocation_rejector(queue, task):
            reason = "has no share left for it" if queue.is_open else "is not open"
            return self._log_rejection(task, f"queue {queue.name} {reason}", refuser)
        if task.role and task.role in failed:
            return self._log_rejection(task, f"another task of role {task.role} found no node")
        choice = _nominated_choice(session, task, domain) or session.placement.choose(task, domain)
        if isinstance(choice, str):
            failed.add(task.role)
            return self._log_rejection(task, choice)
        put = statement.allocate if choice.idle else statement.pipeline
        refused = put(task, choice.node)
        return None if refused is None else self._log_rejection(task, refused.message, refused.plugin)

    def _log_rejection(self, task: TaskInfo, message: str, plugin: str = "") -> str:
        self._session.log.log_rejection(task, message, plugin)
        return message

    def _may_still_be_ready(self, gang: GangInfo, failed: set[str]) -> bool:
        """Return whether a gang can have its minimum without the tasks that found no node.

        Of a job without parts: where the minimum is the sum of those of roles, the roles that failed must have theirs
        already; where the roles ask for more than the job does, enough tasks of other roles must be left.
        """
        job, minimums = self._job, self._job.role_minimums
        if not failed:
            return True
        if job.min_available == len(job.tasks) or (gang is not job and gang.min_available >= len(gang.tasks)):
            return False
        if not minimums or job.subjobs:
            return True
        if job.min_available < sum(minimums.values()):
            left = sum(task.role not in failed for task in job.with_status(TaskStatus.PENDING).values())
            return job.ready_num + job.waiting_num + left >= job.min_available
        have = job.count_roles(*READY, TaskStatus.PIPELINED)
        return all(have.get(role, 0) >= minimums.get(role, 0) for role in failed)


def _nominated_choice(session: Session, task: TaskInfo, domain: Domain | None) -> Choice | None:
    """Return the node that was freed for a task, if it still has room for it."""
    name = task.object.status.nominated_node_name
    row = session.nodes.row(name) if name else None
    if row is None or not session.idle.fits_future(task, row) or session.plugins.pre_predicate(task) is not None:
        return None
    if session.placement.rejection(task, row) is not None or (domain is not None and not domain.contains_rows([row])):
        return None
    session.placement.forget(task)
    return Choice(row, name, session.idle.fits_idle(task, row), score=0.0, ties=1, feasible=1)
