"""What clients do with objects."""

from __future__ import annotations

import asyncio

import pytest

from kframework.objects import Namespace, Node, ObjectMeta, Pod
from tests.fake_api.local_api import MERGE, NODES, PODS, STRATEGIC, TABLE, Json, LocalApi, node, pod

START = "2026-01-01T00:00:00Z"


async def test_created_object_is_admitted_and_otherwise_unchanged() -> None:
    api = LocalApi()
    response = await api.send("POST", PODS, pod(labels={"a": "b"}), fieldValidation="Strict")
    assert response.status == 201
    stored = await api.call("GET", f"{PODS}/web")
    metadata, spec = stored["metadata"], stored["spec"]
    assert metadata == {
        "name": "web",
        "namespace": "default",
        "labels": {"a": "b"},
        "uid": api.cluster.read(Pod, "web", "default").metadata.uid,
        "resourceVersion": str(api.cluster.version),
        "creationTimestamp": START,
        "generation": 1,
    }
    (container,) = spec["containers"]
    assert container.items() >= pod()["spec"]["containers"][0].items()
    assert (spec["dnsPolicy"], spec["schedulerName"], stored["status"]) == (
        "Default",
        "default-scheduler",
        {"qosClass": "BestEffort", "phase": "Pending"},
    )


async def test_name_is_generated() -> None:
    api = LocalApi()
    created = await api.call("POST", PODS, pod() | {"metadata": {"generateName": "web-"}})
    assert created["metadata"]["name"].startswith("web-")
    assert len(created["metadata"]["name"]) == len("web-") + 5


async def test_update_replaces_all_but_the_status() -> None:
    api = LocalApi(Node(metadata=ObjectMeta(name="n1")))
    await api.call("PUT", f"{NODES}/n1/status", node(spec={"unschedulable": True}))
    stored = await api.call("GET", f"{NODES}/n1")
    assert stored["status"]["nodeInfo"] == {"kubeletVersion": "v1.36.0"}
    assert "spec" not in stored
    new = node(status={"capacity": {"cpu": "99"}}, spec={"unschedulable": True, "podCIDR": "10.0.0.0/24"})
    updated = await api.call("PUT", f"{NODES}/n1", new)
    assert updated["spec"] == {"unschedulable": True, "podCIDR": "10.0.0.0/24"}
    assert updated["status"] == stored["status"]
    assert api.cluster.read(Node, "n1").status.capacity == {"cpu": "4"}
    assert updated["metadata"]["uid"] == stored["metadata"]["uid"]


async def test_lease_update_needs_the_last_version() -> None:
    api = LocalApi()
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    lease = await api.call("POST", leases, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}})
    renewed = await api.call("PUT", f"{leases}/l", lease | {"spec": {"holderIdentity": "a", "leaseTransitions": 1}})
    assert renewed["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"]
    status, reason, message = await api.call_error("PUT", f"{leases}/l", lease | {"spec": {"holderIdentity": "b"}})
    assert (status, reason) == (409, "Conflict")
    assert message == (
        'Operation cannot be fulfilled on leases.coordination.k8s.io "l": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    unconditional = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "c"}}
    status, reason, message = await api.call_error("PUT", f"{leases}/l", unconditional)
    assert (status, reason) == (422, "Invalid")
    assert message.endswith("metadata.resourceVersion: Invalid value: 0x0: must be specified for an update")


@pytest.mark.parametrize(
    ("content_type", "patch"),
    [
        (MERGE, {"metadata": {"labels": {"a": "b", "old": None}}}),
        (STRATEGIC, {"metadata": {"labels": {"a": "b", "old": None}}}),
        (
            "application/json-patch+json",
            [
                {"op": "add", "path": "/metadata/labels/a", "value": "b"},
                {"op": "remove", "path": "/metadata/labels/old"},
            ],
        ),
    ],
)
async def test_objects_are_patched(content_type: str, patch: object) -> None:
    api = LocalApi()
    await api.call("POST", PODS, pod(labels={"old": "x"}))
    patched = await api.call("PATCH", f"{PODS}/web", patch, content_type=content_type)
    assert patched["metadata"]["labels"] == {"a": "b"}
    assert patched["spec"]["containers"][0]["command"] == ["nginx"]
    assert api.cluster.read(Pod, "web", "default").metadata.labels == {"a": "b"}


async def test_status_is_patched_alone() -> None:
    api = LocalApi()
    await api.call("POST", PODS, pod())
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": START}
    patch = {"status": {"conditions": [condition], "nominatedNodeName": "n1"}, "spec": {"nodeName": "x"}}
    patched = await api.call("PATCH", f"{PODS}/web/status", patch, content_type=STRATEGIC)
    assert patched["status"] == {
        "qosClass": "BestEffort",
        "phase": "Pending",
        "conditions": [condition],
        "nominatedNodeName": "n1",
    }
    assert "nodeName" not in patched["spec"]
    ignored = await api.call("PATCH", f"{PODS}/web", {"status": {"phase": "Failed"}}, content_type=MERGE)
    assert ignored == patched


async def test_unchanged_object_is_not_written() -> None:
    api = LocalApi()
    stored = await api.call("POST", PODS, pod())
    version = api.cluster.version
    assert await api.call("PUT", f"{PODS}/web", stored) == stored
    assert await api.call("PATCH", f"{PODS}/web", {}, content_type=MERGE) == stored
    assert api.cluster.version == version


async def test_change_of_an_unknown_field_is_written() -> None:
    api = LocalApi()
    stored = await api.call("POST", PODS, pod())
    async with api.watching(PODS, resourceVersion=stored["metadata"]["resourceVersion"]) as events:
        patched = await api.call("PATCH", f"{PODS}/web", {"spec": {"activeDeadlineSeconds": 9}}, content_type=MERGE)
        event = await events.next()
    assert patched["spec"]["activeDeadlineSeconds"] == 9
    assert patched["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]
    assert event == {"type": "MODIFIED", "object": patched}


async def test_update_checks_its_preconditions() -> None:
    api = LocalApi()
    stored = await api.call("POST", PODS, pod())
    other = {"metadata": {"name": "web", "uid": "other"}}
    status, reason, message = await api.call_error("PUT", f"{PODS}/web", stored | other)
    uid = stored["metadata"]["uid"]
    assert (status, reason) == (409, "Conflict")
    assert message.endswith(f"Precondition failed: UID in precondition: other, UID in object meta: {uid}")
    status, reason, message = await api.call_error("PATCH", f"{PODS}/web", other, content_type=MERGE)
    assert (status, reason) == (422, "Invalid")
    assert message == 'Pod "web" is invalid: metadata.uid: Invalid value: "other": field is immutable'
    old = {"metadata": {"resourceVersion": "1"}}
    assert (await api.call_error("PATCH", f"{PODS}/web", old, content_type=MERGE))[:2] == (409, "Conflict")


async def test_object_is_deleted_at_once() -> None:
    api = LocalApi(Node(metadata=ObjectMeta(name="n1")))
    stored = await api.call("GET", f"{NODES}/n1")
    answer = await api.call("DELETE", f"{NODES}/n1", {"propagationPolicy": "Background"})
    assert answer == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "n1", "kind": "nodes", "uid": stored["metadata"]["uid"]},
    }
    assert await api.call_error("GET", f"{NODES}/n1") == (404, "NotFound", 'nodes "n1" not found')
    assert await api.call_error("DELETE", f"{NODES}/n1") == (404, "NotFound", 'nodes "n1" not found')


async def test_pod_on_a_node_has_a_grace_period() -> None:
    api = LocalApi()
    await api.call("POST", PODS, pod())
    await api.call("POST", f"{PODS}/web/binding", {"target": {"kind": "Node", "name": "n1"}})
    going = await api.call("DELETE", f"{PODS}/web", {"gracePeriodSeconds": 5})
    assert going["metadata"]["deletionGracePeriodSeconds"] == 5
    assert going["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:05Z"
    deleted = await api.call("DELETE", f"{PODS}/web", gracePeriodSeconds=0)
    assert deleted["metadata"]["resourceVersion"] == str(api.cluster.version)
    assert (await api.call_error("GET", f"{PODS}/web"))[0] == 404


async def test_deletion_checks_its_preconditions() -> None:
    api = LocalApi()
    stored = await api.call("POST", PODS, pod())
    metadata = stored["metadata"]
    for field, value, word in (("uid", "other", "UID"), ("resourceVersion", "1", "ResourceVersion")):
        status, reason, message = await api.call_error("DELETE", f"{PODS}/web", {"preconditions": {field: value}})
        assert (status, reason) == (409, "Conflict")
        expected = f"the {word} in the precondition ({value}) does not match the {word} in record ({metadata[field]})"
        assert message.startswith(f'Operation cannot be fulfilled on Pod "web": {expected}. The object might have been')
    right = {"preconditions": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}}
    await api.call("DELETE", f"{PODS}/web", right)


async def test_selected_objects_are_deleted_together() -> None:
    api = LocalApi()
    for name in "abc":
        await api.call("POST", PODS, pod(name, labels={"app": "x" if name != "b" else "y"}))
    dry = await api.call("DELETE", PODS, labelSelector="app=x", dryRun="All")
    deleted = await api.call("DELETE", PODS, labelSelector="app=x")
    assert (
        [each["metadata"]["name"] for each in deleted["items"]]
        == ["a", "c"]
        == [each["metadata"]["name"] for each in dry["items"]]
    )
    assert [each.metadata.name for each in api.cluster.objects(Pod)] == ["b"]


async def test_namespace_is_deleted_with_its_contents() -> None:
    api = LocalApi(Namespace(metadata=ObjectMeta(name="foo")))
    await api.call("POST", "/api/v1/namespaces/foo/pods", pod())
    await api.call("POST", "/api/v1/namespaces/foo/pods/web/binding", {"target": {"name": "n1"}})
    await api.call("POST", PODS, pod())
    await api.call("DELETE", "/api/v1/namespaces/foo")
    assert [each.metadata.namespace for each in api.cluster.objects(Pod)] == ["default"]
    assert (await api.call_error("GET", "/api/v1/namespaces/foo"))[0] == 404


async def test_dry_runs_write_nothing() -> None:
    api = LocalApi(Node(metadata=ObjectMeta(name="n1")))
    stored = await api.call("POST", PODS, pod("there"))
    version = api.cluster.version
    created = await api.call("POST", PODS, pod(), dryRun="All")
    assert (created["metadata"]["name"], created["status"]) == ("web", {"qosClass": "BestEffort", "phase": "Pending"})
    assert "resourceVersion" not in created["metadata"]
    patch = {"metadata": {"labels": {"a": "b"}}}
    patched = await api.call("PATCH", f"{PODS}/there", patch, content_type=MERGE, dryRun="All")
    assert patched["metadata"] == stored["metadata"] | {"labels": {"a": "b"}}
    assert (await api.call("DELETE", f"{PODS}/there", dryRun="All")) == stored
    assert (await api.call("DELETE", f"{PODS}/there", {"dryRun": ["All"]})) == stored
    await api.call("POST", f"{PODS}/there/binding", {"target": {"name": "n1"}}, dryRun="All")
    await api.call("POST", f"{PODS}/there/eviction", {}, dryRun="All")
    assert (await api.call_error("POST", PODS, pod("there"), dryRun="All"))[:2] == (409, "AlreadyExists")
    assert (await api.call_error("POST", PODS, pod(), dryRun="some"))[:2] == (422, "Invalid")
    assert api.cluster.version == version


async def test_object_is_returned_as_a_row() -> None:
    api = LocalApi()
    await api.call("POST", PODS, pod())
    table = await api.call("GET", f"{PODS}/web", accept=TABLE)
    assert (table["kind"], table["rows"][0]["cells"][0]) == ("Table", "web")
    assert table["metadata"] == {"resourceVersion": str(api.cluster.version)}


async def test_events_are_one_store_in_two_versions() -> None:
    api = LocalApi()
    core, newer = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"
    event: Json = {"metadata": {"name": "e"}, "note": "Hello", "regarding": {"kind": "Pod", "name": "web"}}
    await api.call("POST", newer, event | {"apiVersion": "events.k8s.io/v1", "kind": "Event"})
    shown = await api.call("GET", f"{core}/e")
    assert (shown["apiVersion"], shown["message"], shown["involvedObject"]) == ("v1", "Hello", event["regarding"])
    assert len((await api.call("GET", core, fieldSelector="involvedObject.name=web"))["items"]) == 1
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}
    patched = await api.call("PATCH", f"{newer}/e", series, content_type=STRATEGIC)
    assert patched["note"] == "Hello"
    old = {"metadata": {"name": "f"}, "message": "Hi", "count": 3, "source": {"component": "me"}}
    created = await api.call("POST", core, {"apiVersion": "v1", "kind": "Event"} | old)
    assert (created["message"], created["count"]) == ("Hi", 3)
    counted = await api.call("PATCH", f"{core}/f", {"count": 4}, content_type=STRATEGIC)
    assert counted["count"] == 4
    assert (await api.call("GET", f"{newer}/f"))["deprecatedCount"] == 4
    assert await api.call_error("GET", f"{core}/g") == (404, "NotFound", 'events "g" not found')


async def test_watch_reports_writes_of_clients_and_cluster() -> None:
    api = LocalApi()
    async with api.watching(
        PODS, resourceVersion=(await api.call("GET", PODS))["metadata"]["resourceVersion"]
    ) as events:
        created = await api.call("POST", PODS, pod())
        api.cluster.assign("default", "web", "", "n1")
        assert await events.next() == {"type": "ADDED", "object": created}
        bound = await events.next()
        await asyncio.sleep(0)
    assert bound["object"]["spec"] == created["spec"] | {"nodeName": "n1"}
