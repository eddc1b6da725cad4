"""Groups of pods over the API: served with their gates, in two versions, with defaults, rules and columns."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.objects import ObjectMeta, PriorityClass
from tests.fake_api.local_api import MERGE, PODS, TABLE, Json, LocalApi, read

GROUP = "/apis/scheduling.k8s.io"
BETA, ALPHA = (f"{GROUP}/{version}/namespaces/default" for version in ("v1beta1", "v1alpha3"))
GATES = {"GenericWorkload": True}
TREES = {**GATES, "TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True}
GANG: Json = {"schedulingPolicy": {"gang": {"minCount": 2}}}
SCHEDULED = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled", "message": ""}
SCHEDULED |= {"lastTransitionTime": "2026-01-01T00:00:00Z"}


def gang(name: str = "g", **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {**GANG, **spec}}


@pytest.mark.parametrize(
    ("gates", "versions"),
    [
        ({}, {"v1": {"priorityclasses"}}),
        (
            GATES,
            {
                "v1": {"priorityclasses"},
                "v1alpha3": {"podgroups", "podgroups/status", "workloads"},
                "v1beta1": {"podgroups", "podgroups/status", "workloads"},
            },
        ),
        (
            TREES,
            {
                "v1": {"priorityclasses"},
                "v1alpha3": {
                    *("podgroups", "podgroups/status", "workloads"),
                    *("compositepodgroups", "compositepodgroups/status"),
                },
                "v1beta1": {"podgroups", "podgroups/status", "workloads"},
            },
        ),
    ],
)
async def test_versions_and_kinds_are_served_with_their_gates(
    gates: dict[str, bool], versions: dict[str, set[str]]
) -> None:
    api = LocalApi(gates=gates)
    served = (await api.call("GET", GROUP))["versions"]
    declared = {"v1alpha2"}  # by kframework-batch, if another test has imported it
    assert {each["version"] for each in served} - declared == versions.keys()
    for version, names in versions.items():
        resources = (await api.call("GET", f"{GROUP}/{version}"))["resources"]
        assert {each["name"] for each in resources} == names


async def test_groups_are_not_found_without_their_gate() -> None:
    status, reason, _ = await LocalApi().call_error("GET", f"{BETA}/podgroups")
    assert (status, reason) == (404, "NotFound")


async def test_new_group_has_its_defaults_and_no_status() -> None:
    api = LocalApi(PriorityClass(metadata=ObjectMeta(name="high"), value=7), gates=GATES)
    created = await api.call(
        "POST", f"{BETA}/podgroups", gang(priorityClassName="high") | {"status": {"conditions": []}}
    )
    assert created["spec"] == {
        **GANG,
        "disruptionMode": {"single": {}},
        "priority": 7,
        "priorityClassName": "high",
    }
    assert "status" not in created and created["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]


async def test_both_versions_show_the_same_groups() -> None:
    api = LocalApi(gates=GATES)
    await api.call("POST", f"{ALPHA}/podgroups", gang())
    for path, version in ((BETA, "v1beta1"), (ALPHA, "v1alpha3")):
        shown = await api.call("GET", f"{path}/podgroups/g")
        assert shown["apiVersion"] == f"scheduling.k8s.io/{version}"
        assert shown["spec"]["schedulingPolicy"] == GANG["schedulingPolicy"]


async def test_watch_of_groups_receives_changes_in_its_version() -> None:
    api = LocalApi(gates=GATES)
    async with api.watching(f"{ALPHA}/podgroups") as events:
        await api.call("POST", f"{BETA}/podgroups", gang())
        event = await events.next()
    assert (event["type"], event["object"]["apiVersion"]) == ("ADDED", "scheduling.k8s.io/v1alpha3")


async def test_status_is_written_apart_from_the_spec() -> None:
    api, path = LocalApi(gates=GATES), f"{BETA}/podgroups"
    await api.call("POST", path, gang())
    patch = {"status": {"conditions": [SCHEDULED]}, "spec": {"priority": 9}}
    changed = await api.call("PATCH", f"{path}/g/status", patch, content_type=MERGE)
    assert changed["status"]["conditions"] == [SCHEDULED] and changed["spec"]["priority"] == 0
    changed = await api.call("PATCH", f"{path}/g", {"status": {"conditions": []}}, content_type=MERGE)
    assert changed["status"]["conditions"] == [SCHEDULED]


async def test_faulty_group_is_refused_with_all_causes() -> None:
    spec = {"schedulingPolicy": {}, "priority": 2_000_000_000}
    status, reason, message = await LocalApi(gates=GATES).call_error(
        "POST", f"{BETA}/podgroups", {"metadata": {"name": "g"}, "spec": spec}
    )
    assert (status, reason) == (422, "Invalid")
    assert message == (
        'PodGroup.scheduling.k8s.io "g" is invalid: [spec.schedulingPolicy: Invalid value: "": must specify one of:'
        " `basic`, `gang`, spec.priority: Invalid value: 2000000000: must be less than or equal to 1000000000]"
    )


async def test_count_of_a_gang_may_change_and_its_policy_may_not() -> None:
    api, path = LocalApi(gates=GATES), f"{BETA}/podgroups"
    await api.call("POST", path, gang())
    larger = {"spec": {"schedulingPolicy": {"gang": {"minCount": 5}}}}
    changed = await api.call("PATCH", f"{path}/g", larger, content_type=MERGE)
    assert changed["spec"]["schedulingPolicy"]["gang"]["minCount"] == 5
    other: Json = {"spec": {"schedulingPolicy": {"gang": None, "basic": {}}}}
    status, _, message = await api.call_error("PATCH", f"{path}/g", other, content_type=MERGE)
    assert status == 422
    assert message == (
        'PodGroup.scheduling.k8s.io "g" is invalid: [spec.schedulingPolicy.basic: Invalid value: null: field is'
        " immutable, spec.schedulingPolicy.gang: Invalid value: null: field cannot be cleared once set]"
    )


@pytest.mark.parametrize(
    ("plural", "spec"),
    [
        (
            "workloads",
            {
                "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "foo"},
                "podGroupTemplates": [{"name": "pg1", "schedulingPolicy": {"gang": {"minCount": 5}}}],
            },
        ),
        ("podgroups", {**GANG, "workloadRef": {"workloadName": "none", "templateName": "pg1"}}),
    ],
)
async def test_objects_of_groups_are_created_listed_changed_and_deleted(plural: str, spec: Json) -> None:
    """As in Kubernetes' e2e tests; a group may name a Workload that does not exist."""
    api, path = LocalApi(gates=GATES), f"{BETA}/{plural}"
    await api.call("POST", path, {"metadata": {"name": "one", "labels": {"foo": ""}}, "spec": spec})
    found = (await api.call("GET", path))["items"][0]
    assert spec.items() <= found["spec"].items()
    found["metadata"]["labels"]["foo"] = "bar"
    await api.call("PUT", f"{path}/one", found)
    changed = await api.call("PATCH", f"{path}/one", {"metadata": {"labels": {"baz": "qux"}}}, content_type=MERGE)
    assert changed["metadata"]["labels"] == {"foo": "bar", "baz": "qux"}
    await api.call("PATCH", f"{path}/one", {"metadata": {"finalizers": None}}, content_type=MERGE)
    await api.call("DELETE", path)
    assert (await api.call("GET", path))["items"] == []


async def test_tree_of_groups_is_stored_in_the_alpha_version() -> None:
    api = LocalApi(gates=TREES)
    reference = {"workloadName": "w", "templateName": "t"}
    composite = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}, "workloadRef": reference}
    created = await api.call("POST", f"{ALPHA}/compositepodgroups", {"metadata": {"name": "root"}, "spec": composite})
    assert created["spec"] == {**composite, "disruptionMode": {"single": {}}, "priority": 0}
    member = gang(parentCompositePodGroupName="root", workloadRef=reference)
    created = await api.call("POST", f"{BETA}/podgroups", member)
    assert created["spec"]["parentCompositePodGroupName"] == "root"


async def test_group_of_a_pod_cannot_change() -> None:
    api = LocalApi(gates=GATES)
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulingGroup": {"podGroupName": "g"}}
    created = await api.call("POST", PODS, {"metadata": {"name": "web"}, "spec": spec})
    assert created["spec"]["schedulingGroup"] == {"podGroupName": "g"}
    patch = {"spec": {"schedulingGroup": {"podGroupName": "h"}}}
    status, _, message = await api.call_error("PATCH", f"{PODS}/web", patch, content_type=MERGE)
    assert status == 422 and "spec: Forbidden: pod updates may not change fields other than" in message


async def test_pod_names_its_group() -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulingGroup": {}}
    status, _, message = await LocalApi(gates=GATES).call_error(
        "POST", PODS, {"metadata": {"name": "web"}, "spec": spec}
    )
    assert status == 422
    assert 'spec.schedulingGroup: Invalid value: "": must specify one of: `podGroupName`' in message


@pytest.mark.parametrize(
    ("spec", "conditions", "cells"),
    [
        (GANG, [], ["g", "Gang", "<none>", "Pending"]),
        ({"schedulingPolicy": {"basic": {}}}, [SCHEDULED], ["g", "Basic", "<none>", "Scheduled"]),
        (
            {**GANG, "workloadRef": {"workloadName": "w", "templateName": "t"}},
            [{**SCHEDULED, "status": "False"}],
            ["g", "Gang", "w", "Unschedulable"],
        ),
        (
            GANG,
            [SCHEDULED, {**SCHEDULED, "type": "DisruptionTarget", "reason": "PreemptionByScheduler"}],
            ["g", "Gang", "<none>", "PreemptionByScheduler"],
        ),
    ],
)
@pytest.mark.parametrize("path", [ALPHA, BETA])
async def test_kubectl_shows_policy_workload_and_status(
    path: str, spec: Json, conditions: list[Json], cells: list[str]
) -> None:
    api = LocalApi(gates=GATES)
    await api.call("POST", f"{path}/podgroups", {"metadata": {"name": "g"}, "spec": spec})
    await api.call("PATCH", f"{path}/podgroups/g/status", {"status": {"conditions": conditions}}, content_type=MERGE)
    table = read((await api.send("GET", f"{path}/podgroups", accept=TABLE)).body)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Policy", "Workload", "Status", "Age"]
    assert table["rows"][0]["cells"][:-1] == cells


@pytest.mark.parametrize(
    ("spec", "cells"),
    [
        ({"schedulingPolicy": {"gang": {"minGroupCount": 2}}}, ["c", "Gang", "<none>", "w"]),
        ({"schedulingPolicy": {"basic": {}}, "parentCompositePodGroupName": "root"}, ["c", "Basic", "root", "w"]),
    ],
)
async def test_kubectl_shows_policy_parent_and_workload_of_trees(spec: Json, cells: list[str]) -> None:
    api = LocalApi(gates=TREES)
    spec |= {"workloadRef": {"workloadName": "w", "templateName": "t"}}
    await api.call("POST", f"{ALPHA}/compositepodgroups", {"metadata": {"name": "c"}, "spec": spec})
    table = read((await api.send("GET", f"{ALPHA}/compositepodgroups", accept=TABLE)).body)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Policy", "Parent", "Workload", "Age"]
    assert table["rows"][0]["cells"][:-1] == cells
