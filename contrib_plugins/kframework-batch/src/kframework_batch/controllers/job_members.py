"""The pods of a job: which of them count, which have to go, and how far those that count have come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kframework.cluster.transitions import has_ended
from kframework.objects import ApiObject, Pod
from kframework_batch.controllers.job_admission import pod_name
from kframework_batch.objects import Job, JobStatus, TaskSpec

__all__ = ["RESTARTED_BY", "VERSION", "Members", "Tally", "is_outdated"]

#: The annotation with the version of the job that an object was made for; a job gets another one when it is killed.
VERSION = "volcano.sh/job-version"
#: The annotation with the restart by which a pod goes, as the job counts them; Volcano only says that it goes.
RESTARTED_BY = "volcano.sh/controller-out-of-sync"

#: Phases in which a job ends, and those in which it has ended.
ENDING = {"Aborting": "Aborted", "Completing": "Completed", "Terminating": "Terminated"}
ENDED = frozenset({"Aborted", "Completed", "Terminated", "Failed"})


@dataclass(frozen=True)
class Tally:
    """How many pods of a job stand where; `succeeded_of` counts those that have succeeded by their task."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    succeeded_of: dict[str, int] = field(default_factory=dict)


class Members:
    """The pods of a job, sorted out.

    While a job is alive, those count that it wants, that were made for it as it is now, and that no restart takes away.
    Once it ends, those count that have ended.
    """

    def __init__(self, job: Job, pods: Iterable[Pod]) -> None:
        wanted = {pod_name(job, task, index): task for task in job.spec.tasks for index in range(task.replicas)}
        self._task_of: dict[str, str] = {name: task.name for name, task in wanted.items()}
        self._tasks = job.spec.tasks
        is_over = job.status.state.phase in ENDING or job.status.state.phase in ENDED
        #: Those that count, by name, and those that have to go.
        self.kept: dict[str, Pod] = {}
        self.doomed: list[Pod] = []
        for pod in pods:
            keeps = has_ended(pod) if is_over else pod.metadata.name in wanted and _is_current(pod, job.status)
            if keeps:
                self.kept[pod.metadata.name] = pod
            else:
                self.doomed.append(pod)

    def of(self, task: str) -> list[Pod]:
        """List the pods of a task that count."""
        return [pod for name, pod in self.kept.items() if self._task_of.get(name) == task]

    def missing(self, job: Job) -> Iterator[tuple[TaskSpec, int]]:
        """Name the pods that are wanted and not there, by task and index; whose name is still taken has to wait."""
        taken = self.kept.keys() | {pod.metadata.name for pod in self.doomed}
        for task in self._tasks:
            for index in range(task.replicas):
                if pod_name(job, task, index) not in taken:
                    yield task, index

    def short_of(self) -> list[str]:
        """Name the tasks that have fewer pods than they want, those not counted that are being deleted."""
        return [task.name for task in self._tasks if sum(map(_stays, self.of(task.name))) < task.replicas]

    @property
    def staying(self) -> int:
        """The number of pods that count and are not being deleted."""
        return sum(map(_stays, self.kept.values()))

    def tally(self) -> Tally:
        """Count them all; what has to go counts as terminating."""
        counts = dict.fromkeys(("Pending", "Running", "Succeeded", "Failed", "Unknown"), 0)
        succeeded_of: dict[str, int] = {}
        for name, pod in self.kept.items():
            if not _stays(pod):
                continue
            phase = pod.status.phase or "Pending"
            counts[phase if phase in counts else "Unknown"] += 1
            if phase == "Succeeded" and name in self._task_of:
                task = self._task_of[name]
                succeeded_of[task] = succeeded_of.get(task, 0) + 1
        return Tally(
            pending=counts["Pending"],
            running=counts["Running"],
            succeeded=counts["Succeeded"],
            failed=counts["Failed"],
            unknown=counts["Unknown"],
            terminating=len(self.doomed) + len(self.kept) - self.staying,
            succeeded_of=succeeded_of,
        )


def is_outdated(obj: ApiObject, status: JobStatus) -> bool:
    """Tell whether a pod or pod group was made for the job as it was before it was killed."""
    return _number(obj, VERSION, 0) < status.version


def _is_current(pod: Pod, status: JobStatus) -> bool:
    """Tell whether a pod counts; a restart takes away those that it has marked once the job counts it."""
    return not is_outdated(pod, status) and _number(pod, RESTARTED_BY, status.retry_count + 1) > status.retry_count


def _stays(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None


def _number(obj: ApiObject, key: str, otherwise: int) -> int:
    text = obj.metadata.annotations.get(key, "")
    return int(text) if text.isascii() and text.isdecimal() else otherwise
