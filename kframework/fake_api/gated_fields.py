"""Fields that exist only with a feature gate: without it, servers drop them from what clients write.

A field that an object has already is kept.
"""

from __future__ import annotations

from functools import partial

from kframework.fake_api.wire.documents import Data
from kframework.in_memory.schema.defaults import change_at
from kframework.in_memory.schema.validation.kinds import WORKLOAD_KINDS
from kframework.objects import KINDS, all_kinds
from kframework.objects.plain_data import entries, mapping, text, value
from kframework.values.feature_gates import FeatureGates

#: Paths of the pod specs of Kubernetes' kinds.
_POD_SPECS = {
    ("v1", "Pod"): ("spec",),
    ("v1", "PodTemplate"): ("template", "spec"),
    ("v1", "ReplicationController"): ("spec", "template", "spec"),
    **{("apps/v1", kind): ("spec", "template", "spec") for kind in WORKLOAD_KINDS},
    ("batch/v1", "Job"): ("spec", "template", "spec"),
    ("batch/v1", "CronJob"): ("spec", "jobTemplate", "spec", "template", "spec"),
}
_JOB_SPECS = {("batch/v1", "Job"): ("spec",), ("batch/v1", "CronJob"): ("spec", "jobTemplate", "spec")}
_GROUPS = "scheduling.k8s.io/"
#: Fields of groups and of their templates.
_GROUP_FIELDS = {
    "compositePodGroupTemplates": "CompositePodGroup",
    "parentCompositePodGroupName": "CompositePodGroup",
    "preemptionPolicy": "PodGroupPreemptionPolicy",
    "resourceClaims": "DRAWorkloadResourceClaims",
    "schedulingConstraints": "TopologyAwareWorkloadScheduling",
}
_TEMPLATES = ("podGroupTemplates", "compositePodGroupTemplates")


def drop_disabled_fields(data: Data, old: Data, gates: FeatureGates) -> Data:
    """Return an object without new fields whose gate is off; `old` is the object before, empty for a new one."""
    kind = str(data["apiVersion"]), str(data["kind"])
    if kind[0].startswith(_GROUPS):
        data = change_at(data, ("spec",), partial(_drop_group_fields, old=mapping(old, "spec"), gates=gates))
        if gates.is_enabled("DRAWorkloadResourceClaims") or entries(old, "spec.resourceClaims"):
            return data
        return _drop(data, old, ("status",), "resourceClaimStatuses")
    if (path := _POD_SPECS.get(kind)) and not gates.is_enabled("GenericWorkload"):
        without = _drop(data, old, path, "schedulingGroup")
        # A plugin may serve pod groups of its own.
        data = data if without is data or _serves_own_groups() else without
    if (path := _JOB_SPECS.get(kind)) and not gates.is_enabled("WorkloadWithJob"):
        data = _drop(data, old, path, "scheduling")
    return data


def _drop(data: Data, old: Data, path: tuple[str, ...], field: str) -> Data:
    where = ".".join((*path, field))
    if value(data, where) is None or value(old, where) is not None:
        return data
    return change_at(data, path, lambda spec: {name: each for name, each in spec.items() if name != field})


def _drop_group_fields(spec: Data, old: Data, gates: FeatureGates) -> Data:
    kept = {
        field: each
        for field, each in spec.items()
        if field in old or field not in _GROUP_FIELDS or gates.is_enabled(_GROUP_FIELDS[field])
    }
    for field in _TEMPLATES:
        if field in kept:
            before = {text(each, "name"): each for each in entries(old, field)}
            kept[field] = [
                _drop_group_fields(each, before.get(text(each, "name"), {}), gates) for each in entries(kept, field)
            ]
    return kept


def _serves_own_groups() -> bool:
    declared = (kind for kind in all_kinds() if kind not in KINDS)
    return any(kind.name == "PodGroup" and kind.api_version.startswith(_GROUPS) for kind in declared)
