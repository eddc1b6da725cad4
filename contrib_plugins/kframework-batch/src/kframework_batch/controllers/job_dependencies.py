"""Which tasks of a job have to wait for others of it (`dependsOn`)."""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter

from kframework.objects import Pod
from kframework_batch.controllers.job_members import Members
from kframework_batch.objects import DependsOn, Job, TaskSpec

_NOTHING = DependsOn()


def are_ordered(tasks: Iterable[TaskSpec]) -> bool:
    """Return whether each task depends on tasks that there are, and none on itself by way of others."""
    graph = {task.name: (task.depends_on or _NOTHING).name for task in tasks}
    try:
        return {*TopologicalSorter(graph).static_order()} == graph.keys()
    except CycleError:
        return False


def may_begin(job: Job, task: TaskSpec, members: Members) -> bool:
    """Return whether enough pods run of the tasks that this one depends on: of any, or of all.

    Enough is the minimum of the task. A pod that has succeeded has run.
    """
    depends_on = task.depends_on or _NOTHING
    begun = (_is_under_way(other, members) for other in job.spec.tasks if other.name in depends_on.name)
    return any(begun) if depends_on.iteration == "any" and depends_on.name else all(begun)


def _is_under_way(task: TaskSpec, members: Members) -> bool:
    return sum(map(_has_begun, members.kept[task.name])) >= (task.min_available or 0)


def _has_begun(pod: Pod) -> bool:
    if pod.status.phase == "Running":
        return all(container.ready for container in pod.status.container_statuses)
    return pod.status.phase == "Succeeded"
