"""What somebody might change so that a job is scheduled, each as something that can be tried on the live tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import msgspec

from kframework import Statement
from kframework_batch.engine import BatchEngine
from kframework_batch.explain.lookup import job_name
from kframework_batch.job import JobInfo
from kframework_batch.queue import QueueInfo
from kframework_batch.resource import Resource, quantity_of
from kframework_batch.task_status import TaskStatus


class Change(Protocol):
    """A change that can be supposed; its text says what to do."""

    @contextmanager
    def supposed(self, statement: Statement) -> Iterator[None]:
        """Let it be so, as long as the context lasts; nodes and pods are changed in the statement."""
        ...


@contextmanager
def _being(thing: object, **fields: object) -> Iterator[None]:
    """Let fields have these values as long as the context lasts."""
    before = {name: getattr(thing, name) for name in fields}
    try:
        for name, value in fields.items():
            setattr(thing, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(thing, name, value)


class SmallerMinimum(msgspec.Struct, frozen=True):
    """The job is content with fewer tasks."""

    job: JobInfo
    minimum: int

    def __str__(self) -> str:
        return f"let it start with fewer tasks: minAvailable {self.minimum} in place of {self.job.min_available}"

    @contextmanager
    def supposed(self, statement: Statement) -> Iterator[None]:
        """Lower the minimum of the job; that of its roles counts no more."""
        with _being(self.job, min_available=self.minimum, role_minimums={}):
            yield


class MoreWeight(msgspec.Struct, frozen=True):
    """The job's queue has a larger weight."""

    queue: QueueInfo
    weight: int

    def __str__(self) -> str:
        return f"give queue {self.queue.name} the weight {self.weight} in place of {self.queue.weight}"

    @contextmanager
    def supposed(self, statement: Statement) -> Iterator[None]:
        """Give the queue its weight."""
        with _being(self.queue, weight=self.weight):
            yield


class NoCapability(msgspec.Struct, frozen=True):
    """The job's queue may hold as much as there is."""

    queue: QueueInfo

    def __str__(self) -> str:
        amounts = ", ".join(f"{name} {quantity_of(name, amount)}" for name, amount in self.queue.capability.items())
        return f"let queue {self.queue.name} hold more than its capability ({amounts})"

    @contextmanager
    def supposed(self, statement: Statement) -> Iterator[None]:
        """Lift what limits the queue."""
        with _being(self.queue, capability=Resource()):
            yield


class OpenQueue(msgspec.Struct, frozen=True):
    """The job's queue takes jobs in."""

    queue: QueueInfo

    def __str__(self) -> str:
        return f"open queue {self.queue.name}"

    @contextmanager
    def supposed(self, statement: Statement) -> Iterator[None]:
        """Open the queue."""
        with _being(self.queue, open=True):
            yield


class WithoutJob(msgspec.Struct, frozen=True):
    """Another job has ended, and its pods have left."""

    job: JobInfo

    def __str__(self) -> str:
        held = ", ".join(f"{name} {quantity_of(name, amount)}" for name, amount in self.job.held.items() if amount)
        return f"end {job_name(self.job)} of queue {self.job.queue}, which holds {held}"

    @contextmanager
    def supposed(self, statement: Statement) -> Iterator[None]:
        """Take all tasks of the job off their nodes, and let them have ended."""
        before = [(task, task.status) for task in self.job.tasks.values()]
        orders = [(gang, gang.order) for gang in self.job.gangs]
        for task, status in before:
            if task.pod.row >= 0:
                statement.remove(task.pod)
            if status is not TaskStatus.SUCCEEDED:
                self.job.move(task, TaskStatus.SUCCEEDED)
        try:
            yield
        finally:
            for task, status in before:
                self.job.move(task, status)
            for gang, order in orders:
                gang.order = order


class LargerNode(msgspec.Struct, frozen=True):
    """There is more of something, on one node."""

    engine: BatchEngine
    node: str
    more: Mapping[str, int]

    def __str__(self) -> str:
        amounts = ", ".join(f"{name} {quantity_of(name, amount)}" for name, amount in self.more.items())
        return f"add {amounts}: it was tried on node {self.node}"

    @contextmanager
    def supposed(self, statement: Statement) -> Iterator[None]:
        """Let the node have more; raises KeyError if it is gone."""
        info = self.engine.cluster.nodes.named(self.node)
        if info is None:
            raise KeyError(self.node)
        node = info.object
        allocatable = dict(node.status.allocatable)
        for name, amount in self.more.items():
            has = Resource.parse({name: allocatable.get(name, "0")})
            allocatable[name] = quantity_of(name, has[name] + amount)
        status = msgspec.structs.replace(node.status, allocatable=allocatable)
        statement.set_node(msgspec.structs.replace(node, status=status))
        yield
