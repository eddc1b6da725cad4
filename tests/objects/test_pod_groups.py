"""Groups, composite groups and workloads keep all their fields."""

from __future__ import annotations

from typing import Any

from kframework.objects.openapi.definitions import definition_of, properties
from kframework.objects.pod_groups import CompositePodGroup, PodGroup, Workload
from tests.objects.conftest import RoundTrip

CONDITION = {
    "type": "PodGroupInitiallyScheduled",
    "status": "True",
    "reason": "Scheduled",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 2,
}
REFERENCE = {"workloadName": "train", "templateName": "workers"}
PRIORITY = {"priorityClassName": "high", "priority": 5, "preemptionPolicy": "Never"}
CONSTRAINTS = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}, **CONSTRAINTS, "disruptionMode": {"all": {}}, **PRIORITY}
GANG["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
GROUPS = {
    "schedulingPolicy": {"gang": {"minGroupCount": 2}},
    **CONSTRAINTS,
    "disruptionMode": {"single": {}},
    **PRIORITY,
}
POD_GROUP: dict[str, Any] = {
    "metadata": {"name": "g", "namespace": "team"},
    "spec": {"parentCompositePodGroupName": "root", "workloadRef": REFERENCE, **GANG},
    "status": {
        "conditions": [CONDITION],
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "g-gpu-x"}],
    },
}
COMPOSITE: dict[str, Any] = {
    "metadata": {"name": "c", "namespace": "team"},
    "spec": {"parentCompositePodGroupName": "root", "workloadRef": REFERENCE, **GROUPS},
    "status": {"conditions": [CONDITION]},
}
TEMPLATE = {"name": "workers", **GANG}
WORKLOAD: dict[str, Any] = {
    "metadata": {"name": "w", "namespace": "team"},
    "spec": {
        "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "train"},
        "podGroupTemplates": [TEMPLATE],
        "compositePodGroupTemplates": [
            {
                "name": "root",
                **GROUPS,
                "podGroupTemplates": [TEMPLATE],
                "compositePodGroupTemplates": [{"name": "inner", **GROUPS}],
            }
        ],
    },
}


def test_groups_and_workloads_keep_their_fields(round_trip: RoundTrip) -> None:
    assert round_trip(PodGroup, POD_GROUP).spec.scheduling_policy.gang.min_count == 2
    assert round_trip(CompositePodGroup, COMPOSITE).spec.scheduling_policy.gang.min_group_count == 2
    assert round_trip(Workload, WORKLOAD).spec.composite_pod_group_templates[0].pod_group_templates[0].name == "workers"


def test_chosen_variant_without_fields_is_kept(round_trip: RoundTrip) -> None:
    group = round_trip(PodGroup, {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}}})
    assert group.spec.scheduling_policy.basic is not None and group.spec.scheduling_policy.gang is None


def test_structs_have_all_fields_of_kubernetes() -> None:
    examples = (
        ("scheduling.k8s.io/v1beta1", "PodGroup", POD_GROUP),
        ("scheduling.k8s.io/v1alpha3", "CompositePodGroup", COMPOSITE),
    )
    for api_version, kind, example in examples:
        name = definition_of(api_version, kind)
        assert name is not None
        for part in ("spec", "status"):
            assert set(properties(f"{name}{part.capitalize()}")) == set(example[part])
    name = definition_of("scheduling.k8s.io/v1beta1", "Workload")
    assert name is not None
    assert set(properties(f"{name}Spec")) == set(WORKLOAD["spec"])
    package = name.removesuffix("Workload")
    assert set(properties(f"{package}PodGroupTemplate")) == set(TEMPLATE)
    composite = WORKLOAD["spec"]["compositePodGroupTemplates"][0]
    assert set(properties(f"{package}CompositePodGroupTemplate")) == set(composite)
