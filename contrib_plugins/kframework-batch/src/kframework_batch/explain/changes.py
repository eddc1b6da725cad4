"""Changes that may let a job be scheduled, each of which can be tried on the live tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import NamedTuple

import msgspec

from kframework import Statement
from kframework_batch.engine import BatchEngine
from kframework_batch.explain.lookup import job_name
from kframework_batch.job import JobInfo
from kframework_batch.queue import QueueInfo
from kframework_batch.resource import Resource, quantity_of
from kframework_batch.task_status import TaskStatus


class Change(NamedTuple):
    """A change that can be tried.

    Attributes:
        text: What to do.
        supposed: Makes the change as long as the context lasts; nodes and pods are changed in the statement.
        series: Names changes that only differ in size, the smallest first: once one helps, the others need no trial.
    """

    text: str
    supposed: Callable[[Statement], AbstractContextManager[None]]
    series: str = ""


def lower_minimum(job: JobInfo, minimum: int) -> Change:
    """Let the job start with fewer tasks; the minimums of its roles do not count then."""
    text = f"let it start with fewer tasks: minAvailable {minimum} in place of {job.min_available}"
    return Change(text, lambda _: _with_fields(job, min_available=minimum, role_minimums={}))


def raise_weight(queue: QueueInfo, weight: int) -> Change:
    """Give the job's queue a larger weight."""
    text = f"give queue {queue.name} the weight {weight} in place of {queue.weight}"
    return Change(text, lambda _: _with_fields(queue, weight=weight), "weight")


def lift_capability(queue: QueueInfo) -> Change:
    """Let the job's queue hold as much as there is."""
    text = f"let queue {queue.name} hold more than its capability ({_format_amounts(queue.capability)})"
    return Change(text, lambda _: _with_fields(queue, capability=Resource()))


def open_queue(queue: QueueInfo) -> Change:
    """Let the job's queue take jobs in."""
    return Change(f"open queue {queue.name}", lambda _: _with_fields(queue, open=True))


def end_job(job: JobInfo) -> Change:
    """End another job, so that its pods leave."""
    held = {name: amount for name, amount in job.held.items() if amount}
    text = f"end {job_name(job)} of queue {job.queue}, which holds {_format_amounts(held)}"
    return Change(text, partial(_ended, job))


def enlarge_node(engine: BatchEngine, node: str, more: Mapping[str, int]) -> Change:
    """Add resources to one node."""
    return Change(
        f"add {_format_amounts(more)}: it was tried on node {node}", partial(_larger, engine, node, more), "node"
    )


def _format_amounts(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {quantity_of(name, amount)}" for name, amount in amounts.items())


@contextmanager
def _with_fields(thing: object, **fields: object) -> Iterator[None]:
    """Let fields have these values as long as the context lasts."""
    before = {name: getattr(thing, name) for name in fields}
    try:
        for name, value in fields.items():
            setattr(thing, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(thing, name, value)


@contextmanager
def _ended(job: JobInfo, statement: Statement) -> Iterator[None]:
    """Take all tasks of the job off their nodes, and let them have ended."""
    before = [(task, task.status) for task in job.tasks.values()]
    orders = [(gang, gang.order) for gang in job.gangs]
    for task, status in before:
        if task.pod.row >= 0:
            statement.remove(task.pod)
        if status is not TaskStatus.SUCCEEDED:
            job.move(task, TaskStatus.SUCCEEDED)
    try:
        yield
    finally:
        for task, status in before:
            job.move(task, status)
        for gang, order in orders:
            gang.order = order


@contextmanager
def _larger(engine: BatchEngine, name: str, more: Mapping[str, int], statement: Statement) -> Iterator[None]:
    """Let the node offer more; raises KeyError if it is gone."""
    info = engine.cluster.nodes.named(name)
    if info is None:
        raise KeyError(name)
    node = info.object
    allocatable = dict(node.status.allocatable)
    for resource, amount in more.items():
        has = Resource.parse({resource: allocatable.get(resource, "0")})
        allocatable[resource] = quantity_of(resource, has[resource] + amount)
    statement.set_node(
        msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, allocatable=allocatable))
    )
    yield
