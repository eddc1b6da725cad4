"""A session: all actions of the configuration, once, on the live tables; afterwards only what was committed stays.

One Statement of the core is open all the while: what jobs commit merges into it. At the end promises are taken back,
victims return to their nodes, where they run until the cluster says that they are gone, and tasks that are being bound
stay assumed. So a session costs no copy of the cluster, and nothing that comes from outside may be applied meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from random import Random
from typing import ClassVar, Protocol

from kframework import Clock, PluginError, PodInfo
from kframework.engine import ClusterState, run_unreserve
from kframework_batch.account import SessionAccount
from kframework_batch.combination import Combination
from kframework_batch.core_questions import CoreQuestions
from kframework_batch.hypernodes import HyperNodes
from kframework_batch.job import JobInfo, Place, TaskInfo
from kframework_batch.placement import Placement, ScoreCache
from kframework_batch.queue import QueueInfo
from kframework_batch.resource import Resource
from kframework_batch.session_log import SessionLog
from kframework_batch.session_view import SessionView
from kframework_batch.statement import JobStatement, StatementHost
from kframework_batch.task_status import TaskStatus
from kframework_batch.tiers import Tiers

#: Statuses of tasks that are not yet where they are to be.
_UNSETTLED = (TaskStatus.PENDING, TaskStatus.PIPELINED, TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.RELEASING)


class Consequences:
    """What a session has done outside, by its engine. Every call returns at once; these do nothing."""

    def bind(self, task: TaskInfo) -> None:
        """Start the binding of a task that is assumed on its node."""

    def send_away(self, task: TaskInfo, reason: str) -> None:
        """Start the eviction of a victim."""

    def tell(self, job: JobInfo, reason: str, message: str) -> None:
        """Record a warning about a pod group."""

    def mend(self, session: Session) -> None:
        """Repair what earlier sessions left broken, before plugins look at the jobs."""

    def account(self, session: Session) -> Iterator[None]:
        """Report the session, while its tasks still stand as it left them; yields now and then."""
        yield from ()


class Runnable(Protocol):
    """What a session runs: an action (`kframework_batch.action`)."""

    name: ClassVar[str]

    def run(self, session: Session) -> Iterator[None]:
        """Do the work, and yield after each task."""
        ...


class Session(SessionView, StatementHost):
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
        core: CoreQuestions,
        hypernodes: HyperNodes,
        scores: ScoreCache,
        random: Random,
        consequences: Consequences,
    ) -> None:
        self.log: SessionLog = SessionLog(uid, clock)
        super().__init__(uid, self.log.at, cluster, jobs, queues, leaving, core, hypernodes)
        self.cluster: ClusterState = cluster
        self.actions: Sequence[Runnable] = actions
        self.random: Random = random
        self.plugins: Combination = Combination(tiers, self, self.log.protected)
        self.placement: Placement = Placement(self, self.plugins, scores, random)
        self.promised: list[TaskInfo] = []
        self.reserved: list[TaskInfo] = []
        self.fault: PluginError | None = None
        self._known = [job for job in jobs if job.known]
        #: The phases of the jobs before any action, by uid.
        self.phases: dict[str, str] = {job.uid: job.phase for job in self._known}
        self._consequences = consequences
        self._statement = cluster.statement()

    def run(self) -> Generator[None, None, None]:
        """Run all actions; yields wherever others may look on, but nothing may change. Closing it early is no harm."""
        try:
            yield from self._run_all()
        finally:
            self._close()

    def _run_all(self) -> Generator[None, None, None]:
        for job in self._known:
            job.fit_errors.clear()
            job.places.clear()
            job.message = "" if job.queue in self.queues else f"there is no queue {job.queue!r}"
        self.core.begin()
        self._consequences.mend(self)
        yield
        yield from self.plugins.open(partial(self.log.spent, "open"))
        self._note_queues()
        for action in self.actions:
            with closing(self._run(action)) as steps:
                yield from self.log.acting(action.name, steps)
            yield
        yield from self._conclude()

    def _conclude(self) -> Iterator[None]:
        """Let the plugins look at what came of it, and the engine account for it."""
        self.plugins.close(partial(self.log.spent, "close"))
        for task in (*self.promised, *self.reserved):
            task.job.places[task.uid] = Place(task.status, task.node_name)
        yield from self._consequences.account(self)

    def _note_queues(self) -> None:
        """Note how the queues stand: in the order in which they are to be served, those without jobs behind them."""
        asked = {job.queue for job in self.jobs.values()}
        served = sorted((queue for name, queue in self.queues.items() if name in asked), key=self.plugins.queue_key)
        others = sorted((queue for name, queue in self.queues.items() if name not in asked), key=lambda one: one.name)
        for queue in (*served, *others):
            self.log.opened(queue, *self.plugins.queue_account(queue))

    def _run(self, action: Runnable) -> Generator[None, None, None]:
        try:
            yield from action.run(self)
        except PluginError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise PluginError(reason, plugin=action.name, hook="run") from error

    def statement(self) -> JobStatement:
        """Open a statement for a job."""
        return JobStatement(self, self._statement.statement())

    # -- what is committed -------------------------------------------------------------------------------------------

    def bind(self, task: TaskInfo) -> None:
        task.job.move(task, TaskStatus.BINDING)
        self.log.bound(task)
        self._consequences.bind(task)

    def send_away(self, task: TaskInfo, reason: str) -> None:
        self.log.evicted(task, reason)
        self._consequences.send_away(task, reason)

    def tell(self, job: JobInfo, reason: str, message: str) -> None:
        """Record a warning about a pod group."""
        self._consequences.tell(job, reason, message)

    def tell_undone(self, tell: Callable[[TaskInfo], object], task: TaskInfo) -> None:
        if self.fault is None:
            try:
                tell(task)
            except PluginError as error:
                self.fault = error

    # -- its account ------------------------------------------------------------------------------------------------

    def note(self, job: JobInfo) -> None:
        """Note how a job is left, if something of it waits or has changed."""
        phase = self.phases.get(job.uid, job.phase)
        if phase != job.phase or job.message or any(job.with_status(status) for status in _UNSETTLED):
            self.log.left(job, phase, job.refused or job.message)

    def account(self, draw: float, failure: str = "") -> SessionAccount:
        """Return the account of what was done; `draw` is its lot, `failure` what ended it early."""
        held: dict[str, Resource] = {}
        for job in self.jobs.values():
            if not job.allocated.empty:
                held.setdefault(job.queue, Resource()).add(job.held)
        return self.log.account(nodes=len(self.nodes), capacity=self.total, held=held, draw=draw, failure=failure)

    # -- the end -----------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        """Take back what was only supposed, and what was left open by whoever raised."""
        statements = self.cluster.statements
        while statements[-1] is not self._statement:
            statements[-1].rollback()
        for task in self.promised:
            self._statement.remove(task.pod)
            _returns(task)
        self._statement.commit()
        for task in self.reserved:
            profile, state = self.core.profile(task), self.core.state(task)
            run_unreserve(profile, state, self.core.pending(task), task.node_name)
            self.cluster.forget(task.uid)
            _returns(task)
        self.idle.close()


def _returns(task: TaskInfo) -> None:
    task.job.move(task, TaskStatus.PENDING)
    task.node_name = ""


class TrialSession(Session):
    """A session that takes back all that it did, what was committed too; its `log` tells what that was.

    What sessions leave on jobs for conditions and for the next session is left as it was, the order of tasks included:
    a replay, of which nobody asks what this one was asked, comes to the same.
    """

    def try_out(self) -> None:
        """Run all actions in one piece. PluginError is raised as by any session; nothing stays then either."""
        before = [(job, dict(job.fit_errors), dict(job.places), job.message, job.phase) for job in self._known]
        orders = [(gang, gang.order) for job in self._known for gang in job.gangs]
        try:
            for _ in self.run():
                pass
        finally:
            for job, fit_errors, places, message, phase in before:
                job.fit_errors, job.places, job.message, job.phase = fit_errors, places, message, phase
            for gang, order in orders:
                gang.order = order

    def bind(self, task: TaskInfo) -> None:
        """Note that a task would be bound; it stays allocated, which counts as much."""
        self.log.bound(task)

    def _conclude(self) -> Iterator[None]:
        yield from ()

    def _close(self) -> None:
        statements = self.cluster.statements
        while statements[-1] is not self._statement:
            statements[-1].rollback()
        self._statement.rollback()
        self.idle.close()
