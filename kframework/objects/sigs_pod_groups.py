"""The PodGroup of kubernetes-sigs/scheduler-plugins (scheduling.x-k8s.io), which plugins and other engines share.

It is a kind once this module is imported, by the first distribution that reads such groups.
"""

from __future__ import annotations

from kframework.objects.kinds import PrinterColumn, kind
from kframework.objects.meta import ApiObject, ApiStruct, ResourceList


class SigsPodGroupSpec(ApiStruct, frozen=True, kw_only=True):
    """The minimum of a gang: its pods, what they use together, and how long the first may wait for the last."""

    min_member: int = 0
    min_resources: ResourceList | None = None
    schedule_timeout_seconds: int | None = None


class SigsPodGroupStatus(ApiStruct, frozen=True, kw_only=True):
    """The phase of a gang and the numbers of its pods; `occupied_by` names their owners, with namespaces."""

    phase: str = ""
    occupied_by: str = ""
    scheduled: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    schedule_start_time: str | None = None


def _count(title: str, json_path: str) -> PrinterColumn:
    return PrinterColumn(name=title, type="integer", json_path=json_path)


@kind(
    "scheduling.x-k8s.io/v1alpha1",
    "podgroups",
    name="PodGroup",
    short_names=("pg", "pgs"),
    columns=(
        PrinterColumn(name="Phase", json_path=".status.phase"),
        _count("MinMember", ".spec.minMember"),
        _count("Running", ".status.running"),
        _count("Succeeded", ".status.succeeded"),
        _count("Failed", ".status.failed"),
        PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
    ),
)
class SigsPodGroup(ApiObject, frozen=True, kw_only=True):
    """A gang of pods that name it in the label `scheduling.x-k8s.io/pod-group`."""

    spec: SigsPodGroupSpec = SigsPodGroupSpec()
    status: SigsPodGroupStatus = SigsPodGroupStatus()
