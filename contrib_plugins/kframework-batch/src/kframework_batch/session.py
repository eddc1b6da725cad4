"""A session: all actions of the configuration, once, on the live tables; afterwards only what was committed stays.

One Statement of the core is open throughout: what jobs commit merges into it. At the end promises are rolled back,
victims return to their nodes, where they run until the watch reports their deletion, and tasks that are being bound
stay assumed. So a session costs no copy of the cluster, and no event from outside may be applied meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from random import Random
from types import TracebackType
from typing import ClassVar, Protocol

from kframework import Clock, PluginError, PodInfo, Statement, Status
from kframework.engine import ClusterState
from kframework_batch.account import SessionAccount
from kframework_batch.combination import CombinedPlugins
from kframework_batch.core_plugins import CorePlugins
from kframework_batch.hypernodes import HyperNodes
from kframework_batch.job import JobInfo, TaskInfo, TentativeNode
from kframework_batch.placement import Placement, ScoreCache
from kframework_batch.queue import QueueInfo
from kframework_batch.resource import Resource
from kframework_batch.session_log import SessionLog
from kframework_batch.session_view import SessionView
from kframework_batch.task_status import TaskStatus
from kframework_batch.tiers import Tiers

#: Statuses of tasks that are not yet where they are to be.
_UNFINISHED = (TaskStatus.PENDING, TaskStatus.PIPELINED, TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.RELEASING)


class SessionEffects:
    """The effects of a session on the outside, by its engine; they return at once, and do nothing here."""

    def bind(self, tasks: Sequence[TaskInfo]) -> None:
        """Start the binding of tasks that are assumed on their nodes."""

    def start_eviction(self, task: TaskInfo, reason: str) -> None:
        """Start the eviction of a victim."""

    def record_warning(self, job: JobInfo, reason: str, message: str) -> None:
        """Record a warning about a pod group."""

    def repair_gangs(self, session: Session) -> None:
        """Repair what earlier sessions left broken, before plugins look at the jobs."""

    def report(self, session: Session) -> Iterator[None]:
        """Report the session before its tasks are reset; yields now and then."""
        yield from ()


class Runnable(Protocol):
    """Runs within a session: an action (`kframework_batch.action`)."""

    name: ClassVar[str]

    def run(self, session: Session) -> Iterator[None]:
        """Do the work, and yield after each task."""


class Session(SessionView):
    """One session, from `run` to its end: what hooks see of it, and what actions may do."""

    def __init__(
        self,
        uid: str,
        clock: Clock,
        cluster: ClusterState,
        jobs: Collection[JobInfo],
        queues: Mapping[str, QueueInfo],
        leaving: Iterable[PodInfo],
        tiers: Tiers,
        actions: Sequence[Runnable],
        core: CorePlugins,
        hypernodes: HyperNodes,
        scores: ScoreCache,
        random: Random,
        effects: SessionEffects,
    ) -> None:
        self.log: SessionLog = SessionLog(uid, clock)
        super().__init__(uid, self.log.at, cluster, jobs, queues, leaving, core, hypernodes)
        self.cluster: ClusterState = cluster
        self.actions: Sequence[Runnable] = actions
        self.random: Random = random
        self.plugins: CombinedPlugins = CombinedPlugins(tiers, self, self.log.log_protected)
        self.placement: Placement = Placement(self, self.plugins, scores, random)
        #: The tasks that are promised room, and those that hold room without being bound, until the session ends.
        self.pipelined: list[TaskInfo] = []
        self.reserved: list[TaskInfo] = []
        #: What a plugin raised when it was notified that something is undone.
        self.fault: PluginError | None = None
        self._known_jobs = [job for job in jobs if job.has_group]
        #: The phases of the jobs before any action, by uid.
        self.phases: dict[str, str] = {job.uid: job.phase for job in self._known_jobs}
        self._effects = effects
        self._statement = cluster.statement()

    def run(self) -> Generator[None, None, None]:
        """Run all actions; yields wherever others may look on, but nothing may change. Closing it early is no harm."""
        queues, key = self.queues.items(), self.plugins.queue_key
        try:
            for job in self._known_jobs:
                job.fit_errors.clear()
                job.tentative_nodes.clear()
                job.message = "" if job.queue in self.queues else f"there is no queue {job.queue!r}"
            self.core.reset()
            self._effects.repair_gangs(self)
            yield
            yield from self.plugins.open(partial(self.log.add_duration, "open"))
            # In the order in which they are to be served, those without jobs behind them.
            requested = {job.queue for job in self.jobs.values()}
            served = sorted((queue for name, queue in queues if name in requested), key=key)
            others = sorted((queue for name, queue in queues if name not in requested), key=lambda one: one.name)
            for queue in (*served, *others):
                self.log.log_queue(queue, *self.plugins.queue_account(queue))
            for action in self.actions:
                with closing(self._run_action(action)) as steps:
                    yield from self.log.run_action(action.name, steps)
                yield
            yield from self._conclude()
        finally:
            self._close()

    def _conclude(self) -> Iterator[None]:
        """Run the plugins' close hooks, and let the engine account for the session."""
        self.plugins.close(partial(self.log.add_duration, "close"))
        for task in (*self.pipelined, *self.reserved):
            task.job.tentative_nodes[task.uid] = TentativeNode(task.status, task.node_name)
        yield from self._effects.report(self)

    def _run_action(self, action: Runnable) -> Generator[None, None, None]:
        try:
            yield from action.run(self)
        except PluginError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise PluginError(reason, plugin=action.name, hook="run") from error

    def statement(self) -> JobStatement:
        return JobStatement(self, self._statement.statement())

    # -- what is committed -------------------------------------------------------------------------------------------

    def bind(self, tasks: Sequence[TaskInfo]) -> None:
        for task in tasks:
            task.job.update_status(task, TaskStatus.BINDING)
        self.log.log_bound(tasks)
        self._effects.bind(tasks)

    def evict(self, task: TaskInfo, reason: str) -> None:
        self.log.log_eviction(task, reason)
        self._effects.start_eviction(task, reason)

    def record_warning(self, job: JobInfo, reason: str, message: str) -> None:
        self._effects.record_warning(job, reason, message)

    def undo_allocation(self, task: TaskInfo) -> None:
        """Notify the plugins that a task loses its room, and take it off its node."""
        self.notify_undone(self.plugins.deallocated, task)
        self.release(task)

    def notify_undone(self, notify: Callable[[TaskInfo], object], task: TaskInfo) -> None:
        """Notify the plugins that an operation is undone; after one has raised, the session ends without the others."""
        if self.fault is None:
            try:
                notify(task)
            except PluginError as error:
                self.fault = error

    def log_job(self, job: JobInfo) -> None:
        """Note how a job is left, if something of it waits or has changed."""
        phase = self.phases.get(job.uid, job.phase)
        if phase != job.phase or job.message or any(job.with_status(status) for status in _UNFINISHED):
            self.log.log_job(job, phase, job.invalid_reason or job.message)

    def build_account(self, sample_value: float, failure: str = "") -> SessionAccount:
        """Return the account of what was done; `failure` is what ended it early."""
        held: dict[str, Resource] = {}
        for job in self.jobs.values():
            if not job.allocated.is_empty:
                held.setdefault(job.queue, Resource()).add(job.bound_resources)
        return self.log.build_account(
            nodes=len(self.nodes), capacity=self.total, held=held, sample_value=sample_value, failure=failure
        )

    # -- the end -----------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        """Roll back what was only assumed, and what an exception left open."""
        self._roll_back_inner()
        for task in self.pipelined:
            self._statement.remove(task.pod)
            _unassign(task)
        self._statement.commit()
        for task in self.reserved:
            self.release(task)
        self.idle.close()

    def release(self, task: TaskInfo) -> None:
        node_name = task.node_name
        _unassign(task)
        self.core.release(task, node_name)

    def _roll_back_inner(self) -> None:
        statements = self.cluster.statements
        while statements[-1] is not self._statement:
            statements[-1].rollback()


def _assign(task: TaskInfo, status: TaskStatus, node_name: str) -> None:
    task.job.update_status(task, status)
    task.node_name = node_name


def _unassign(task: TaskInfo) -> None:
    task.job.update_status(task, TaskStatus.PENDING)
    task.node_name = ""


class TrialSession(Session):
    """A session that rolls everything back, including what was committed; its `log` records what that was.

    What sessions leave on jobs for conditions and for the next session is restored, the order of tasks included: a
    replay, which runs no trials, has the same result.
    """

    def run_trial(self) -> None:
        """Run all actions in one piece. PluginError is raised as by any session; nothing stays then either."""
        before = [
            (job, dict(job.fit_errors), dict(job.tentative_nodes), job.message, job.phase) for job in self._known_jobs
        ]
        orders = [(gang, gang.order) for job in self._known_jobs for gang in job.gangs]
        try:
            for _ in self.run():
                pass
        finally:
            for job, fit_errors, tentative, message, phase in before:
                job.fit_errors, job.tentative_nodes, job.message, job.phase = fit_errors, tentative, message, phase
            for gang, order in orders:
                gang.order = order

    def bind(self, tasks: Sequence[TaskInfo]) -> None:
        self.log.log_bound(tasks)  # they stay allocated, which counts as much

    def _conclude(self) -> Iterator[None]:
        yield from ()

    def _close(self) -> None:
        self._roll_back_inner()
        self._statement.rollback()
        self.idle.close()


# -- what a job does in it -----------------------------------------------------------------------------------------


class JobStatement:
    """Operations of one job, kept by `commit` and `keep`, or undone by `discard`.

    It is an inner Statement of the session's, and adds the status of the tasks and the books of the plugins, which are
    notified of every operation and of its inverse. As a context manager it is discarded on the way out unless it was
    closed before.
    """

    def __init__(self, session: Session, statement: Statement, outer: JobStatement | None = None) -> None:
        self._session = session
        self._statement = statement
        self._outer = outer
        #: The tasks that got room, those that are promised it, and the victims with their reasons.
        self.allocated: list[TaskInfo] = []
        self.pipelined: list[TaskInfo] = []
        self.evicted: list[tuple[TaskInfo, str]] = []
        #: The tasks that hold room without being bound, since an inner one was kept.
        self.reserved: list[TaskInfo] = []

    @property
    def has_allocations(self) -> bool:
        return bool(self.allocated or self.pipelined or self.reserved)

    # -- operations ------------------------------------------------------------------------------------------------

    def allocate(self, task: TaskInfo, node_name: str) -> Status | None:
        """Allocate a pending task on a node; return a plugin's rejection, after which nothing has changed."""
        session = self._session
        status = session.core.reserve(task, node_name, self._statement)
        if status is not None:
            return status
        _assign(task, TaskStatus.ALLOCATED, node_name)
        try:
            status = session.plugins.allocated(task)
        except BaseException:
            session.release(task)
            raise
        if status is not None:
            session.release(task)
            return status
        self._statement.record(partial(session.undo_allocation, task))
        self.allocated.append(task)
        return None

    def pipeline(self, task: TaskInfo, node_name: str) -> Status | None:
        """Promise a pending task room on a node; a Status of a plugin that refuses, and nothing has happened then."""
        session, plugins = self._session, self._session.plugins
        with self._statement.statement() as step:
            step.add(task.pod, node_name)
            session.idle.add_pod("pipelined", step, task.pod, task.pod.row)
            _assign(task, TaskStatus.PIPELINED, node_name)
            step.record(partial(_unassign, task))  # before plugins are notified, since they may reject or raise
            status = plugins.allocated(task)
            if status is None:
                step.record(partial(session.notify_undone, plugins.deallocated, task))
                step.commit()
                self.pipelined.append(task)
        return status

    def evict(self, task: TaskInfo, reason: str) -> None:
        """Take a running task off its node, if that exists, as if it had gone; the commit evicts it."""
        session, row = self._session, task.pod.row
        with self._statement.statement() as step:
            if row >= 0:
                step.evict(task.pod)
                session.idle.add_pod("evicted", step, task.pod, row)
            before = task.status
            task.job.update_status(task, TaskStatus.RELEASING)
            step.record(
                lambda: task.job.update_status(task, before)
            )  # before plugins are notified, since they may raise
            plugins = session.plugins
            plugins.deallocated(task)
            step.record(lambda: session.notify_undone(plugins.allocated, task))
            step.commit()
        self.evicted.append((task, reason))

    def statement(self) -> JobStatement:
        """Open an inner one, to try something: its commit hands what it did to this one."""
        return JobStatement(self._session, self._statement.statement(), self)

    # -- closing ---------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Keep what was done; the outermost binds those with room and sends victims away. Promises stay promises."""
        self._statement.commit()
        if self._outer is not None:
            self._outer.allocated += self.allocated
            self._outer.pipelined += self.pipelined
            self._outer.reserved += self.reserved
            self._outer.evicted += self.evicted
            return
        session = self._session
        if self.allocated:
            session.bind(self.allocated)
        for task, reason in self.evicted:
            session.evict(task, reason)
        session.pipelined += self.pipelined
        session.reserved += self.reserved

    def keep(self) -> None:
        """Keep all of it as promises until the session ends: room that victims must leave, without binding any task.

        The statement may have no victims. What an inner one keeps is bound by no outer one either.
        """
        assert not self.evicted
        self._statement.commit()
        session, outer = self._session, self._outer
        promised, reserved = (
            (session.pipelined, session.reserved) if outer is None else (outer.pipelined, outer.reserved)
        )
        promised.extend(self.pipelined)
        reserved.extend((*self.allocated, *self.reserved))

    def discard(self) -> None:
        """Undo what was done, in reverse; then raise what a plugin raised. Jobs keep their tasks' tentative nodes."""
        for task in (*self.allocated, *self.pipelined, *self.reserved):
            task.job.tentative_nodes[task.uid] = TentativeNode(task.status, task.node_name)
        self._statement.rollback()
        if self._session.fault is not None:
            raise self._session.fault

    @property
    def is_closed(self) -> bool:
        return self._statement.closed

    def __enter__(self) -> JobStatement:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.is_closed:
            self.discard()
