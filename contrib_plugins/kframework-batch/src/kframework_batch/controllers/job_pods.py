"""The pods of a job: their names, which of them count, which have to go or to wait, and how far they have come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from kframework.objects import ApiObject, OwnerReference, Pod
from kframework_batch.objects import DependsOn, Job, JobStatus, TaskSpec
from kframework_batch.task_status import has_ended

#: Labels of the pods of a job, by which its Service finds them.
JOB_NAME = "volcano.sh/job-name"
JOB_NAMESPACE = "volcano.sh/job-namespace"


def pod_name(job: Job, task: TaskSpec, index: int) -> str:
    return f"{job.metadata.name}-{task.name}-{index}"


def owner_references(job: Job) -> tuple[OwnerReference, ...]:
    return (
        OwnerReference(
            api_version="batch.volcano.sh/v1alpha1",
            kind="Job",
            name=job.metadata.name,
            uid=job.metadata.uid,
            controller=True,
            block_owner_deletion=True,
        ),
    )


_NO_DEPENDENCIES = DependsOn()


def is_acyclic(tasks: Iterable[TaskSpec]) -> bool:
    """Return whether each task depends on tasks that there are, and none on itself by way of others."""
    graph = {task.name: (task.depends_on or _NO_DEPENDENCIES).name for task in tasks}
    try:
        return {*TopologicalSorter(graph).static_order()} == graph.keys()
    except CycleError:
        return False


def dependencies_met(job: Job, task: TaskSpec, members: VolcanoJobPods) -> bool:
    """Return whether enough pods run of the tasks that this one depends on: of any, or of all.

    Enough is the minimum of the task. A pod that has succeeded has run.
    """
    depends_on = task.depends_on or _NO_DEPENDENCIES
    others = (other for other in job.spec.tasks if other.name in depends_on.name)
    begun = (sum(map(_has_started, members.current[other.name])) >= (other.min_available or 0) for other in others)
    return any(begun) if depends_on.iteration == "any" and depends_on.name else all(begun)


def _has_started(pod: Pod) -> bool:
    if pod.status.phase == "Running":
        return all(container.ready for container in pod.status.container_statuses)
    return pod.status.phase == "Succeeded"


#: The annotation with the version of the job that an object was made for; a job gets another one when it is killed.
VERSION = "volcano.sh/job-version"
#: The annotation with the restart by which a pod goes, as the job counts them; Volcano only marks the pod.
RESTARTED_BY = "volcano.sh/controller-out-of-sync"

#: The label with the number of the partition that a pod is in, of a task that has any.
PARTITION = "volcano.sh/partition-id"

#: Phases in which a job ends, each with the one that follows, and those in which it has ended.
ENDING: Mapping[str, str] = {"Aborting": "Aborted", "Completing": "Completed", "Terminating": "Terminated"}
ENDED: frozenset[str] = frozenset({"Aborted", "Completed", "Terminated", "Failed"})


@dataclass(frozen=True)
class PodPhaseCounts:
    """The number of a job's pods in each state; `succeeded_of` counts the succeeded pods by task.

    Pods that have to go, or are being deleted, count as terminating only.
    """

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    succeeded_of: dict[str, int] = field(default_factory=dict)


class VolcanoJobPods:
    """The pods of a job, sorted out.

    While a job is alive, those count that it wants, that were made for it as it is now, and that no restart takes away.
    Once it ends, those count that have ended.
    """

    def __init__(self, job: Job, pods: Iterable[Pod]) -> None:
        phase = job.status.state.phase
        is_over = phase in ENDING or phase in ENDED
        self._tasks = job.spec.tasks
        self._names = {
            task.name: [pod_name(job, task, index) for index in range(task.replicas)] for task in self._tasks
        }
        task_of = {name: task for task, names in self._names.items() for name in names}
        #: Those that count, by task; "" for those that the job does not want any more.
        self.current: dict[str, list[Pod]] = {task.name: [] for task in self._tasks}
        #: Those that have to go.
        self.obsolete: list[Pod] = []
        for pod in pods:
            task = task_of.get(pod.metadata.name, "")
            counts = has_ended(pod) if is_over else task != "" and _is_current(pod, job.status)
            (self.current.setdefault(task, []) if counts else self.obsolete).append(pod)

    def missing(self) -> Iterator[tuple[TaskSpec, int]]:
        """Name the pods that are wanted and not there, by task and index; one whose name is still taken has to wait."""
        taken = {pod.metadata.name for pods in (self.obsolete, *self.current.values()) for pod in pods}
        for task in self._tasks:
            for index, name in enumerate(self._names[task.name]):
                if name not in taken:
                    yield task, index

    def tasks_short_of(self, counts: Callable[[Pod], bool]) -> list[str]:
        return [task.name for task in self._tasks if sum(map(counts, self.current[task.name])) < task.replicas]

    def partitions(self, task: str) -> dict[str, list[Pod]]:
        found: dict[str, list[Pod]] = {}
        for pod in self.current[task]:
            found.setdefault(pod.metadata.labels.get(PARTITION, ""), []).append(pod)
        return found

    @cached_property
    def counts(self) -> PodPhaseCounts:
        counts = dict.fromkeys(("Pending", "Running", "Succeeded", "Failed", "Unknown", "terminating"), 0)
        succeeded_of = dict.fromkeys(self.current, 0)
        counts["terminating"] = len(self.obsolete)
        for task, pods in self.current.items():
            for pod in pods:
                phase = (pod.status.phase or "Pending") if is_staying(pod) else "terminating"
                counts[phase if phase in counts else "Unknown"] += 1
                succeeded_of[task] += phase == "Succeeded"
        return PodPhaseCounts(**{name.lower(): number for name, number in counts.items()}, succeeded_of=succeeded_of)


def is_stale(obj: ApiObject, status: JobStatus) -> bool:
    """Return whether a pod or pod group was made for the job as it was before it was killed."""
    return _number(obj.metadata.annotations.get(VERSION)) < status.version


def _is_current(pod: Pod, status: JobStatus) -> bool:
    """Return whether a pod counts; those that a restart has marked do until the job counts that restart."""
    mark = pod.metadata.annotations.get(RESTARTED_BY)
    restarted = mark is not None and _number(mark) <= status.retry_count
    return not restarted and not is_stale(pod, status)


def is_staying(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdecimal() else 0
