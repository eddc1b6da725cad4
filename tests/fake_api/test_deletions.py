"""What holds back what a client deletes: finalizers, dependents, and what is left in a namespace."""

from __future__ import annotations

import pytest

from tests.fake_api.local_api import MERGE, PODS, Json, LocalApi, pod, read

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
#: When the clock begins, and nothing here takes time.
NOW = "2026-01-01T00:00:00Z"


def lease_with(**metadata: object) -> Json:
    return {"metadata": {"name": "a"} | metadata, "spec": {"holderIdentity": "me"}}


async def test_object_with_finalizers_stays_until_they_are_removed() -> None:
    api = LocalApi()
    body = lease_with(finalizers=["example.com/a", "example.com/b"])
    await api.call("POST", LEASES, body)
    going = await api.call("DELETE", f"{LEASES}/a")
    assert (going["metadata"]["deletionTimestamp"], going["metadata"]["deletionGracePeriodSeconds"]) == (NOW, 0)
    again = await api.call("DELETE", f"{LEASES}/a")
    assert again == going
    patch = {"metadata": {"finalizers": ["example.com/b"]}}
    left = await api.call("PATCH", f"{LEASES}/a", patch, content_type=MERGE)
    assert left["metadata"]["finalizers"] == ["example.com/b"]
    added = {"metadata": {"finalizers": ["example.com/b", "example.com/c"]}}
    assert (await api.call_error("PATCH", f"{LEASES}/a", added, content_type=MERGE))[2] == (
        'Lease.coordination.k8s.io "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if'
        ' the object is being deleted, found new finalizers []string{"example.com/c"}'
    )
    async with api.watching(LEASES, resourceVersion=api.cluster.version) as events:
        await api.call("PATCH", f"{LEASES}/a", {"metadata": {"finalizers": None}}, content_type=MERGE)
        assert await events.take(2) == ["MODIFIED a", "DELETED a"]
    assert (await api.call_error("GET", f"{LEASES}/a"))[0] == 404


SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


async def test_finalizers_of_absent_controllers_are_ignored() -> None:
    api = LocalApi()
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    metadata = {"name": "a", "finalizers": ["kubernetes.io/pvc-protection"]}
    await api.call("POST", claims, {"metadata": metadata, "spec": SPEC})
    assert (await api.call("DELETE", f"{claims}/a"))["status"] == "Success"


async def test_pod_with_finalizers_has_its_grace_period_first() -> None:
    api = LocalApi()
    created = pod(nodeName="n1")
    created["metadata"]["finalizers"] = ["example.com/a"]
    await api.call("POST", PODS, created)
    assert (await api.call("DELETE", f"{PODS}/web"))["metadata"]["deletionGracePeriodSeconds"] == 30
    ended = await api.call("DELETE", f"{PODS}/web", {"gracePeriodSeconds": 0})
    assert ended["metadata"]["deletionGracePeriodSeconds"] == 0
    await api.call("PATCH", f"{PODS}/web", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert (await api.call_error("GET", f"{PODS}/web"))[0] == 404


@pytest.mark.parametrize(
    ("options", "query", "finalizers"),
    [
        ({"propagationPolicy": "Foreground"}, {}, ["foregroundDeletion"]),
        ({"propagationPolicy": "Orphan"}, {}, ["orphan"]),
        ({"orphanDependents": True}, {}, ["orphan"]),
        (None, {"propagationPolicy": "Foreground"}, ["foregroundDeletion"]),
        (None, {"orphanDependents": "true"}, ["orphan"]),
    ],
)
async def test_propagation_policy_delays_the_deletion_of_the_owner(
    options: Json | None, query: Json, finalizers: list[str]
) -> None:
    api = LocalApi()
    await api.call("POST", LEASES, lease_with())
    going = await api.call("DELETE", f"{LEASES}/a", options, **query)
    assert going["metadata"]["finalizers"] == finalizers


JOBS = "/apis/batch/v1/namespaces/default/jobs"


@pytest.mark.parametrize(
    ("options", "own", "left"),
    [
        ({}, [], ["orphan"]),
        ({}, ["foregroundDeletion"], ["foregroundDeletion"]),
        ({"propagationPolicy": "Background"}, [], None),
        ({"propagationPolicy": "Foreground"}, [], ["foregroundDeletion"]),
    ],
)
async def test_pods_of_a_job_are_orphaned_by_default(options: Json, own: list[str], left: list[str] | None) -> None:
    api = LocalApi()
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}
    await api.call("POST", JOBS, {"metadata": {"name": "a", "finalizers": own}, "spec": {"template": template}})
    going = await api.call("DELETE", f"{JOBS}/a", options)
    assert going["metadata"].get("finalizers") == left


@pytest.mark.parametrize("options", [{"propagationPolicy": "Background"}, {"orphanDependents": False}, {}])
async def test_background_deletion_is_immediate(options: Json) -> None:
    api = LocalApi()
    await api.call("POST", LEASES, lease_with())
    assert (await api.call("DELETE", f"{LEASES}/a", options))["status"] == "Success"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            {"propagationPolicy": "Never"},
            'Unsupported value: "Never": supported values: "Background", "Foreground", "Orphan"',
        ),
        (
            {"propagationPolicy": "Orphan", "orphanDependents": True},
            'Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set',
        ),
    ],
)
async def test_invalid_policies_are_rejected(options: Json, why: str) -> None:
    api = LocalApi()
    await api.call("POST", LEASES, lease_with())
    message = f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: {why}'
    assert await api.call_error("DELETE", f"{LEASES}/a", options) == (422, "Invalid", message)


async def test_namespace_waits_until_it_is_empty() -> None:
    api = LocalApi()
    await api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
    shop = await api.call("GET", "/api/v1/namespaces/shop")
    assert (shop["spec"], shop["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})
    held, free = LEASES.replace("default", "shop"), PODS.replace("default", "shop")
    await api.call("POST", held, lease_with(finalizers=["example.com/a"]))
    await api.call("POST", free, pod())
    going = await api.call("DELETE", "/api/v1/namespaces/shop")
    assert (going["metadata"]["deletionTimestamp"], going["status"]["phase"]) == (NOW, "Terminating")
    assert (await api.call("GET", free))["items"] == []
    response = await api.send("POST", free, pod())
    refused = read(response.body)
    assert (response.status, refused["message"]) == (
        403,
        'pods "web" is forbidden: unable to create new content in namespace shop because it is being terminated',
    )
    assert refused["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace shop is being terminated",
            "field": "metadata.namespace",
        }
    ]
    await api.call("PATCH", f"{held}/a", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert (await api.call_error("GET", "/api/v1/namespaces/shop"))[0] == 404


async def test_watch_shows_a_terminating_namespace() -> None:
    api = LocalApi()
    await api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
    async with api.watching("/api/v1/namespaces", resourceVersion=api.cluster.version) as events:
        await api.call("DELETE", "/api/v1/namespaces/shop")
        assert await events.take(3) == ["MODIFIED shop", "MODIFIED shop", "DELETED shop"]
