"""Fields whose feature gate is off are dropped from new objects, and kept where an object has them."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api import gated_fields
from kframework.objects import Container, Kind, ObjectMeta, Pod, PodSchedulingGroup, PodSpec
from tests.fake_api.local_api import MERGE, PODS, Json, LocalApi

GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
WORKLOADS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/workloads"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
GROUPED = {"GenericWorkload": True}
TREES = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True}
GANG: Json = {"schedulingPolicy": {"gang": {"minCount": 2}}}
SCHEDULING: Json = {"schedulingPolicy": {"gang": {"minCount": 2}}}


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (PODS, ("spec",)),
        ("/api/v1/namespaces/default/podtemplates", ("template", "spec")),
        ("/apis/apps/v1/namespaces/default/deployments", ("spec", "template", "spec")),
        ("/apis/batch/v1/namespaces/default/cronjobs", ("spec", "jobTemplate", "spec", "template", "spec")),
    ],
)
@pytest.mark.parametrize("is_served", [False, True])
async def test_pod_group_of_pods_is_dropped_unless_pod_groups_are_served(
    path: str, fields: tuple[str, ...], is_served: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = [Kind("PodGroup", "scheduling.k8s.io/v1alpha2", "podgroups", True, Pod)]
    monkeypatch.setattr(gated_fields, "all_kinds", lambda: kinds if is_served else [])
    policy = "Never" if "jobTemplate" in fields else "Always"
    group = {"podGroupName": "g"}
    spec: Json = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": policy, "schedulingGroup": group}
    for field in reversed(fields):
        spec = {field: spec, "metadata": {"labels": {"a": "b"}}}
    spec["metadata"] |= {"name": "a"}
    if "spec" in spec:
        spec["spec"] |= {"schedule": "@daily"} if "jobTemplate" in fields else {}
        spec["spec"] |= {"selector": {"matchLabels": {"a": "b"}}} if "deployments" in path else {}
    created: Any = await LocalApi().call("POST", path, spec)
    for field in fields:
        created = created[field]
    assert created.get("schedulingGroup") == (group if is_served else None)


async def test_pod_keeps_a_group_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gated_fields, "all_kinds", lambda: [])
    container = Container(name="c", image="i")
    spec = PodSpec(containers=(container,), scheduling_group=PodSchedulingGroup(pod_group_name="g"))
    api = LocalApi(Pod(metadata=ObjectMeta(name="web", namespace="default"), spec=spec))
    labelled = await api.call("PATCH", f"{PODS}/web", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert labelled["spec"]["schedulingGroup"] == {"podGroupName": "g"}


@pytest.mark.parametrize("on", [False, True])
@pytest.mark.parametrize(
    ("field", "value", "gates"),
    [
        ("schedulingConstraints", {"topology": [{"key": "rack"}]}, {"TopologyAwareWorkloadScheduling": True}),
        ("resourceClaims", [{"name": "gpu", "resourceClaimName": "c"}], {"DRAWorkloadResourceClaims": True}),
        ("preemptionPolicy", "Never", {"PodGroupPreemptionPolicy": True}),
        ("parentCompositePodGroupName", "root", TREES),
    ],
)
async def test_field_of_a_group_needs_its_gate(field: str, value: Any, gates: dict[str, bool], on: bool) -> None:
    api = LocalApi(gates=GROUPED | gates if on else GROUPED)
    spec = {**GANG, "workloadRef": {"workloadName": "w", "templateName": "t"}, field: value}
    created = await api.call("POST", GROUPS, {"metadata": {"name": "g"}, "spec": spec})
    assert created["spec"].get(field) == (value if on else None)


async def test_claims_in_the_status_of_a_group_need_their_gate() -> None:
    api = LocalApi(gates=GROUPED)
    await api.call("POST", GROUPS, {"metadata": {"name": "g"}, "spec": GANG})
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "g-gpu"}]}
    patched = await api.call("PATCH", f"{GROUPS}/g/status", {"status": status}, content_type=MERGE)
    assert "resourceClaimStatuses" not in patched.get("status", {})


@pytest.mark.parametrize("on", [False, True])
async def test_field_of_a_template_needs_its_gate(on: bool) -> None:
    api = LocalApi(gates=GROUPED | {"PodGroupPreemptionPolicy": on})
    spec = {"podGroupTemplates": [{"name": "a", **GANG, "preemptionPolicy": "Never"}]}
    created = await api.call("POST", WORKLOADS, {"metadata": {"name": "w"}, "spec": spec})
    assert ("preemptionPolicy" in created["spec"]["podGroupTemplates"][0]) is on


async def test_group_keeps_a_field_that_it_has() -> None:
    api = LocalApi(gates=GROUPED | {"PodGroupPreemptionPolicy": True})
    created = await api.call("POST", GROUPS, {"metadata": {"name": "g"}, "spec": {**GANG, "preemptionPolicy": "Never"}})
    old = {**created, "apiVersion": "scheduling.k8s.io/v1beta1"}
    assert gated_fields.drop_disabled_fields(old, old, LocalApi(gates=GROUPED).cluster.feature_gates) == old


@pytest.mark.parametrize("on", [False, True])
async def test_scheduling_of_a_job_needs_its_gate(on: bool) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    api = LocalApi(gates=GROUPED | {"WorkloadWithJob": on})
    created = await api.call(
        "POST", JOBS, {"metadata": {"name": "a"}, "spec": {"template": template, "scheduling": SCHEDULING}}
    )
    assert created["spec"].get("scheduling") == (SCHEDULING if on else None)
