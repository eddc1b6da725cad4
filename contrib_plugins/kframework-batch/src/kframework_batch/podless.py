"""Jobs that have no pods, which a table of pods does not show: why they have none."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.engine import Cluster, MemoryCluster
from kframework.objects import ApiObject, Pod
from kframework_batch.objects import Job, PodGroup


def podless(cluster: Cluster) -> Iterator[str]:
    """Say of each job in a simulation that was refused, or whose group was not let in, why; a line each."""
    assert isinstance(cluster, MemoryCluster)
    with_pods = {uid for pod in cluster.objects(Pod) for uid in _owners(pod)}
    said = {uid: _why(group) for group in cluster.objects(PodGroup) for uid in _owners(group)}
    for job in cluster.objects(Job):
        state, uid = job.status.state, job.metadata.uid
        name = f"job {job.metadata.namespace}/{job.metadata.name}"
        if state.phase == "Failed" and uid not in with_pods:
            yield f"{name} was refused: {state.message}"
        elif state.phase in ("", "Pending") and uid not in with_pods:
            yield f"{name} waits without pods: {said.get(uid) or 'it was not looked at yet'}"


def _owners(obj: ApiObject) -> Iterator[str]:
    return (owner.uid for owner in obj.metadata.owner_references)


def _why(group: PodGroup) -> str:
    """Return what the last session said of a group that cannot run."""
    return next((each.message for each in group.status.conditions if each.type == "Unschedulable"), "")
