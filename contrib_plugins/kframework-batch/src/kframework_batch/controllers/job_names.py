"""What belongs to a job is called after it, labelled with it and owned by it."""

from __future__ import annotations

from kframework.objects import OwnerReference
from kframework_batch.objects import Job, TaskSpec

#: Labels of the pods of a job, by which its Service finds them.
JOB_NAME = "volcano.sh/job-name"
JOB_NAMESPACE = "volcano.sh/job-namespace"


def pod_name(job: Job, task: TaskSpec, index: int) -> str:
    """Name a pod of a task."""
    return f"{job.metadata.name}-{task.name}-{index}"


def owned_by(job: Job) -> tuple[OwnerReference, ...]:
    """Name the job as the owner of something."""
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
