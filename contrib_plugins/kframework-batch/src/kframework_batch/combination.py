"""Combine the answers of all plugins of a session, tier by tier, into one answer.

The rules are Volcano's (session_plugins.go), but for one: when the plugins of a tier agree on no victim, Volcano lets
the next plugin of that tier name victims as if those before it had abstained; here the tier names none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from time import perf_counter_ns
from typing import TypeAlias, TypeVar, cast

from kframework import Code, Status
from kframework_batch.hookspecs import Key
from kframework_batch.hypernodes import Domain
from kframework_batch.job import GangInfo, JobInfo, SubJobInfo, TaskInfo
from kframework_batch.plugin import BatchPlugin, Vote
from kframework_batch.queue import QueueAccount, QueueInfo
from kframework_batch.session_view import SessionView
from kframework_batch.tiers import HookCall, Tiers

R = TypeVar("R")

_Flat: TypeAlias = tuple[HookCall[R], ...]
_Tiered: TypeAlias = tuple[tuple[HookCall[R], ...], ...]

#: Takes note how many nanoseconds a plugin took.
DurationCallback: TypeAlias = Callable[[str, int], None]


class Descending:
    """A key that orders the other way round."""

    __slots__ = ("key",)

    def __init__(self, key: tuple[Key, ...]) -> None:
        self.key: tuple[Key, ...] = key

    def __lt__(self, other: Descending) -> bool:
        return other.key < self.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)


class CombinedPlugins:
    """All plugins of a session as one, a method per hook; `kframework_batch.placement` has predicates and node scores.

    `protected` is called with each plugin whose protection counts and the tasks that it protects.
    """

    def __init__(
        self,
        tiers: Tiers,
        session: SessionView,
        protected: Callable[[str, Iterable[TaskInfo]], None] = lambda plugin, tasks: None,
    ) -> None:
        self.tiers: Tiers = tiers
        self._session = session
        self._protected = protected
        # Asked for every task, so not looked up by name each time.
        self._task_order = tiers.flat("task_order")
        self._pre_predicate = tiers.flat("pre_predicate")
        self._allocatable = tiers.flat("allocatable")
        self._job_ready = tiers.flat("job_ready")
        self._subjob_ready = tiers.flat("subjob_ready")
        self._allocated = tiers.flat("allocated")

    def _notify(self, hook: str, *arguments: object) -> None:
        for call in self.tiers.flat(hook):
            call(self._session, *arguments)

    def _keys(self, hook: str, *arguments: object) -> list[Key]:
        return [call(self._session, *arguments) for call in self.tiers.flat(hook)]

    def open(self, took: DurationCallback = lambda plugin, nanoseconds: None) -> Iterator[None]:
        """Run the open hook of every plugin; yields after each, and where they do."""
        for call in self.tiers.flat("on_session_open"):
            yield from time_steps(call.steps(self._session), partial(took, call.plugin.name))
            yield
            yield

    def close(self, took: DurationCallback = lambda plugin, nanoseconds: None) -> None:
        for call in self.tiers.flat("on_session_close"):
            began = perf_counter_ns()
            call(self._session)
            took(call.plugin.name, perf_counter_ns() - began)

    def wakes_at(self) -> float | None:
        answers = (call(self._session) for call in cast("_Flat[float | None]", self.tiers.flat("wakes_at")))
        return min((moment for moment in answers if moment is not None), default=None)

    def job_key(self, job: JobInfo) -> tuple[Key, ...]:
        return (*self._keys("job_order", job), job.created, job.uid)

    def subjob_key(self, subjob: SubJobInfo) -> tuple[Key, ...]:
        return (*self._keys("subjob_order", subjob), subjob.index, subjob.name)

    def task_key(self, task: TaskInfo) -> tuple[Key, ...]:
        """Return what orders a task among those of its job; tasks without an index come after those with one."""
        session, index = self._session, task.index
        keys = [call(session, task) for call in self._task_order]
        return (*keys, index is None, 0 if index is None else index, task.created, task.uid)

    def queue_key(self, queue: QueueInfo) -> tuple[Key, ...]:
        return (*self._keys("queue_order", queue), queue.created, queue.uid)

    def victim_queue_key(self, queue: QueueInfo, preemptor_queue: QueueInfo) -> tuple[Key, ...]:
        return (*self._keys("victim_queue_order", queue, preemptor_queue), Descending(self.queue_key(queue)))

    def hypernode_score(self, gang: GangInfo, hypernode: Domain) -> float:
        calls = cast("_Flat[float]", self.tiers.flat("hypernode_order"))
        return sum((call(self._session, gang, hypernode) for call in calls), 0.0)

    def job_valid(self, job: JobInfo) -> Status | None:
        return _rejection(self.tiers.flat("job_valid"), self._session, job)

    def pre_predicate(self, task: TaskInfo) -> Status | None:
        return _rejection(self._pre_predicate, self._session, task)

    def preemptable(self, preemptor: TaskInfo, tasks: Sequence[TaskInfo]) -> list[TaskInfo]:
        return self._agreed_victims("preemptable", preemptor, tasks)

    def reclaimable(self, reclaimer: TaskInfo, tasks: Sequence[TaskInfo]) -> list[TaskInfo]:
        return self._agreed_victims("reclaimable", reclaimer, tasks)

    def _agreed_victims(self, hook: str, evictor: TaskInfo, tasks: Sequence[TaskInfo]) -> list[TaskInfo]:
        spared: list[tuple[str, list[TaskInfo]]] = []
        victims: list[TaskInfo] = []
        for tier in cast("_Tiered[Sequence[TaskInfo] | None]", self.tiers.calls(hook)):
            answers = ((call.plugin.name, call(self._session, evictor, tasks)) for call in tier)
            victims, against = _intersect(tasks, answers)
            if victims:
                spared = against  # the answers of earlier tiers do not count
                break
            spared += against
        for plugin, left_out in spared:
            self._protected(plugin, left_out)
        return victims

    def victim_tasks(self, tasks: Sequence[TaskInfo]) -> list[TaskInfo]:
        for tier in cast("_Tiered[Sequence[TaskInfo]]", self.tiers.calls("victim_tasks")):
            named = {task.uid for call in tier for task in call(self._session, tasks)}
            if named:
                return [task for task in tasks if task.uid in named]
        return []

    def overused_by(self, queue: QueueInfo) -> str:
        return next((call.plugin.name for call in self.tiers.flat("overused") if call(self._session, queue)), "")

    def allocatable(self, queue: QueueInfo, task: TaskInfo) -> bool:
        return not self.allocation_rejector(queue, task)

    def allocation_rejector(self, queue: QueueInfo, task: TaskInfo) -> str:
        for call in self._allocatable:  # a loop, like the next: `next` and `all` take a generator for every task
            if not call(self._session, queue, task):
                return call.plugin.name
        return ""

    def preemptive(self, queue: QueueInfo, task: TaskInfo) -> bool:
        return all(call(self._session, queue, task) for call in self.tiers.flat("preemptive"))

    def queue_account(self, queue: QueueInfo) -> tuple[str, QueueAccount | None]:
        """Return a queue's account, with the plugin that keeps it; ("", None) without such a plugin."""
        for call in cast("_Flat[QueueAccount | None]", self.tiers.flat("queue_account")):
            account = call(self._session, queue)
            if account is not None:
                return call.plugin.name, account
        return "", None

    def enqueue_rejector(self, job: JobInfo) -> str:
        return self._rejecting_plugin("job_enqueueable", job)

    def job_enqueued(self, job: JobInfo) -> None:
        self._notify("job_enqueued", job)

    def job_ready(self, job: JobInfo) -> bool:
        for call in self._job_ready:
            if not call(self._session, job):
                return False
        return True

    def job_pipelined(self, job: JobInfo) -> bool:
        return not self._rejecting_plugin("job_pipelined", job)

    def subjob_ready(self, subjob: SubJobInfo) -> bool:
        return all(call(self._session, subjob) for call in self._subjob_ready)

    def subjob_pipelined(self, subjob: SubJobInfo) -> bool:
        return not self._rejecting_plugin("subjob_pipelined", subjob)

    def job_starving(self, job: JobInfo) -> bool:
        return any(all(call(self._session, job) for call in tier) for tier in self.tiers.calls("job_starving")[:1])

    def target_job(self, jobs: Sequence[JobInfo]) -> JobInfo | None:
        chosen = (call(self._session, jobs) for call in cast("_Flat[JobInfo | None]", self.tiers.flat("target_job")))
        return next((job for job in chosen if job is not None), None)

    def reserved_nodes(self) -> None:
        self._notify("reserved_nodes")

    def _rejecting_plugin(self, hook: str, gang: GangInfo) -> str:
        """Count votes: a rejection decides at once, a permission with its tier; "" where nothing is rejected."""
        for tier in cast("_Tiered[Vote]", self.tiers.calls(hook)):
            permitted = False
            for call in tier:
                vote = call(self._session, gang)
                if vote < Vote.ABSTAIN:
                    return call.plugin.name
                permitted = permitted or vote > Vote.ABSTAIN
            if permitted:
                break
        return ""

    def allocated(self, task: TaskInfo) -> Status | None:
        """Notify every plugin that a task got room; if one rejects it, undo the notifications and return its status."""
        session = self._session
        notified: list[BatchPlugin] = []
        for call in self._allocated:
            status = call(session, task)
            if isinstance(status, Status) and status.code is not Code.SUCCESS:
                for undo in self.tiers.flat("deallocated"):
                    if undo.plugin in notified:
                        undo(session, task)
                return status.with_plugin(call.plugin.name)
            notified.append(call.plugin)
        return None

    def deallocated(self, task: TaskInfo) -> None:
        self._notify("deallocated", task)


def time_steps(steps: Iterator[None], took: Callable[[int], None]) -> Iterator[None]:
    """Run these steps, and report how many nanoseconds each took, without what ran between them."""
    while True:
        began = perf_counter_ns()
        try:
            next(steps)
        except StopIteration:
            return
        finally:
            took(perf_counter_ns() - began)
        yield


def _rejection(calls: Iterable[HookCall[object]], *arguments: object) -> Status | None:
    """Return the first status that is no success, with the name of the plugin that gave it."""
    for call in calls:
        status = call(*arguments)
        if isinstance(status, Status) and status.code is not Code.SUCCESS:
            return status.with_plugin(call.plugin.name)
    return None


def _intersect(
    tasks: Sequence[TaskInfo], answers: Iterable[tuple[str, Sequence[TaskInfo] | None]]
) -> tuple[list[TaskInfo], list[tuple[str, list[TaskInfo]]]]:
    """Return the tasks that are in all answers but None, and the rest by the first plugin that left them out.

    The result is empty if all plugins abstain; plugins after an empty intersection are not called.
    """
    left: Sequence[TaskInfo] = tasks
    spared: list[tuple[str, list[TaskInfo]]] = []
    answered = False
    for plugin, named in answers:
        if named is None:
            continue
        answered = True
        uids = {task.uid for task in named}
        left_out = [task for task in left if task.uid not in uids]
        if left_out:
            spared.append((plugin, left_out))
            left = [task for task in left if task.uid in uids]
        if not left:
            break
    return list(left) if answered else [], spared
