"""conformance: pods that the cluster itself needs are nobody's victims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from kframework_batch.plugin import BatchPlugin, hookimpl

if TYPE_CHECKING:
    from kframework_batch.session import Session
    from kframework_batch.task import TaskInfo

_CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})
_NAMESPACE = "kube-system"


class Conformance(BatchPlugin):
    """Spares pods of the two critical PriorityClasses, and those of the namespace kube-system."""

    name: ClassVar[str] = "conformance"

    @hookimpl
    def preemptable(
        self, session: Session, preemptor: TaskInfo, tasks: Sequence[TaskInfo]
    ) -> Sequence[TaskInfo] | None:
        """Name all others."""
        return _dispensable(tasks)

    @hookimpl
    def reclaimable(
        self, session: Session, reclaimer: TaskInfo, tasks: Sequence[TaskInfo]
    ) -> Sequence[TaskInfo] | None:
        """Name all others."""
        return _dispensable(tasks)

    @hookimpl
    def unified_evictable(
        self, session: Session, evictor: TaskInfo, tasks: Sequence[TaskInfo]
    ) -> Sequence[TaskInfo] | None:
        """Name all others."""
        return _dispensable(tasks)


def _dispensable(tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
    return [
        task for task in tasks if task.namespace != _NAMESPACE and task.object.spec.priority_class_name not in _CRITICAL
    ]
