"""conformance: protects the pods that the cluster itself needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from kframework_batch.job import TaskInfo
from kframework_batch.plugin import BatchPlugin, hookimpl
from kframework_batch.session_view import SessionView

_CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})
_NAMESPACE = "kube-system"


class Conformance(BatchPlugin):
    """Spares pods of the two critical PriorityClasses, and those of the namespace kube-system."""

    name: ClassVar[str] = "conformance"

    @hookimpl
    def preemptable(self, session: SessionView, preemptor: TaskInfo, tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
        return _non_critical(tasks)

    @hookimpl
    def reclaimable(self, session: SessionView, reclaimer: TaskInfo, tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
        return _non_critical(tasks)


def _non_critical(tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
    return [
        task for task in tasks if task.namespace != _NAMESPACE and task.object.spec.priority_class_name not in _CRITICAL
    ]
