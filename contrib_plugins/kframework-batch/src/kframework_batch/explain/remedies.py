"""Remedies for a job: changes that its turns suggest, each tried in a session that is rolled back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import islice
from typing import NamedTuple

import msgspec
import numpy as np

from kframework import Statement
from kframework_batch.account import Turn, TurnOutcome, Victim
from kframework_batch.engine import BatchEngine
from kframework_batch.explain.explanation import JobRemedy
from kframework_batch.explain.history import job_name
from kframework_batch.job import JobInfo
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


def remedies(engine: BatchEngine, job: JobInfo, turns: Sequence[Turn]) -> Iterator[JobRemedy | None]:
    """Try what might help a job whose turns in the last session were these; None for what does not. SessionTooLarge."""
    size = len(engine.cache.jobs) + len(engine.cache.pending)
    trials = next((trials for most, trials in _TRIALS if size <= most), 0)
    if not trials:
        raise SessionTooLarge
    helped: set[str] = set()
    for change in islice(_changes(engine, job, turns), trials):
        if change.group and change.group in helped:
            continue
        with engine.cluster.statement() as statement, change.apply(statement):
            victims = _try_session(engine, job)
        if victims is not None:
            helped.add(change.group)
        yield None if victims is None else JobRemedy(change.text, victims)


def will_be_served(engine: BatchEngine, job: JobInfo) -> bool:
    return _try_session(engine, job) is not None


def _try_session(engine: BatchEngine, job: JobInfo) -> tuple[Victim, ...] | None:
    """Try a session; return who would be sent away for a job, None if it would not get what it needs."""
    trial = engine.trial()
    trial.run_trial()
    turns = trial.build_account(0.0).turns_of(job.uid)
    good = [turn for turn in turns if turn.outcome is TurnOutcome.COMMITTED and turn.verdicts]
    admitted = any(turn.outcome is TurnOutcome.ADMITTED for turn in turns) and not any(turn.verdicts for turn in turns)
    if not good and not admitted:
        return None
    return tuple(victim for turn in good for victim in turn.victims)


def _changes(engine: BatchEngine, job: JobInfo, turns: Sequence[Turn]) -> Iterator[TriedChange]:
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
    yield from _larger_nodes(engine, job, turns)


def _larger_nodes(engine: BatchEngine, job: JobInfo, turns: Sequence[Turn]) -> Iterator[TriedChange]:
    """Suggest that there is more of what the tasks lack that had no place, tried where most of it is free."""
    had = max((turn.had for turn in turns), default=job.ready_num)
    placed = {verdict.uid for turn in turns for verdict in turn.verdicts if verdict.node}
    waiting = [
        task for uid, task in job.with_status(TaskStatus.PENDING).items() if not task.is_gated and uid not in placed
    ]
    lacking = Resource()
    for task in waiting[: max(job.min_available - had, 1)]:
        lacking.add(task.request)
    nodes = engine.cluster.nodes
    rows = nodes.order
    if lacking.is_empty or not len(rows):
        return
    free = {each: nodes.allocatable(each)[rows] - nodes.requested(each)[rows] for each in lacking}
    covered = np.minimum.reduce([free[each] / amount for each, amount in lacking.items() if amount > 0])
    for place in np.argsort(-covered, kind="stable")[:_NODES].tolist():
        node, more = nodes[int(rows[place])].name, {each: amount for each, amount in lacking.items() if amount}
        text = f"add {format_amounts(more)}, as tried on node {node}"
        yield TriedChange(text, partial(_with_larger_node, engine, node, more), "node")
