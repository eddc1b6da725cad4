"""The PodGroup that pods name by a label, and what its status says of its pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from kframework.objects import Pod
from kframework.objects import SigsPodGroup as PodGroup
from kframework.objects import SigsPodGroupSpec as PodGroupSpec
from kframework.objects import SigsPodGroupStatus as PodGroupStatus

__all__ = ["LABEL", "PodGroup", "PodGroupSpec", "PodGroupStatus", "patch_of", "status_of"]

#: The label that names a pod's group.
LABEL = "scheduling.x-k8s.io/pod-group"

#: The phases that a group keeps, whatever becomes of its pods.
_FINAL = ("Finished", "Failed")


def status_of(group: PodGroup, pods: Sequence[Pod]) -> PodGroupStatus:
    """Return the status of a group with these pods, those that have ended included.

    The phases are those of scheduler-plugins' controller, reached without the steps in between.
    """
    if group.status.phase in _FINAL:
        return group.status
    count = Counter(pod.status.phase for pod in pods)
    numbers = (count["Running"], count["Succeeded"], count["Failed"])
    phase = _phase(max(group.spec.min_member, 1), len(pods), *numbers)
    running, succeeded, failed = numbers
    occupied_by = group.status.occupied_by or ("" if phase == "Pending" else _owners(pods[0]))
    return replace(
        group.status, phase=phase, occupied_by=occupied_by, running=running, succeeded=succeeded, failed=failed
    )


def patch_of(status: PodGroupStatus) -> dict[str, object]:
    """Return the merge patch that writes a status; numbers that are zero replace others."""
    return {
        "phase": status.phase,
        "occupiedBy": status.occupied_by,
        "running": status.running,
        "succeeded": status.succeeded,
        "failed": status.failed,
    }


def _phase(minimum: int, pods: int, running: int, succeeded: int, failed: int) -> str:
    if pods < minimum:
        return "Pending"
    if succeeded >= minimum:
        return "Finished"
    if failed and failed + running + succeeded >= minimum:
        return "Failed"
    return "Running" if running + succeeded >= minimum else "Scheduling"


def _owners(pod: Pod) -> str:
    """Name the owners of a pod, with its namespace."""
    return ",".join(sorted(f"{pod.metadata.namespace}/{owner.name}" for owner in pod.metadata.owner_references))
