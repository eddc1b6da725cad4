"""The status of a pod by its object."""

from __future__ import annotations

import pytest
from kframework_batch.task_status import TaskStatus, task_status
from msgspec.structs import replace

from kframework.testing import make_pod


@pytest.mark.parametrize(
    ("phase", "node", "deleted", "status"),
    [
        ("", "", False, TaskStatus.PENDING),
        ("Pending", "", False, TaskStatus.PENDING),
        ("Pending", "a", False, TaskStatus.BOUND),
        ("Pending", "", True, TaskStatus.RELEASING),
        ("Pending", "a", True, TaskStatus.RELEASING),
        ("Running", "a", False, TaskStatus.RUNNING),
        ("Running", "a", True, TaskStatus.RELEASING),
        ("Succeeded", "a", False, TaskStatus.SUCCEEDED),
        ("Succeeded", "a", True, TaskStatus.SUCCEEDED),
        ("Failed", "a", False, TaskStatus.FAILED),
        ("Failed", "", True, TaskStatus.FAILED),
        ("Unknown", "a", False, TaskStatus.UNKNOWN),
        ("Unknown", "a", True, TaskStatus.UNKNOWN),
    ],
)
def test_task_status_follows_from_the_pod(phase: str, node: str, deleted: bool, status: TaskStatus) -> None:
    pod = make_pod(node_name=node, deletion_timestamp="2026-01-01T00:00:00Z" if deleted else None)
    assert task_status(replace(pod, status=replace(pod.status, phase=phase))) is status
