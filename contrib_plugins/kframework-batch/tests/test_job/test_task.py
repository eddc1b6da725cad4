"""What of a pod makes its task."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from kframework_batch.job import JobInfo, TaskInfo, read_flag
from kframework_batch.task_status import TaskStatus
from msgspec.structs import replace

from kframework.objects import ActualResources, ContainerStatus, Pod
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.testing import make_pod


def task(pod: Pod) -> TaskInfo:
    return TaskInfo(JobInfo("default", "j"), PodInfo(pod, TemplateInterner()), pod, TaskStatus.PENDING)


@pytest.mark.parametrize(
    ("annotations", "labels", "role"),
    [
        ({}, {}, ""),
        ({"volcano.sh/task-spec": "worker"}, {}, "worker"),
        ({}, {"volcano.sh/task-spec": "worker"}, "worker"),
        ({"volcano.sh/task-spec": "worker"}, {"volcano.sh/task-spec": "master"}, "worker"),
    ],
)
def test_role_of_a_task_is_in_its_annotation_or_label(
    annotations: Mapping[str, str], labels: Mapping[str, str], role: str
) -> None:
    assert task(make_pod(annotations=annotations, labels=labels)).role == role


@pytest.mark.parametrize(("text", "index"), [(None, None), ("", None), ("3", 3), ("0", 0), ("three", None)])
def test_index_of_a_task_is_in_its_annotation_or_label(text: str | None, index: int | None) -> None:
    labels = {} if text is None else {"volcano.sh/task-index": text}
    assert task(make_pod(labels=labels)).index == index
    assert task(make_pod(annotations=labels)).index == index


@pytest.mark.parametrize(
    ("own", "pods", "priority"),
    [(None, None, 0), (None, 7, 7), ("3", 7, 3), ("0", 7, 0), ("-2", None, -2), ("x", 7, 7)],
)
def test_task_priority_annotation_takes_precedence(own: str | None, pods: int | None, priority: int) -> None:
    annotations = {} if own is None else {"volcano.sh/task-priority": own}
    assert task(make_pod(annotations=annotations, priority=pods)).priority == priority


@pytest.mark.parametrize(
    ("annotation", "label", "yes"),
    [
        (None, None, True),
        ("false", None, False),
        ("true", "false", True),
        (None, "false", False),
        (None, "0", False),
        ("T", None, True),
        ("1", None, True),
        ("perhaps", None, False),
        ("", "true", False),
    ],
)
def test_pod_is_preemptable_by_default(annotation: str | None, label: str | None, yes: bool) -> None:
    key = "volcano.sh/preemptable"
    annotations = {} if annotation is None else {key: annotation}
    labels = {} if label is None else {key: label}
    assert task(make_pod(annotations=annotations, labels=labels)).preemptable is yes
    assert read_flag(annotations, labels, key, default=True) is yes


def test_missing_flag_has_the_default() -> None:
    assert not read_flag({}, {}, "x", default=False)


def test_request_is_what_the_pod_takes_on_a_node() -> None:
    asks = task(make_pod(cpu="1500m", memory="1Ki", requests={"example.com/gpu": 2}))
    assert asks.request == {"cpu": 1500, "memory": 1024, "example.com/gpu": 2}
    assert not asks.is_best_effort
    nothing = task(make_pod(cpu=None, memory=None))
    assert nothing.request == {} and nothing.is_best_effort
    assert task(make_pod(cpu=0, memory="0")).is_best_effort


def test_resized_pod_takes_what_it_has_now() -> None:
    pod = make_pod(cpu=1, memory=None, node_name="a")
    resized = ContainerStatus(
        name="main", resources=ActualResources(requests={"cpu": 3}), allocated_resources={"cpu": 3}
    )
    grown = replace(pod, status=replace(pod.status, container_statuses=(resized,)))
    assert task(grown).request == dict(PodInfo(grown, TemplateInterner()).on_node) == {"cpu": 3000}


def test_task_with_scheduling_gates_is_gated() -> None:
    assert task(make_pod(gates=["wait"])).is_gated
    assert not task(make_pod()).is_gated
