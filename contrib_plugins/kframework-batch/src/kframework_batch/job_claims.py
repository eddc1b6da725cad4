"""What jobs count for beside what their tasks hold: the minimum they enter with, and what of it is kept for them."""

from __future__ import annotations

from kframework_batch.job import ALLOCATED, INQUEUE, JobInfo, TaskStatus
from kframework_batch.resource import Resource

#: Volcano's job controller writes a whole quota into `minResources`; these are no resources of nodes.
_QUOTAS = ("requests.", "limits.", "count/")


def minimum(job: JobInfo) -> Resource:
    """Return what a job says it needs before its pods are made; the number of pods is not shared, so it is left out."""
    return Resource(
        (name, amount)
        for name, amount in (job.min_resources or Resource()).items()
        if name != "pods" and not name.startswith(_QUOTAS)
    )


def entering(job: JobInfo) -> Resource:
    """Return what a job claims from the moment that its pods may be made: its minimum, but for pods behind gates."""
    return _ungated(job, minimum(job))


def still_claimed(job: JobInfo) -> Resource:
    """Return the part of a job's minimum that is kept for it and that its tasks do not hold yet.

    What a running job lacks counts only while it has its minimum of tasks: if the driver has ended, executors that are
    not there any more claim nothing.
    """
    if job.phase != INQUEUE and not (job.phase == "Running" and job.count(*ALLOCATED) >= job.min_available):
        return Resource()
    lacking = ((name, amount - job.allocated.get(name, 0)) for name, amount in minimum(job).items())
    return _ungated(job, Resource((name, amount) for name, amount in lacking if amount > 0))


def elastic(job: JobInfo) -> Resource:
    """Return what a job holds beyond its minimum."""
    return job.allocated.minus(minimum(job)).positive()


def _ungated(job: JobInfo, claim: Resource) -> Resource:
    if claim.empty:
        return claim
    gated = Resource()
    for task in job.with_status(TaskStatus.PENDING).values():
        if task.gated:
            gated.add(task.request)
    return Resource((name, max(amount - gated.get(name, 0), 0)) for name, amount in claim.items())
