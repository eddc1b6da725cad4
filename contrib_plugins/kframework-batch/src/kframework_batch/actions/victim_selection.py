"""The selection of victims, for `preempt` and `reclaim`: who may be one, who goes first, and how few are enough."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kframework import Code
from kframework_batch.account import TurnOutcome
from kframework_batch.action import pending_tasks
from kframework_batch.combination import Descending
from kframework_batch.hookspecs import Key
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.queue import QueueInfo
from kframework_batch.session import JobStatement, Session
from kframework_batch.task_status import PREEMPTABLE


def in_victim_order(session: Session, tasks: Iterable[TaskInfo], preemptor_queue: QueueInfo) -> list[TaskInfo]:
    """Sort tasks in eviction order.

    The queue counts first, by `victim_queue_order` and else the last to be served; then the job, the last in the
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


def minimal_victims(
    statement: JobStatement, candidates: Sequence[TaskInfo], enough: Callable[[], bool], reason: str
) -> list[TaskInfo] | None:
    """Return the fewest victims that are enough, in eviction order; None if all candidates are not enough.

    Candidates are taken off one after the other until `enough` returns true. Then each one that turns out not to be
    needed is kept, in reverse order: the last one taken may free what makes the earlier ones superfluous.
    """
    with statement.statement() as trial:
        if enough():
            return []
        for count, victim in enumerate(candidates, start=1):
            trial.evict(victim, reason)
            if enough():
                chosen = list(candidates[:count])
                break
        else:
            return None
    # Without the last of them it was not enough.
    for victim in chosen[-2::-1]:
        others = [other for other in chosen if other is not victim]
        with statement.statement() as trial:
            for other in others:
                trial.evict(other, reason)
            if enough():
                chosen = others
    return chosen


class EvictableTasks:
    """The tasks on nodes that do not forbid to be pushed out; pods without a known job are not among them."""

    def __init__(self) -> None:
        self._by_node: dict[str, list[TaskInfo]] = {}

    @classmethod
    def from_session(cls, session: Session) -> Generator[None, None, EvictableTasks]:
        """Look through the jobs of a session; yields after each."""
        residents = cls()
        for job in session.jobs.values():
            for task in job.tasks.values():
                if task.status in PREEMPTABLE and task.preemptable and task.pod.row >= 0:
                    residents._by_node.setdefault(task.node_name, []).append(task)
            yield
        return residents

    def on_node(self, node_name: str) -> list[TaskInfo]:
        """List those on a node who have not been chosen as victims yet."""
        return [task for task in self._by_node.get(node_name, ()) if task.status in PREEMPTABLE]


#: Looks for a node whose pods a task may push out; yields after each node looked at, returns whether there was a way.
SelectVictims = Callable[[JobStatement, TaskInfo], Generator[None, None, bool]]

#: Whether a task may have room at the expense of another one.
VictimFilter = Callable[[TaskInfo, TaskInfo], bool]


#: Why a task that others might make room for gets none.
NO_ROOM = "it would fit no node even without the pods that may be evicted"

#: Why a job that has what it needs gets nothing here.
_NO_VICTIMS = "no victim is needed"

#: The number of nodes to look at when every choice of victims breaks a gang.
_MAX_BREAKING_NODES = 100


class VictimCandidate(NamedTuple):
    """The victims that make a task fit a node, in eviction order; gangs that lose what they need go as a whole."""

    row: int
    victims: list[TaskInfo]
    breaks_gang: bool


class VictimSelection:
    """A search for victims that makes room for the tasks of starving jobs.

    `evictable` returns the victims that the plugins name among tasks, `may_allocate` whether they let a task of a queue
    have room now.
    """

    def __init__(
        self,
        session: Session,
        residents: EvictableTasks,
        reason: str,
        evictable: Callable[[TaskInfo, Sequence[TaskInfo]], list[TaskInfo]],
        may_allocate: Callable[[QueueInfo, TaskInfo], bool],
    ) -> None:
        self._session = session
        self._tasks = residents
        self._reason = reason
        self._evictable = evictable
        self._may_allocate = may_allocate
        #: The kinds of tasks that no eviction helps, until other tasks are evicted.
        self._hopeless: set[Hashable] = set()

    def serve_job(self, job: JobInfo, select_victims: SelectVictims) -> Iterator[None]:
        """Give a starving job enough to be ready, or nothing; yields after each task, and each node looked at.

        Room without victims counts towards that. If it is enough, the job is left to `allocate`.
        """
        yield
        plugins = self._session.plugins
        failed: set[Hashable] = set()
        with self._session.statement() as statement:
            for task in pending_tasks(self._session, job):
                if not plugins.job_starving(job):
                    break
                kind = _task_kind(task)
                if kind in failed or kind in self._hopeless or not can_preempt(self._session, task):
                    continue
                if not self.pipeline_without_victims(statement, task) and not (
                    yield from select_victims(statement, task)
                ):
                    failed.add(kind)
                    self._session.log.log_rejection(task, NO_ROOM)
                    if not statement.pipelined:
                        self._hopeless.add(kind)
                yield
            if not plugins.job_pipelined(job):
                self._log_turn(job, statement, TurnOutcome.DISCARDED)
            elif not statement.evicted:
                self._log_turn(job, statement, TurnOutcome.DISCARDED, _NO_VICTIMS)
            else:
                self.commit(job, statement)

    def give_up(self, job: JobInfo, statement: JobStatement, task: TaskInfo) -> None:
        self._session.log.log_rejection(task, NO_ROOM)
        self._log_turn(job, statement, TurnOutcome.DISCARDED)

    def pipeline_without_victims(self, statement: JobStatement, task: TaskInfo) -> bool:
        if not self._is_allocatable(task):
            return False
        choice = self._session.placement.choose(task)
        return not isinstance(choice, str) and statement.pipeline(task, choice.node) is None

    def make_room(
        self, statement: JobStatement, task: TaskInfo, rows: Iterable[int], may_go: VictimFilter
    ) -> Generator[None, None, bool]:
        """Promise a task the room of others on the first node that works; nodes that break a gang come last."""
        tearing: list[VictimCandidate] = []
        for candidate in self.candidates(statement, task, rows, may_go):
            if candidate is not None and candidate.breaks_gang:
                tearing.append(candidate)
                if len(tearing) == _MAX_BREAKING_NODES:
                    break
            elif candidate is not None and self.apply(statement, task, candidate):
                return True
            yield
        return any(self.apply(statement, task, candidate) for candidate in tearing)

    def candidates(
        self, statement: JobStatement, task: TaskInfo, rows: Iterable[int], may_go: VictimFilter
    ) -> Iterator[VictimCandidate | None]:
        """Look at one node after the other; yields None for a node that does not help."""
        for row in rows:
            victims = self._victims(statement, task, row, may_go)
            if victims is None:
                yield None
                continue
            followers = self._followers(statement, task, victims)
            if followers and not self._would_be_undone(statement, task, victims, followers):
                yield VictimCandidate(row, [*victims, *followers], breaks_gang=True)
            elif not self._would_be_undone(statement, task, victims, ()):
                yield VictimCandidate(row, victims, breaks_gang=bool(followers))
            else:
                yield None

    def apply(self, statement: JobStatement, task: TaskInfo, candidate: VictimCandidate) -> bool:
        with statement.statement() as on_node:
            self._evict(on_node, candidate.victims)
            if on_node.pipeline(task, self._session.nodes[candidate.row].name) is not None:
                return False
            on_node.commit()
        self._session.placement.forget(task)
        return True

    def _victims(
        self, statement: JobStatement, task: TaskInfo, row: int, may_go: VictimFilter
    ) -> list[TaskInfo] | None:
        """Return the victims on a node, None if they do not help.

        Plugins get the tasks in eviction order: what gangs can spare is given away in this order.
        """
        session = self._session
        residents = [other for other in self._tasks.on_node(session.nodes[row].name) if may_go(task, other)]
        # Most of the time no task may be evicted: check that before sorting.
        if not residents or not self._evictable(task, residents):
            return None
        named = self._evictable(task, in_victim_order(session, residents, session.queues[task.job.queue]))
        # Most nodes are out of the question at once: by amounts it would not fit if they all went.
        room = session.idle.future(row)
        for victim in named:
            room.add(victim.request)
        if not task.request.fits(room):
            return None
        return minimal_victims(statement, named, lambda: self._fits(task, row), self._reason)

    def _followers(self, statement: JobStatement, task: TaskInfo, victims: Sequence[TaskInfo]) -> list[TaskInfo]:
        """List what is left of gangs that cannot run without these victims, on any node.

        This happens only where plugins of a later tier overrule those of the tier that protects gangs.
        """
        plugins = self._session.plugins
        gangs = {victim.job.uid: victim.job for victim in victims if victim.job is not task.job}
        whole = [job for job in gangs.values() if plugins.job_ready(job)]
        with statement.statement() as trial:
            self._evict(trial, victims)
            left = (other for job in whole if not plugins.job_ready(job) for other in job.tasks.values())
            return [other for other in left if other.preemptable and other.status in PREEMPTABLE]

    def _would_be_undone(
        self, statement: JobStatement, task: TaskInfo, victims: Sequence[TaskInfo], followers: Sequence[TaskInfo]
    ) -> bool:
        """Return whether the losers would be served first once they are recreated: then it would never end.

        Losers are jobs that come before the task's in their queue, and queues that come before its own and may have
        room again for one of the victims. Where all plugins vote, none of these is named; but a tier that protects
        only gangs names what they can spare, whatever their queue holds.
        """
        plugins, queues, mine = self._session.plugins, self._session.queues, task.job
        losers = {victim.job.uid: victim.job for victim in victims if victim.job.queue == mine.queue}
        restored: set[str] = set()
        with statement.statement() as trial:
            for victim in victims:
                trial.evict(victim, self._reason)
                if victim.job.queue != mine.queue and plugins.allocatable(queues[victim.job.queue], victim):
                    restored.add(victim.job.queue)
            self._evict(trial, followers)
            job_key, queue_key = plugins.job_key(mine), plugins.queue_key(queues[mine.queue])
            return any(plugins.job_key(job) < job_key for job in losers.values()) or any(
                plugins.queue_key(queues[name]) < queue_key for name in restored
            )

    def _evict(self, statement: JobStatement, victims: Iterable[TaskInfo]) -> None:
        for victim in victims:
            statement.evict(victim, self._reason)

    def _fits(self, task: TaskInfo, row: int) -> bool:
        session = self._session
        if not session.idle.fits_future(task, row) or not self._is_allocatable(task):
            return False
        return session.placement.rejection(task, row) is None

    def _is_allocatable(self, task: TaskInfo) -> bool:
        return self._may_allocate(self._session.queues[task.job.queue], task)

    # -- in the end --------------------------------------------------------------------------------------------------

    def commit(self, job: JobInfo, statement: JobStatement) -> None:
        """Keep what was done for a job, without victims that later ones for other tasks have made superfluous."""
        self._hopeless.clear()
        spare = self._unneeded_victims(statement)
        if not spare:
            self._log_turn(job, statement, TurnOutcome.COMMITTED)
            statement.commit()
            return
        session = self._session
        pipelined = [(task, task.node_name) for task in statement.pipelined]
        victims = [victim for victim, _ in statement.evicted]
        lame = {victim.job.uid for victim in victims if not session.plugins.job_ready(victim.job)}
        statement.discard()
        torn = {
            victim.job.uid for victim in victims if victim.job.uid in lame and session.plugins.job_ready(victim.job)
        }
        for together in _restorable_units(spare, victims, torn):
            others = [victim for victim in victims if victim not in together]
            with session.statement() as trial:
                if self._reapply(trial, others, pipelined):
                    victims = others
        with session.statement() as again:
            if not self._reapply(again, victims, pipelined):
                self._log_turn(job, again, TurnOutcome.DISCARDED)
            elif not victims:
                self._log_turn(job, again, TurnOutcome.DISCARDED, _NO_VICTIMS)
            else:
                self._log_turn(job, again, TurnOutcome.COMMITTED)
                again.commit()

    def _log_turn(self, job: JobInfo, statement: JobStatement, outcome: TurnOutcome, message: str = "") -> None:
        session = self._session
        victims = [victim for victim, _ in statement.evicted]
        session.log.log_turn(
            job, outcome, session.placement.choices, promised=statement.pipelined, victims=victims, message=message
        )

    def _unneeded_victims(self, statement: JobStatement) -> list[TaskInfo]:
        """List the victims that would still fit their node by amounts, those first that would be the last to go."""
        session = self._session
        spare = []
        for victim, _ in statement.evicted:
            row = session.nodes.row(victim.node_name)
            if row is not None and session.idle.fits_future(victim, row):
                spare.append(victim)
        return in_victim_order(session, spare, session.queues[statement.pipelined[0].job.queue])[::-1]

    def _reapply(
        self, statement: JobStatement, victims: Sequence[TaskInfo], pipelined: Sequence[tuple[TaskInfo, str]]
    ) -> bool:
        """Evict victims and promise tasks their places; return whether all of them can have them."""
        nodes = self._session.nodes
        self._evict(statement, victims)
        for task, name in pipelined:
            row = nodes.row(name)
            if row is None or not self._fits(task, row) or statement.pipeline(task, name) is not None:
                return False
        return True


def can_preempt(session: Session, task: TaskInfo) -> bool:
    """Return whether a task may push others out: its policy allows it, and it does not wait already for some to go."""
    if task.object.spec.preemption_policy == "Never":
        return False
    name = task.object.status.nominated_node_name
    node = session.nodes.find(name) if name else None
    if node is None:
        return True
    rejection = session.placement.rejection(task, node.row)
    if rejection is not None and rejection.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return True
    return not any(pod.terminating and pod.disrupted and pod.priority < task.pod.priority for pod in node.pods)


def _task_kind(task: TaskInfo) -> Hashable:
    """Return what a task has in common with those that find victims where it does."""
    job = task.job
    # The annotations are compared, and not read: of most a recording holds no values.
    texts = (frozenset(dict.items(job.annotations)), frozenset(job.labels.items()))
    return (task.pod.template, task.priority, job.queue, job.priority, frozenset(job.allocated.items()), texts)


def _restorable_units(
    spare: Sequence[TaskInfo], victims: Sequence[TaskInfo], torn: Collection[str]
) -> list[list[TaskInfo]]:
    """List who is spared together, or not: of gangs that were torn apart all victims, of others each for itself."""
    units: dict[str, list[TaskInfo]] = {}
    for task in spare:
        if task.job.uid in torn:
            units[task.job.uid] = [victim for victim in victims if victim.job is task.job]
        else:
            units[task.uid] = [task]
    return list(units.values())
