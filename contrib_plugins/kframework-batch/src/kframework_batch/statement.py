"""What a job does in a session: allocate, pipeline, evict on the live tables, then commit all of it or discard it."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from kframework import PluginError, Statement, Status
from kframework.engine import run_reserve, run_unreserve
from kframework_batch.combination import Combination
from kframework_batch.core_questions import CoreQuestions
from kframework_batch.idle import NodeIdle
from kframework_batch.job import Place, TaskInfo
from kframework_batch.task_status import TaskStatus


class StatementHost(Protocol):
    """What a session keeps for the statements of its jobs, and does for them (`kframework_batch.session`)."""

    core: CoreQuestions
    idle: NodeIdle
    plugins: Combination
    #: The tasks that are promised room, and those that hold room without being bound, until the session ends.
    promised: list[TaskInfo]
    reserved: list[TaskInfo]
    #: What a plugin raised that was told that something is undone.
    fault: PluginError | None

    def bind(self, task: TaskInfo) -> None:
        """Have a task bound to the node that it is allocated on."""
        ...

    def send_away(self, task: TaskInfo, reason: str) -> None:
        """Have a victim sent away."""
        ...

    def tell_undone(self, tell: Callable[[TaskInfo], object], task: TaskInfo) -> None:
        """Tell the plugins that an operation is undone; what one raises is kept, so that undoing comes to its end.

        Nobody is told any more then: the session ends, and the books with it.
        """
        ...


class JobStatement:
    """Operations of one job, kept by `commit` and `keep`, or undone by `discard`.

    It is an inner Statement of the session's, and adds what is kept beside the nodes: the status of the tasks, and the
    books of the plugins, which hear of every operation and of its inverse. As a context manager it is discarded on the
    way out unless it was closed before.
    """

    def __init__(self, session: StatementHost, statement: Statement, outer: JobStatement | None = None) -> None:
        self._session = session
        self._statement = statement
        self._outer = outer
        #: The tasks that got room, those that are promised it, and the victims with what is said of them.
        self.allocated: list[TaskInfo] = []
        self.pipelined: list[TaskInfo] = []
        self.evicted: list[tuple[TaskInfo, str]] = []
        #: The tasks that hold room without being bound, since an inner one was kept.
        self.kept: list[TaskInfo] = []

    @property
    def placed(self) -> bool:
        """Whether it gave any task room, or promised it."""
        return bool(self.allocated or self.pipelined or self.kept)

    # -- operations ------------------------------------------------------------------------------------------------

    def allocate(self, task: TaskInfo, node_name: str) -> Status | None:
        """Give a pending task room on a node; a Status of a plugin that refuses, and nothing has happened then."""
        session = self._session
        profile, state = session.core.profile(task), session.core.state(task)
        pod = session.core.pending(task)
        with self._statement.statement() as step:
            step.assume(pod, node_name)
            status = run_reserve(profile, state, pod, node_name)
            if status is not None:
                run_unreserve(profile, state, pod, node_name)
                return status
            if profile.unreserve:
                step.record(lambda: run_unreserve(profile, state, pod, node_name))
            status = self._place(step, task, node_name, TaskStatus.ALLOCATED)
            if status is None:
                step.commit()
                self.allocated.append(task)
        return status

    def pipeline(self, task: TaskInfo, node_name: str) -> Status | None:
        """Promise a pending task room on a node; a Status of a plugin that refuses, and nothing has happened then."""
        with self._statement.statement() as step:
            step.add(task.pod, node_name)
            self._session.idle.pipelined(step, task.pod)
            status = self._place(step, task, node_name, TaskStatus.PIPELINED)
            if status is None:
                step.commit()
                self.pipelined.append(task)
        return status

    def evict(self, task: TaskInfo, reason: str) -> None:
        """Take a running task off its node as if it had gone; it is sent away with the commit.

        Where the node itself is gone, nobody gets its room.
        """
        session, row = self._session, task.pod.row
        with self._statement.statement() as step:
            if row >= 0:
                step.evict(task.pod)
                session.idle.evicted(step, task.pod, row)
            before = task.status
            task.job.move(task, TaskStatus.RELEASING)
            step.record(lambda: task.job.move(task, before))  # before plugins are told, since they may raise
            plugins = session.plugins
            plugins.deallocated(task)
            step.record(lambda: session.tell_undone(plugins.allocated, task))
            step.commit()
        self.evicted.append((task, reason))

    def statement(self) -> JobStatement:
        """Open an inner one, to try something: its commit hands what it did to this one."""
        return JobStatement(self._session, self._statement.statement(), self)

    def _place(self, step: Statement, task: TaskInfo, node_name: str, status: TaskStatus) -> Status | None:
        """Give a task its place in the books of job and plugins, and note how that is undone."""
        before = task.node_name

        def undo() -> None:
            task.job.move(task, TaskStatus.PENDING)
            task.node_name = before

        task.job.move(task, status)
        task.node_name = node_name
        step.record(undo)  # before plugins are told, since they may refuse or raise
        plugins = self._session.plugins
        refused = plugins.allocated(task)
        if refused is None:
            step.record(lambda: self._session.tell_undone(plugins.deallocated, task))
        return refused

    # -- closing ---------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Keep what was done; the outermost binds those with room and sends victims away. Promises stay promises."""
        self._statement.commit()
        if self._outer is not None:
            self._outer.allocated += self.allocated
            self._outer.pipelined += self.pipelined
            self._outer.kept += self.kept
            self._outer.evicted += self.evicted
            return
        session = self._session
        for task in self.allocated:
            session.bind(task)
        for task, reason in self.evicted:
            session.send_away(task, reason)
        session.promised += self.pipelined
        session.reserved += self.kept

    def keep(self) -> None:
        """Keep all of it as promises until the session ends: room that others must leave, but nobody is bound.

        Nobody may have been evicted for it. What an inner one keeps is bound by no outer one either.
        """
        assert not self.evicted
        self._statement.commit()
        session, outer = self._session, self._outer
        promised, reserved = (session.promised, session.reserved) if outer is None else (outer.pipelined, outer.kept)
        promised.extend(self.pipelined)
        reserved.extend((*self.allocated, *self.kept))

    def discard(self) -> None:
        """Undo what was done, last things first; the jobs remember where their tasks would have gone.

        What a plugin raises that is told of it is raised when all is undone.
        """
        for task in (*self.allocated, *self.pipelined, *self.kept):
            task.job.places[task.uid] = Place(task.status, task.node_name)
        self._statement.rollback()
        if self._session.fault is not None:
            raise self._session.fault

    @property
    def closed(self) -> bool:
        """Whether it was committed, kept or discarded."""
        return self._statement.closed

    def __enter__(self) -> JobStatement:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.closed:
            self.discard()
