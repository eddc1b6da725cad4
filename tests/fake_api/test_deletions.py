"""What holds back what a client deletes: finalizers, dependents, and what is left in a namespace."""

from __future__ import annotations

import pytest

from tests.fake_api.serving import MERGE, PODS, Json, Served, pod, read

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
#: When the clock begins, and nothing here takes time.
NOW = "2026-01-01T00:00:00Z"


def lease_with(**metadata: object) -> Json:
    return {"metadata": {"name": "a"} | metadata, "spec": {"holderIdentity": "me"}}


async def test_object_with_finalizers_stays_until_they_are_removed() -> None:
    served = Served()
    body = lease_with(finalizers=["example.com/a", "example.com/b"])
    await served.ask("POST", LEASES, body)
    going = await served.ask("DELETE", f"{LEASES}/a")
    assert (going["metadata"]["deletionTimestamp"], going["metadata"]["deletionGracePeriodSeconds"]) == (NOW, 0)
    again = await served.ask("DELETE", f"{LEASES}/a")
    assert again == going
    patch = {"metadata": {"finalizers": ["example.com/b"]}}
    left = await served.ask("PATCH", f"{LEASES}/a", patch, content_type=MERGE)
    assert left["metadata"]["finalizers"] == ["example.com/b"]
    added = {"metadata": {"finalizers": ["example.com/b", "example.com/c"]}}
    assert (await served.refused("PATCH", f"{LEASES}/a", added, content_type=MERGE))[2] == (
        'Lease.coordination.k8s.io "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if'
        ' the object is being deleted, found new finalizers []string{"example.com/c"}'
    )
    async with served.watching(LEASES, resourceVersion=served.cluster.version) as events:
        await served.ask("PATCH", f"{LEASES}/a", {"metadata": {"finalizers": None}}, content_type=MERGE)
        assert await events.told(2) == ["MODIFIED a", "DELETED a"]
    assert (await served.refused("GET", f"{LEASES}/a"))[0] == 404


async def test_finalizers_of_absent_controllers_are_ignored() -> None:
    served = Served()
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    metadata = {"name": "a", "finalizers": ["kubernetes.io/pvc-protection"]}
    await served.ask("POST", claims, {"metadata": metadata, "spec": {}})
    assert (await served.ask("DELETE", f"{claims}/a"))["status"] == "Success"


async def test_pod_with_finalizers_has_its_grace_period_first() -> None:
    served = Served()
    created = pod(nodeName="n1")
    created["metadata"]["finalizers"] = ["example.com/a"]
    await served.ask("POST", PODS, created)
    assert (await served.ask("DELETE", f"{PODS}/web"))["metadata"]["deletionGracePeriodSeconds"] == 30
    ended = await served.ask("DELETE", f"{PODS}/web", {"gracePeriodSeconds": 0})
    assert ended["metadata"]["deletionGracePeriodSeconds"] == 0
    await served.ask("PATCH", f"{PODS}/web", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert (await served.refused("GET", f"{PODS}/web"))[0] == 404


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
    served = Served()
    await served.ask("POST", LEASES, lease_with())
    going = await served.ask("DELETE", f"{LEASES}/a", options, **query)
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
    served = Served()
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}
    await served.ask("POST", JOBS, {"metadata": {"name": "a", "finalizers": own}, "spec": {"template": template}})
    going = await served.ask("DELETE", f"{JOBS}/a", options)
    assert going["metadata"].get("finalizers") == left


@pytest.mark.parametrize("options", [{"propagationPolicy": "Background"}, {"orphanDependents": False}, {}])
async def test_background_deletion_is_immediate(options: Json) -> None:
    served = Served()
    await served.ask("POST", LEASES, lease_with())
    assert (await served.ask("DELETE", f"{LEASES}/a", options))["status"] == "Success"


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
    served = Served()
    await served.ask("POST", LEASES, lease_with())
    message = f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: {why}'
    assert await served.refused("DELETE", f"{LEASES}/a", options) == (422, "Invalid", message)


async def test_namespace_waits_until_it_is_empty() -> None:
    served = Served()
    await served.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
    shop = await served.ask("GET", "/api/v1/namespaces/shop")
    assert (shop["spec"], shop["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})
    held, free = LEASES.replace("default", "shop"), PODS.replace("default", "shop")
    await served.ask("POST", held, lease_with(finalizers=["example.com/a"]))
    await served.ask("POST", free, pod())
    going = await served.ask("DELETE", "/api/v1/namespaces/shop")
    assert (going["metadata"]["deletionTimestamp"], going["status"]["phase"]) == (NOW, "Terminating")
    assert (await served.ask("GET", free))["items"] == []
    response = await served.send("POST", free, pod())
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
    await served.ask("PATCH", f"{held}/a", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert (await served.refused("GET", "/api/v1/namespaces/shop"))[0] == 404


async def test_watch_shows_a_terminating_namespace() -> None:
    served = Served()
    await served.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
    async with served.watching("/api/v1/namespaces", resourceVersion=served.cluster.version) as events:
        await served.ask("DELETE", "/api/v1/namespaces/shop")
        assert await events.told(3) == ["MODIFIED shop", "MODIFIED shop", "DELETED shop"]
