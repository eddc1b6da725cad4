"""conformance: pods that are never victims."""

from __future__ import annotations

from typing import cast

import pytest
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.plugin import BatchArguments
from kframework_batch.plugins.conformance import Conformance
from kframework_batch.session import Session
from kframework_batch.task_status import TaskStatus
from msgspec.structs import replace

from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.testing import make_pod

PLUGIN = Conformance(BatchArguments())


def task(name: str, *, namespace: str = "default", priority_class: str = "") -> TaskInfo:
    pod = make_pod(name, namespace=namespace, node_name="n1")
    pod = replace(pod, spec=replace(pod.spec, priority_class_name=priority_class))
    return TaskInfo(JobInfo(namespace, "job"), PodInfo(pod, TemplateInterner()), pod, TaskStatus.RUNNING)


TASKS = [
    task("plain"),
    task("of the system", namespace="kube-system"),
    task("needed by the cluster", priority_class="system-cluster-critical"),
    task("needed by the node", priority_class="system-node-critical"),
    task("important", priority_class="high"),
]


@pytest.mark.parametrize("hook", [PLUGIN.preemptable, PLUGIN.reclaimable])
def test_critical_pods_are_protected(hook: object) -> None:
    assert callable(hook)
    named = hook(cast("Session", None), task("preemptor"), TASKS)
    assert [each.name for each in named] == ["plain", "important"]
