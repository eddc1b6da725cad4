"""Every method of Cluster as requests, and what becomes of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kframework.client.cluster import Cluster
from kframework.client.event_record import EventRecord
from kframework.client.kube_cluster import KubeCluster, list_objects
from kframework.client.transport import Request, Response
from kframework.clock import LoopClock, VirtualTimeLoop
from kframework.errors import ClusterError
from kframework.objects import (
    CSINode,
    Lease,
    LeaseSpec,
    Node,
    ObjectMeta,
    PersistentVolume,
    Pod,
    PodCondition,
    StorageClass,
)
from kframework.state.inbox import Message, Upserted
from tests.client.scripted import NO_ANSWER, Answer, Scripted, failed, happened, listed, ok, refused, some
from tests.support.event_records import failed_scheduling

CREATED = Response(201, b'{"kind": "Status", "status": "Success"}')
STRATEGIC = "application/strategic-merge-patch+json"
START = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


def cluster(transport: Scripted, page: int = 500) -> KubeCluster:
    return KubeCluster(transport, LoopClock(asyncio.get_running_loop()), random=Random(0), page=page)


async def sent(call: Callable[[Cluster], Awaitable[object]], *answers: Answer) -> list[tuple[str, str, Any]]:
    """Make a call and return what it sent: method, path and body of each request."""
    transport = Scripted(*answers)
    await call(cluster(transport))
    assert all(request.timeout == 30 for request in transport.requests)
    return [(each.method, each.path, body(each)) for each in transport.requests]


def body(request: Request) -> Any:
    return msgspec.json.decode(request.body) if request.body else None


async def refusal(call: Callable[[Cluster], Awaitable[object]], *answers: Answer) -> ClusterError:
    with pytest.raises(ClusterError) as caught:
        await call(cluster(Scripted(*answers)))
    return caught.value


def bind(client: Cluster) -> Awaitable[None]:
    return client.bind("shop", "web", "web-uid", "n1")


async def test_bind_sends_a_binding() -> None:
    (request,) = await sent(bind, CREATED)
    assert request == (
        "POST",
        "/api/v1/namespaces/shop/pods/web/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": "shop", "name": "web", "uid": "web-uid"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        },
    )


async def test_rejected_or_unanswered_binding_is_an_error() -> None:
    bound = 'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "n2"'
    error = await refusal(bind, refused(409, "Conflict", bound))
    assert (str(error), error.status, error.retryable) == (bound, 409, False)
    error = await refusal(bind, NO_ANSWER)
    assert (error.status, error.retryable) == (0, True)


async def test_deferred_binding_is_retried() -> None:
    transport = Scripted(refused(429, retry_after="3"), CREATED)
    await bind(cluster(transport))
    assert transport.at == [0, 3]


UNSCHEDULABLE = PodCondition(
    type="PodScheduled", status="False", reason="Unschedulable", message="no", observed_generation=2
)


def patch(**fields: Any) -> Callable[[Cluster], Awaitable[None]]:
    return lambda client: client.patch_pod_status("shop", "web", "web-uid", **fields)


def pod_saying(**condition: object) -> Response:
    return ok(
        some("web", 5, namespace="shop", status={"conditions": [{"type": "Ready", "status": "False"}, condition]})
    )


async def test_condition_with_its_time_is_written_at_once() -> None:
    (request,) = await sent(
        patch(condition=replace(UNSCHEDULABLE, last_transition_time="2025-05-05T05:05:05Z")), ok({})
    )
    assert request == (
        "PATCH",
        "/api/v1/namespaces/shop/pods/web/status",
        {
            "metadata": {"uid": "web-uid"},
            "status": {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "no",
                        "lastProbeTime": None,
                        "lastTransitionTime": "2025-05-05T05:05:05Z",
                        "observedGeneration": 2,
                    }
                ]
            },
        },
    )


async def test_status_patches_are_strategic() -> None:
    transport = Scripted(ok({}))
    await patch(nominated_node_name="n1")(cluster(transport))
    assert transport.requests[0].content_type == STRATEGIC


@pytest.mark.parametrize(
    ("there", "since"),
    [
        ({}, START),
        ({"type": "PodScheduled", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}, START),
        (
            {"type": "PodScheduled", "status": "False", "lastTransitionTime": "2025-01-01T00:00:00Z"},
            "2025-01-01T00:00:00Z",
        ),
    ],
)
async def test_condition_without_a_time_gets_it_from_the_pod(there: dict[str, object], since: str) -> None:
    read, write = await sent(patch(condition=UNSCHEDULABLE), pod_saying(**there), ok({}))
    assert read == ("GET", "/api/v1/namespaces/shop/pods/web", None)
    (condition,) = write[2]["status"]["conditions"]
    assert condition["lastTransitionTime"] == since


async def test_unchanged_condition_is_not_written() -> None:
    same = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no",
        "observedGeneration": 1,
    }
    assert len(await sent(patch(condition=UNSCHEDULABLE), pod_saying(**same))) == 1
    _, write = await sent(patch(condition=UNSCHEDULABLE, nominated_node_name="n1"), pod_saying(**same), ok({}))
    assert write[2]["status"] == {"nominatedNodeName": "n1"}


async def test_empty_fields_of_a_condition_are_removed() -> None:
    bare = PodCondition(type="PodScheduled", status="True", last_transition_time=START)
    (request,) = await sent(patch(condition=bare), ok({}))
    (condition,) = request[2]["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == (None, None)
    assert "observedGeneration" not in condition


@pytest.mark.parametrize(("name", "written"), [("n1", "n1"), ("", None)])
async def test_nominated_node_is_patched(name: str, written: str | None) -> None:
    (request,) = await sent(patch(nominated_node_name=name), ok({}))
    assert request[2] == {"metadata": {"uid": "web-uid"}, "status": {"nominatedNodeName": written}}


async def test_empty_patch_is_not_sent() -> None:
    assert await sent(patch()) == []


async def test_status_of_another_pod_of_this_name_is_left_alone() -> None:
    error = await refusal(patch(condition=UNSCHEDULABLE), ok(some("web", 5, uid="other")))
    assert (error.status, error.reason) == (409, "Conflict")


async def test_another_uid_is_a_conflict_to_the_caller_though_an_invalid_patch_to_the_server() -> None:
    why = 'Pod "web" is invalid: metadata.uid: Invalid value: "web-uid": field is immutable'
    error = await refusal(patch(nominated_node_name="n1"), refused(422, "Invalid", why))
    assert (error.status, error.reason) == (409, "Conflict")
    assert why in str(error)
    why = 'Pod "web" is invalid: status.nominatedNodeName: Invalid value: "n1"'
    error = await refusal(patch(nominated_node_name="n1"), refused(422, "Invalid", why))
    assert (error.status, str(error)) == (422, why)


TOLD, AGAIN = failed_scheduling(namespace="shop"), failed_scheduling(namespace="shop", count=2)
EVENTS = "/apis/events.k8s.io/v1/namespaces/shop/events"


def record(what: EventRecord) -> Callable[[Cluster], Awaitable[None]]:
    return lambda client: client.record_event(what)


async def test_event_is_posted() -> None:
    (request,) = await sent(record(TOLD), ok(some(TOLD.name, 3)))
    assert request[:2] == ("POST", EVENTS)
    assert (request[2]["apiVersion"], request[2]["kind"], request[2]["reason"]) == (
        "events.k8s.io/v1",
        "Event",
        "FailedScheduling",
    )


async def test_series_is_patched() -> None:
    transport = Scripted(ok({}))
    await cluster(transport).record_event(AGAIN)
    (request,) = transport.requests
    assert (request.method, request.path, request.content_type) == ("PATCH", f"{EVENTS}/{TOLD.name}", STRATEGIC)
    assert body(request) == {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:09.000001Z"}}


async def test_series_of_an_expired_event_is_posted_again() -> None:
    _, request = await sent(record(AGAIN), refused(404, "NotFound"), ok(some(TOLD.name, 3)))
    assert request[:2] == ("POST", EVENTS)
    assert request[2]["series"]["count"] == 2


async def test_existing_event_is_no_error() -> None:
    assert len(await sent(record(TOLD), refused(409, "AlreadyExists"))) == 1
    assert (await refusal(record(TOLD), refused(403, "Forbidden"))).status == 403
    assert (await refusal(record(AGAIN), refused(409, "Conflict"))).status == 409


async def test_get_decodes_the_object() -> None:
    async def read(client: Cluster) -> None:
        assert (await client.get(Pod, "web", "shop")).spec.node_name == "n1"
        assert (await client.get(Node, "n1")).metadata.name == "n1"

    found = ok(some("web", 5, spec={"nodeName": "n1"})), ok(some("n1", 5, namespace=""))
    assert await sent(read, *found) == [
        ("GET", "/api/v1/namespaces/shop/pods/web", None),
        ("GET", "/api/v1/nodes/n1", None),
    ]


async def test_missing_object_is_not_found() -> None:
    error = await refusal(
        lambda client: client.get(Pod, "web", "shop"), refused(404, "NotFound", 'pods "web" not found')
    )
    assert (str(error), error.status, error.reason) == ('pods "web" not found', 404, "NotFound")


async def test_undecodable_object_is_an_error() -> None:
    odd = some("web", 5, spec={"containers": 5})
    for call, answer in (
        (lambda client: client.get(Pod, "web"), ok(odd)),
        (lambda client: client.list(Pod), listed(9, odd)),
    ):
        error = await refusal(call, answer)
        why = "spec.containers: expected a list, got an integer"
        assert str(error) == f"cannot decode Pod default/web: {why}"
        assert (error.status, error.retryable) == (200, False)


async def test_list_reads_all_pages() -> None:
    transport = Scripted(listed(5, some("a", 1), following="t1"), listed(5, some("b", 2)))
    found = await cluster(transport, page=1).list(Pod, "shop")
    assert [each.metadata.name for each in found] == ["a", "b"]
    assert [request.path for request in transport.requests] == ["/api/v1/namespaces/shop/pods"] * 2


async def test_list_may_select_by_labels_page_by_page() -> None:
    transport = Scripted(listed(5, some("a", 1), following="t1"), listed(5, some("b", 2)))
    await cluster(transport, page=1).list(Pod, "shop", labels={"app": "web", "tier": "front"})
    assert [dict(request.query)["labelSelector"] for request in transport.requests] == ["app=web,tier=front"] * 2


async def test_list_is_read_in_one_page_when_its_version_expires() -> None:
    transport = Scripted(listed(5, some("a", 1), following="t1"), refused(410), listed(9, some("b", 2), some("c", 7)))
    found = await cluster(transport, page=1).list(Pod)
    assert [each.metadata.name for each in found] == ["b", "c"]
    assert transport.requests[-1].query == ()
    assert (await refusal(lambda client: client.list(Pod), refused(500))).status == 500


async def test_single_object_is_watched_by_its_name() -> None:
    told: list[str | None] = []

    def tell(found: Lease | None) -> None:
        told.append(None if found is None else found.metadata.resource_version)

    transport = Scripted(
        [happened("ADDED", some("l", 1)), happened("MODIFIED", some("l", 2)), happened("DELETED", some("l", 3))]
    )
    await cluster(transport).follow(Lease, "l", "default", tell)
    assert told == ["1", "2", None]
    (request,) = transport.requests
    assert request.path == "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    assert dict(request.query) | {"timeoutSeconds": ""} == {
        "fieldSelector": "metadata.name=l",
        "watch": "true",
        "timeoutSeconds": "",
    }


async def test_object_that_may_not_be_followed_is_an_error() -> None:
    error = await refusal(
        lambda client: client.follow(Lease, "l", "default", lambda found: None), refused(403, "Forbidden")
    )
    assert (error.status, error.reason) == (403, "Forbidden")
    error = await refusal(
        lambda client: client.follow(Lease, "l", "default", lambda found: None), [failed(410, "Expired")]
    )
    assert error.status == 410


async def test_create_and_update_send_the_object() -> None:
    lease = Lease(metadata=ObjectMeta(name="leader", namespace="kube-system"), spec=LeaseSpec(holder_identity="me"))

    async def write(client: Cluster) -> None:
        assert (await client.create(lease)).metadata.resource_version == "1"
        assert (
            await client.update(replace(lease, metadata=replace(lease.metadata, resource_version="1")))
        ).spec == lease.spec

    stored = [some("leader", version, spec={"holderIdentity": "me"}) for version in (1, 2)]
    create, update = await sent(write, *(ok(each) for each in stored))
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    assert create[:2] == ("POST", leases)
    assert create[2] == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "leader", "namespace": "kube-system"},
        "spec": {"holderIdentity": "me"},
    }
    assert update[:2] == ("PUT", f"{leases}/leader")
    assert update[2]["metadata"]["resourceVersion"] == "1"


async def test_object_without_a_namespace_is_created_in_the_default_one() -> None:
    async def write(client: Cluster) -> None:
        await client.create(Pod(metadata=ObjectMeta(name="a")))
        await client.create(Node(metadata=ObjectMeta(name="n")))

    requests = await sent(write, ok(some("a", 1)), ok(some("n", 1)))
    assert [path for _, path, _ in requests] == ["/api/v1/namespaces/default/pods", "/api/v1/nodes"]


async def test_patch_is_a_merge_patch() -> None:
    transport = Scripted(ok(some("v", 2, namespace="")))
    patched = await cluster(transport).patch(PersistentVolume, "v", {"spec": {"claimRef": None}})
    (request,) = transport.requests
    assert (request.method, request.path) == ("PATCH", "/api/v1/persistentvolumes/v")
    assert (request.content_type, request.body) == ("application/merge-patch+json", b'{"spec":{"claimRef":null}}')
    assert patched.metadata.resource_version == "2"


@pytest.mark.parametrize(
    ("uid", "body"),
    [
        ("", b'{"status":{"phase":"Bound","message":null}}'),
        ("v-uid", b'{"metadata":{"uid":"v-uid"},"status":{"phase":"Bound","message":null}}'),
    ],
)
async def test_status_patch_is_a_merge_patch(uid: str, body: bytes) -> None:
    transport = Scripted(ok(some("v", 2, namespace="")))
    change = {"phase": "Bound", "message": None}
    patched = await cluster(transport).patch_status(PersistentVolume, "v", change, uid=uid)
    (request,) = transport.requests
    assert (request.method, request.path) == ("PATCH", "/api/v1/persistentvolumes/v/status")
    assert (request.content_type, request.body) == ("application/merge-patch+json", body)
    assert patched.metadata.resource_version == "2"


async def test_status_of_another_object_of_this_name_is_a_conflict() -> None:
    why = 'PersistentVolume "v" is invalid: metadata.uid: Invalid value: "v-uid": field is immutable'
    error = await refusal(
        lambda client: client.patch_status(PersistentVolume, "v", {}, uid="v-uid"), refused(422, "Invalid", why)
    )
    assert (error.status, error.reason) == (409, "Conflict")
    assert str(error).startswith('Operation cannot be fulfilled on persistentvolumes "v": ')


async def test_delete_sends_preconditions() -> None:
    async def remove(client: Cluster) -> None:
        await client.delete(Pod, "web", "shop", uid="web-uid")
        await client.delete(Node, "n1")

    options = {"apiVersion": "v1", "kind": "DeleteOptions"}
    assert await sent(remove, ok({}), ok({})) == [
        ("DELETE", "/api/v1/namespaces/shop/pods/web", {**options, "preconditions": {"uid": "web-uid"}}),
        ("DELETE", "/api/v1/nodes/n1", options),
    ]


async def followed(
    transport: Scripted, *kinds: type[Pod] | type[Node] | type[CSINode] | type[StorageClass], seconds: float
) -> list[str]:
    """Watch so long, and return the names of what came, `Synced` among them."""
    messages: list[Message] = []
    watch = asyncio.ensure_future(cluster(transport).watch(kinds, messages.append))
    await asyncio.sleep(seconds)
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)
    assert watch.cancelled()
    return [each.obj.metadata.name if isinstance(each, Upserted) else type(each).__name__ for each in messages]


async def test_objects_of_kinds_are_listed_and_an_unserved_kind_has_none() -> None:
    transport = Scripted(listed(5, some("n", 1, namespace="")), Response(404), listed(7, some("p", 2)))
    found = await list_objects(cluster(transport), [Node, StorageClass, Pod])
    assert [each.metadata.name for each in found] == ["n", "p"]
    with pytest.raises(ClusterError) as raised:
        await list_objects(cluster(Scripted(refused(403, "Forbidden"))), [Node])
    assert raised.value.status == 403


async def test_synced_follows_the_first_list_of_every_kind() -> None:
    transport = Scripted(
        listed(5, some("n", 1)),
        [5.0, happened("ADDED", some("n2", 6)), 50.0],
        refused(500),
        listed(7, some("p", 2)),
        [50.0],
    )
    assert await followed(transport, Pod, Node, seconds=10) == ["n", "p", "Synced", "n2"]


async def test_unserved_kind_does_not_delay_synced() -> None:
    transport = Scripted(listed(5), [50.0], Response(404))
    assert await followed(transport, Pod, StorageClass, seconds=0.5) == ["Synced"]


async def test_synced_comes_once() -> None:
    transport = Scripted(listed(5), refused(410), listed(9), [50.0])
    assert await followed(transport, Pod, seconds=20) == ["Synced"]


async def test_nothing_to_watch_is_synced() -> None:
    assert await followed(Scripted(), seconds=0.1) == ["Synced"]


async def test_nodes_and_pods_are_listed_first_and_other_kinds_in_the_same_order_every_time() -> None:
    paths = []
    for kinds in ((Pod, Node, CSINode, StorageClass), (StorageClass, Pod, CSINode, Node)):
        transport = Scripted()
        await followed(transport, *kinds, seconds=1)
        paths.append([request.path for request in transport.requests])
    others = ["/apis/storage.k8s.io/v1/csinodes", "/apis/storage.k8s.io/v1/storageclasses"]
    assert paths[0] == paths[1] == ["/api/v1/nodes", "/api/v1/pods", *others]
