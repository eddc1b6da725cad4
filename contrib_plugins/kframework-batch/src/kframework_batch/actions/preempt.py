"""preempt: push tasks out for more important ones of the same queue."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import ClassVar

from pydantic import Field

from kframework.clock import seconds_of
from kframework_batch.action import Action, KeyedQueue, SearchArguments, pending_tasks, starving_jobs
from kframework_batch.actions.victim_selection import (
    EvictableTasks,
    VictimCandidate,
    VictimFilter,
    VictimSelection,
    can_preempt,
)
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.plugin import BatchArguments
from kframework_batch.session import JobStatement, Session
from kframework_batch.task_status import PREEMPTABLE

#: Less than this no priority can be, with the sign the other way round.
_LOWEST = 2**31


class PreemptArguments(SearchArguments):
    """How many nodes are compared; `topologyAwarePreemptWorkerNum` is accepted, but there are no workers."""

    topology_aware: bool = Field(False, alias="enableTopologyAwarePreemption")
    workers: int = Field(16, alias="topologyAwarePreemptWorkerNum")
    percentage: int = Field(10, alias="minCandidateNodesPercentage", ge=0, le=100)
    at_least: int = Field(1, alias="minCandidateNodesAbsolute", ge=0)
    at_most: int = Field(100, alias="maxCandidateNodesAbsolute", ge=1)

    def wanted(self, nodes: int) -> int:
        return min(max(nodes * self.percentage // 100, self.at_least, 1), self.at_most, nodes)


class Preempt(Action):
    """Helps the starving jobs of each queue by preempting other jobs of the queue, then their own tasks.

    A job gets the room that it needs to be ready or nothing. Room without victims counts towards that; a job that
    needs no victim at all is left to `allocate`.
    """

    name: ClassVar[str] = "preempt"
    Arguments: ClassVar[type[BatchArguments]] = PreemptArguments

    arguments: PreemptArguments

    def run(self, session: Session) -> Iterator[None]:
        jobs = yield from starving_jobs(session)
        if not jobs:
            return
        residents = yield from EvictableTasks.from_session(session)
        plugins = session.plugins
        queues = KeyedQueue(plugins.queue_key, (session.queues[name] for name in jobs))
        selection = VictimSelection(session, residents, self.name, plugins.preemptable, plugins.allocatable)
        of_others = partial(self._select_victims, session, selection, _of_other_job)
        while queues:
            queue = queues.pop()
            for job in sorted(jobs[queue.name], key=plugins.job_key):
                yield from selection.serve_job(job, of_others)
            for job in jobs[queue.name]:
                yield from self._within_job(session, selection, job)

    def _within_job(self, session: Session, selection: VictimSelection, job: JobInfo) -> Iterator[None]:
        """Help the tasks of a job at the expense of its less important ones, until one cannot be helped."""
        if not any(job.with_status(status) for status in PREEMPTABLE):
            return
        for task in pending_tasks(session, job):
            if not session.plugins.job_starving(job) or not can_preempt(session, task):
                return
            with session.statement() as statement:
                free = selection.pipeline_without_victims(statement, task)
                if not free and not (
                    yield from self._select_victims(session, selection, _of_same_job, statement, task)
                ):
                    selection.give_up(job, statement, task)
                    return
                if statement.evicted:
                    selection.commit(job, statement)
            yield

    def _select_victims(
        self,
        session: Session,
        selection: VictimSelection,
        may_go: VictimFilter,
        statement: JobStatement,
        task: TaskInfo,
    ) -> Generator[None, None, bool]:
        """Promise a task the room of others on the best node where that is of use; return whether there was one."""
        rows = session.placement.rank_nodes(task)
        if not self.arguments.topology_aware:
            return (yield from selection.make_room(statement, task, rows, may_go))
        # From a row of its own, so that not all preemptors compare the same nodes.
        start = session.random.randrange(len(rows)) if rows else 0
        candidates = selection.candidates(statement, task, rows[start:] + rows[:start], may_go)
        compared: list[VictimCandidate] = []
        wanted = self.arguments.wanted(len(rows))
        for candidate in candidates:
            if candidate is not None:
                compared.append(candidate)
                if len(compared) == wanted:
                    break
            yield
        cheapest_first = sorted(
            compared, key=lambda candidate: (candidate.breaks_gang, *cost(candidate.victims, session.now))
        )
        return any(selection.apply(statement, task, candidate) for candidate in cheapest_first)


def _of_other_job(task: TaskInfo, other: TaskInfo) -> bool:
    job = other.job
    return job is not task.job and job.queue == task.job.queue and _is_worthwhile(task, other)


def _of_same_job(task: TaskInfo, other: TaskInfo) -> bool:
    return other.job is task.job and _is_worthwhile(task, other)


def _is_worthwhile(task: TaskInfo, other: TaskInfo) -> bool:
    """Refuse to let a task go that asks for something, for one that asks for nothing."""
    return other.is_best_effort or not task.is_best_effort


def cost(victims: Sequence[TaskInfo], now: float) -> tuple[int, int, int, float]:
    """Return the cost of victims, as kube-scheduler compares them; `now` replaces a missing start time of a victim.

    The highest of their priorities counts first, then the sum, then their number; then the one of highest priority
    that runs longest: better one that has started late.
    """
    highest = max(victim.pod.priority for victim in victims)
    most_important = (victim.pod for victim in victims if victim.pod.priority == highest)
    started = min(now if pod.start_time is None else seconds_of(pod.start_time) for pod in most_important)
    # Shifted to zero and above, so that a victim more never makes the sum less.
    total = sum(victim.pod.priority + _LOWEST for victim in victims)
    return highest, total, len(victims), -started
