"""What a session leaves in the status of queues."""

from __future__ import annotations

import pytest
from kframework_batch.job import JobInfo
from kframework_batch.objects import Queue, QueueSpec, QueueStatus
from kframework_batch.phases import queue_status, queue_statuses
from kframework_batch.queue import QueueInfo
from kframework_batch.resource import Resource
from kframework_batch.testing import Stage, make_gang, make_node, make_queue

from kframework.objects import ObjectMeta
from kframework.testing import make_pod


def queue(name: str, parent: str = "", status: QueueStatus | None = None) -> QueueInfo:
    metadata, spec = ObjectMeta(name=name), QueueSpec(parent=parent)
    return QueueInfo(Queue(metadata=metadata, spec=spec, status=status or QueueStatus()))


def job(queue: str, phase: str, **allocated: int) -> JobInfo:
    made = JobInfo("n", f"{queue}-{phase}")
    made.queue, made.phase, made.allocated = queue, phase, Resource(allocated)
    return made


def test_jobs_are_counted_by_phase() -> None:
    phases = ["Pending", "", "Inqueue", "Inqueue", "Running", "Running", "Running", "Unknown", "Completed"]
    status = queue_status(queue("q"), [job("q", phase) for phase in phases], Resource())
    assert status == QueueStatus(
        pending=1, inqueue=2, running=3, unknown=1, completed=1, allocated={"cpu": "0", "memory": "0"}
    )


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 3 << 30, "3Gi"),
        ("memory", 1025, "1025"),
        ("hugepages-2Mi", 2 << 20, "2Mi"),
        ("example.com/gpu", 8, "8"),
    ],
)
def test_amounts_are_written_as_quantities(resource: str, amount: int, text: str) -> None:
    status = queue_status(queue("q"), [], Resource({resource: amount}))
    assert status is not None
    assert status.allocated[resource] == text


@pytest.mark.parametrize(
    ("old", "allocated", "written"),
    [
        (QueueStatus(), Resource(), False),
        (QueueStatus(state="Open", allocated={"cpu": "1", "memory": "0"}), Resource(cpu=1000), False),
        (QueueStatus(allocated={"cpu": "1000m"}), Resource(cpu=1000, memory=0), False),
        (QueueStatus(allocated={"cpu": "2"}), Resource(cpu=1000), True),
        (QueueStatus(allocated={"cpu": "lots"}), Resource(cpu=1000), True),
        (QueueStatus(pending=1), Resource(), True),
        (QueueStatus(allocated={"cpu": "1", "gpu": "1"}), Resource(cpu=1000), True),
    ],
)
def test_unchanged_queue_status_is_not_written(old: QueueStatus, allocated: Resource, written: bool) -> None:
    assert (queue_status(queue("q", status=old), [], allocated) is not None) is written


def test_resource_no_longer_held_is_written_as_zero() -> None:
    status = queue_status(queue("q", status=QueueStatus(allocated={"gpu": "1"})), [], Resource(cpu=1))
    assert status is not None
    assert status.allocated == {"cpu": "1m", "gpu": "0", "memory": "0"}


def test_resources_of_descendants_count_for_ancestors() -> None:
    queues = {name: queue(name, parent) for name, parent in [("root", ""), ("a", ""), ("b", "a"), ("c", "root")]}
    jobs = [job("b", "Running", cpu=1000), job("a", "Inqueue", cpu=200), job("c", "Running", gpu=1)]
    found = queue_statuses(queues, jobs)
    assert {name: status.allocated["cpu"] for name, status in found.items()} == {
        "root": "1200m",
        "a": "1200m",
        "b": "1",
        "c": "0",
    }
    assert found["root"].allocated["gpu"] == "1"
    assert [(name, status.running, status.inqueue) for name, status in found.items()] == [
        ("root", 0, 0),
        ("a", 0, 1),
        ("b", 1, 0),
        ("c", 1, 0),
    ]


def test_queues_without_root_have_no_ancestors() -> None:
    found = queue_statuses({"a": queue("a"), "b": queue("b")}, [job("a", "Running", cpu=1), job("x", "Running", cpu=1)])
    assert found.keys() == {"a"}


def test_queues_in_a_cycle_are_counted_once() -> None:
    found = queue_statuses({"a": queue("a", "b"), "b": queue("b", "a")}, [job("a", "Running", cpu=1000)])
    assert {name: status.allocated["cpu"] for name, status in found.items()} == {"a": "1", "b": "1"}


def test_unknown_parent_ends_the_walk() -> None:
    assert queue_statuses({"a": queue("a", "lost")}, [job("a", "Running", cpu=1000)]).keys() == {"a"}


def test_reserved_resources_do_not_count_as_allocated() -> None:
    leaving = make_pod("leaving", cpu=1, node_name="n", deletion_timestamp="2026-01-01T00:00:00Z")
    stage = Stage(nodes=[make_node("n", cpu=3)], queues=[make_queue("q")], gangs=[make_gang("g", 3, queue="q")])
    stage.put(leaving)
    stage.session()
    queue = stage.objects[Queue, "q"]
    assert isinstance(queue, Queue)
    assert (stage.bound, queue.status.allocated["cpu"]) == ({}, "0")
    stage.delete("leaving")
    stage.session()
    queue = stage.objects[Queue, "q"]
    assert isinstance(queue, Queue)
    assert (len(stage.bound), queue.status.allocated["cpu"]) == (3, "3")
