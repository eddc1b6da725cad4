"""Remedies for a job: changes that its turns suggest, each tried in a session that is rolled back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import islice
from typing import NamedTuple

import msgspec
import numpy as np

from kframework import Statement
from kframework.engine import BRIEF
from kframework_batch.account import Turn, TurnOutcome, Victim
from kframework_batch.engine import BatchEngine
from kframework_batch.explain.explanation import VICTIMS, JobRemedy
from kframework_batch.explain.history import job_name
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.resource import Resource, format_amounts, format_quantity
from kframework_batch.task_status import TaskStatus


class TriedChange(NamedTuple):
    """A change that can be tried.

    Attributes:
        text: What to do.
        apply: Makes the change as long as the context lasts; nodes and pods are changed in the statement.
        group: Names changes that only differ in size, the smallest first: once one helps, the others need no trial.
    """

    text: str
    apply: Callable[[Statement], AbstractContextManager[None]]
    group: str = ""


@contextmanager
def _with_fields(thing: object, statement: Statement, **fields: object) -> Iterator[None]:
    before = {name: getattr(thing, name) for name in fields}
    try:
        for name, value in fields.items():
            setattr(thing, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(thing, name, value)


@contextmanager
def _with_job_ended(job: JobInfo, statement: Statement) -> Iterator[None]:
    """Take all tasks of the job off their nodes, as completed."""
    before = [(task, task.status) for task in job.tasks.values()]
    orders = [(gang, gang.order) for gang in job.gangs]
    for task, status in before:
        if task.pod.row >= 0:
            statement.remove(task.pod)
        if status is not TaskStatus.SUCCEEDED:
            job.update_status(task, TaskStatus.SUCCEEDED)
    try:
        yield
    finally:
        for task, status in before:
            job.update_status(task, status)
        for gang, order in orders:
            gang.order = order


@contextmanager
def _with_larger_node(engine: BatchEngine, name: str, more: Mapping[str, int], statement: Statement) -> Iterator[None]:
    """Enlarge the node; raises KeyError if it is gone."""
    info = engine.cluster.nodes.find(name)
    if info is None:
        raise KeyError(name)
    node = info.object
    allocatable = dict(node.status.allocatable)
    for resource, amount in more.items():
        has = Resource.parse({resource: allocatable.get(resource, "0")})
        allocatable[resource] = format_quantity(resource, has[resource] + amount)
    statement.set_node(
        msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, allocatable=allocatable))
    )
    yield


#: The number of changes to try, by the jobs and tasks in a session; none for larger sessions, since the scheduler
#: blocks meanwhile. A session takes some 20 us for each.
_TRIALS = ((500, 24), (2_000, 6))

#: The factors by which the weight of a queue is raised.
_FACTORS = (2, 4, 10)

#: The numbers of other jobs, and of nodes, to try.
_JOBS, _NODES = 6, 2


class SessionTooLarge(Exception):
    """Raised where sessions are too long for one to be tried."""


def remedies(
    engine: BatchEngine, job: JobInfo, turns: Sequence[Turn], task: TaskInfo | None
) -> Iterator[JobRemedy | None]:
    """Try what might help a job, or one of its tasks, whose last turns were these; None for what does not.

    Raises SessionTooLarge.
    """
    size = len(engine.cache.jobs) + len(engine.cache.pending)
    trials = next((trials for most, trials in _TRIALS if size <= most), 0)
    if not trials:
        raise SessionTooLarge
    helped: set[str] = set()
    for change in islice(_changes(engine, job, turns, task), trials):
        if change.group and change.group in helped:
            continue
        with engine.cluster.statement() as statement, change.apply(statement):
            result = _try_session(engine, job, task)
        if result is not None:
            helped.add(change.group)
        yield None if result is None else JobRemedy(change.text, result.victims)


def next_session(engine: BatchEngine, job: JobInfo, task: TaskInfo | None) -> str:
    """Return what the next session does for a job, or one of its tasks, if nothing changes; "" if nothing."""
    result = _try_session(engine, job, task)
    if result is None:
        return ""
    if not result.promised_nodes:
        return "if nothing changes, the next session serves it"
    victims = BRIEF.names([victim.pod for victim in result.victims], VICTIMS)
    how = f"by evicting {victims}" if result.victims else "once terminating pods have gone"
    return f"if nothing changes, it gets room on {BRIEF.names(result.promised_nodes, VICTIMS)} {how}"


class _TrialResult(NamedTuple):
    """What a trial does for a job or a task: nodes that victims or terminating pods must leave first, and victims."""

    promised_nodes: Sequence[str] = ()
    victims: tuple[Victim, ...] = ()


def _try_session(engine: BatchEngine, job: JobInfo, task: TaskInfo | None) -> _TrialResult | None:
    """Try a session; None if a job that waits, or its task, gets no node, and the job is not admitted."""
    trial = engine.trial()
    trial.run_trial()
    turns = trial.build_account(0.0).turns_of(job.uid)
    good = [turn for turn in turns if turn.outcome is TurnOutcome.COMMITTED or _is_promised(turn)]
    placed = [each for turn in good for each in turn.verdicts if each.node and (task is None or each.uid == task.uid)]
    if placed:
        promised = [each.node for each in placed if each.promised]
        victims = tuple(victim for turn in good for victim in turn.victims)
        return _TrialResult(promised if len(promised) == len(placed) else (), victims)
    admitted = any(turn.outcome is TurnOutcome.ADMITTED for turn in turns) and not any(turn.verdicts for turn in turns)
    return _TrialResult() if admitted else None


def _is_promised(turn: Turn) -> bool:
    return turn.outcome is TurnOutcome.KEPT and turn.had >= turn.minimum


def _changes(engine: BatchEngine, job: JobInfo, turns: Sequence[Turn], task: TaskInfo | None) -> Iterator[TriedChange]:
    had = max((turn.had for turn in turns), default=0)
    if 0 < had < job.min_available:
        text = f"set minAvailable to {had}, now {job.min_available}"
        yield TriedChange(text, partial(_with_fields, job, min_available=had, role_minimums={}))
    queue = engine.cache.queues.get(job.queue)
    if queue is not None and not queue.is_open:
        yield TriedChange(f"open queue {queue.name}", partial(_with_fields, queue, is_open=True))
    # Where a plugin holds back the job or its tasks for the queue's sake.
    if queue is not None and any(turn.plugin or any(each.plugin for each in turn.verdicts) for turn in turns):
        if queue.capability:
            text = f"raise the capability of queue {queue.name}, now {format_amounts(queue.capability)}"
            yield TriedChange(text, partial(_with_fields, queue, capability=Resource()))
        for weight in (queue.weight * factor for factor in _FACTORS):
            text = f"raise the weight of queue {queue.name} to {weight}, now {queue.weight}"
            yield TriedChange(text, partial(_with_fields, queue, weight=weight), "weight")
    # That other jobs end: those of least priority first, of equals the youngest.
    holders = [other for other in engine.cache.jobs.values() if other is not job and not other.bound_resources.is_empty]
    holders.sort(key=lambda other: other.created, reverse=True)
    holders.sort(key=lambda other: other.priority)
    for other in holders[:_JOBS]:
        held = format_amounts(other.bound_resources)
        text = f"end {job_name(other)} of queue {other.queue}, which holds {held}"
        yield TriedChange(text, partial(_with_job_ended, other))
    yield from _larger_nodes(engine, _needed_resources(job, turns, task))


def _needed_resources(job: JobInfo, turns: Sequence[Turn], task: TaskInfo | None) -> list[Resource]:
    """Return what a job or a task needs: the minimum to be admitted, or what waiting tasks request; the least first."""
    if job.is_pending and task is None:
        return [job.min_resources or Resource()]
    placed = {verdict.uid for turn in turns for verdict in turn.verdicts if verdict.node}
    pending = job.with_status(TaskStatus.PENDING).items()
    waiting = [each for uid, each in pending if not each.is_gated and uid not in placed]
    if task is not None:
        return [task.request, _total_requests(waiting)]  # other tasks may go first
    had = max((turn.had for turn in turns), default=job.ready_num)
    return [_total_requests(waiting[: max(job.min_available - had, 1)])]


def _total_requests(tasks: Iterable[TaskInfo]) -> Resource:
    total = Resource()
    for task in tasks:
        total.add(task.request)
    return total


def _larger_nodes(engine: BatchEngine, needed: Sequence[Resource]) -> Iterator[TriedChange]:
    """Suggest these resources for the nodes where most of the first is free: what is not free there, then all of it."""
    nodes, least = engine.cluster.nodes, needed[0]
    rows = nodes.order
    if least.is_empty or not len(rows):
        return
    free = {each: nodes.allocatable(each)[rows] - nodes.requested(each)[rows] for each in least}
    covered = np.minimum.reduce([free[each] / amount for each, amount in least.items() if amount > 0])
    for index in np.argsort(-covered, kind="stable")[:_NODES].tolist():
        node = nodes[int(rows[index])].name
        short = least.minus({each: max(int(free[each][index]), 0) for each in least}).positive()
        sizes = [short, *needed]
        for number, more in enumerate(sizes):
            if not more.is_empty and more not in sizes[:number]:
                text = f"add {format_amounts(more)}, as tried on node {node}"
                yield TriedChange(text, partial(_with_larger_node, engine, node, more), "node")
