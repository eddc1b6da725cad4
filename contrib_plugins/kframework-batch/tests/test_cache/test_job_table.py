"""Jobs, queues and priorities as objects come and go."""

from __future__ import annotations

import logging

import pytest
from kframework_batch.cache import JobCache
from kframework_batch.membership import GroupRef
from kframework_batch.objects import PodGroup, PodGroupSpec, PodGroupStatus, Queue, QueueSpec, QueueStatus
from msgspec.structs import replace

from kframework.objects import ApiObject, Namespace, ObjectMeta, PriorityClass
from kframework.state.cluster import ClusterState

GROUP = PodGroup(metadata=ObjectMeta(namespace="n", name="g"))
QUEUE = Queue(metadata=ObjectMeta(name="q"))
CLASS = PriorityClass(metadata=ObjectMeta(name="high"), value=9)
SPACE = Namespace(metadata=ObjectMeta(name="n"))


@pytest.fixture
def table() -> JobCache:
    return JobCache(ClusterState(), frozenset(), "default")


def newer(obj: ApiObject) -> ApiObject:
    return replace(obj, metadata=replace(obj.metadata, resource_version="2"))


@pytest.mark.parametrize("obj", [GROUP, QUEUE, SPACE])
def test_only_added_changed_and_deleted_objects_count(table: JobCache, obj: ApiObject) -> None:
    labelled = replace(obj, metadata=replace(obj.metadata, labels={"a": "b"}))
    answers = [
        table.apply_upsert(obj),
        table.apply_upsert(newer(obj)),
        table.apply_upsert(labelled),
        table.apply_deletion(obj),
        table.apply_deletion(obj),
    ]
    assert answers == [True, False, True, True, False]


def test_objects_of_all_kinds_are_stored() -> None:
    cluster = ClusterState()
    table = JobCache(cluster, frozenset(), "default")
    for obj in (GROUP, QUEUE, CLASS, SPACE):
        table.apply_upsert(obj)
    assert cluster.objects(PodGroup).get("g", "n") is GROUP
    assert cluster.objects(Queue).get("q") is QUEUE
    table.apply_deletion(GROUP)
    assert len(cluster.objects(PodGroup)) == 0


@pytest.mark.parametrize(
    ("queue", "counts"),
    [
        (replace(QUEUE, spec=QueueSpec(weight=2)), True),
        (replace(QUEUE, metadata=ObjectMeta(name="q", annotations={"a": "b"})), True),
        (replace(QUEUE, metadata=ObjectMeta(name="q", uid="u")), True),
        (replace(QUEUE, status=QueueStatus(state="Closed")), True),
        (replace(QUEUE, status=QueueStatus(state="Open")), False),
        (replace(QUEUE, status=QueueStatus(running=3, allocated={"cpu": "1"})), False),
    ],
)
def test_relevant_fields_of_a_queue(table: JobCache, queue: Queue, counts: bool) -> None:
    table.apply_upsert(QUEUE)
    assert table.apply_upsert(queue) is counts
    assert table.queues["q"].object is queue


def test_invalid_queue_is_ignored_and_logged_once(table: JobCache, caplog: pytest.LogCaptureFixture) -> None:
    odd = replace(QUEUE, spec=QueueSpec(capability={"cpu": "lots"}))
    caplog.set_level(logging.WARNING)
    table.apply_upsert(QUEUE)
    assert table.apply_upsert(odd), "it was there before"
    assert not table.apply_upsert(replace(odd, status=QueueStatus(state="Open")))
    assert table.queues == {}
    assert [record.getMessage() for record in caplog.records] == [
        "ignoring queue 'q': 'lots' is not a quantity: write a number and a suffix, like 500m, 2 or 1.5Gi"
    ]
    assert table.apply_upsert(QUEUE)
    assert table.queues.keys() == {"q"}


def test_deletion_of_invalid_queue_changes_nothing(table: JobCache) -> None:
    odd = replace(QUEUE, spec=QueueSpec(deserved={"cpu": "lots"}))
    assert not table.apply_upsert(odd)
    assert not table.apply_deletion(odd)


def test_job_priority_follows_priority_classes(table: JobCache) -> None:
    table.apply_upsert(replace(GROUP, spec=PodGroupSpec(priority_class_name="high")))
    usual = PriorityClass(metadata=ObjectMeta(name="usual"), value=3, global_default=True)
    answers = []
    seen = []
    for change, obj in [
        (table.apply_upsert, CLASS),
        (table.apply_upsert, newer(CLASS)),
        (table.apply_upsert, usual),
        (table.apply_upsert, replace(CLASS, value=7)),
        (table.apply_deletion, CLASS),
        (table.apply_deletion, usual),
    ]:
        answers.append(change(obj))
        seen.append(table.jobs["n/g"].priority)
    assert answers == [True, False, False, True, True, True]
    assert seen == [9, 9, 9, 7, 3, 0]


def test_unused_priority_class_changes_nothing(table: JobCache) -> None:
    table.apply_upsert(GROUP)
    assert not table.apply_upsert(CLASS)


def test_job_of_a_group_is_created_once(table: JobCache) -> None:
    ref = GroupRef(PodGroup, "n", "g")
    job = table.job(ref)
    assert not job.has_group
    table.apply_upsert(GROUP)
    assert table.job(ref) is job is table.jobs["n/g"] and job.has_group


def test_failed_status_write_restores_the_status(table: JobCache) -> None:
    table.apply_upsert(GROUP)
    table.apply_upsert(QUEUE)
    job, queue = table.jobs["n/g"], table.queues["q"]
    job.status, queue.status = PodGroupStatus(phase="Running"), QueueStatus(running=1)
    table.apply_upsert(newer(QUEUE))
    queue = table.queues["q"]
    assert queue.status == QueueStatus(running=1), "what was written is on its way still"
    table.status_write_failed(GROUP.metadata.uid)
    table.status_write_failed(QUEUE.metadata.uid)
    assert (job.status, queue.status) == (PodGroupStatus(), QueueStatus())


def test_failed_status_write_of_deleted_object_is_ignored(table: JobCache) -> None:
    table.status_write_failed(GROUP.metadata.uid)
    table.status_write_failed(QUEUE.metadata.uid)
    assert (table.jobs, table.queues) == ({}, {})
