"""Every node has a Lease that reads as renewed without any writes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kframework.clock import LoopClock, seconds_of
from kframework.fake_api.local_cluster import LocalCluster
from kframework.fake_api.state_file import StateFile
from kframework.objects import ApiObject, Lease, Node, NodeCondition, NodeStatus, ObjectMeta
from kframework.objects.manifest import Manifest
from tests.fake_api.local_api import MERGE, NODES, TABLE, Events, Json, LocalApi, short

EVERYWHERE = "/apis/coordination.k8s.io/v1/leases"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
OLD = "2020-01-01T00:00:00.000000Z"


class Alive(LocalApi):
    """A cluster with kubelets."""

    def __init__(self, *objects: ApiObject, state: StateFile | None = None) -> None:
        self.clock = LoopClock(asyncio.get_running_loop())
        self.local = LocalCluster(self.clock, Manifest([*objects]), state=state)
        self.cluster = self.local.memory
        self.server = self.local.server

    async def names(self, path: str = LEASES, **query: str) -> list[str]:
        return [each["metadata"]["name"] for each in (await self.call("GET", path, **query))["items"]]

    async def lease(self, name: str = "n1") -> Json:
        return await self.call("GET", f"{LEASES}/{name}")

    async def renewed(self, name: str = "n1") -> float:
        """Return how many seconds ago a Lease was renewed."""
        return self.clock.now() - seconds_of((await self.lease(name))["spec"]["renewTime"])


def node(name: str = "n1", **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=labels))


def stored(name: str = "n1", namespace: str = "kube-node-lease") -> Lease:
    return Lease(metadata=ObjectMeta(name=name, namespace=namespace))


async def test_node_has_a_lease() -> None:
    api = Alive(node())
    await asyncio.sleep(100)
    of_node, lease = await api.call("GET", f"{NODES}/n1"), await api.lease()
    uid, created = of_node["metadata"]["uid"], of_node["metadata"]["creationTimestamp"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid}
    assert lease == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "n1",
            "namespace": "kube-node-lease",
            "uid": lease["metadata"]["uid"],
            "resourceVersion": of_node["metadata"]["resourceVersion"],
            "creationTimestamp": created,
            "ownerReferences": [owner],
        },
        "spec": {
            "holderIdentity": "n1",
            "leaseDurationSeconds": 40,
            "renewTime": lease["spec"]["renewTime"],
        },
    }
    assert lease["metadata"]["uid"] != uid
    assert 0 <= await api.renewed() < 10


async def test_lease_is_renewed_without_a_write() -> None:
    api = Alive(node())
    assert await api.renewed() == 0  # as it is made
    version, recorded = api.cluster.version, set()
    for _ in range(50):
        await asyncio.sleep(2)
        lease = await api.lease()
        assert 0 <= await api.renewed() < 10
        recorded.add(lease["spec"]["renewTime"])
        lease["spec"].pop("renewTime")
        assert lease == (await api.lease()) | {"spec": lease["spec"]}
    assert 10 <= len(recorded) <= 12
    assert api.cluster.version == version
    assert api.cluster.objects(Lease) == []


async def test_leases_follow_their_nodes() -> None:
    api = Alive(node("b"), stored("other", "default"))
    assert await api.names() == ["b"]
    api.cluster.add(node("a"))
    assert await api.names(EVERYWHERE) == ["other", "a", "b"]
    before = await api.lease("b")
    await api.call("DELETE", f"{NODES}/b")
    assert await api.names() == ["a"]
    assert (await api.call_error("GET", f"{LEASES}/b"))[0] == 404
    api.cluster.add(node("b"))
    assert (await api.lease("b"))["metadata"]["uid"] != before["metadata"]["uid"]


async def test_lists_are_selected_and_paged_at_one_version() -> None:
    api = Alive(*(node(name) for name in "abc"), stored("b"), stored("x"))
    assert await api.names(fieldSelector="metadata.name=c") == ["c"]
    assert await api.names(labelSelector="a=b") == []
    page = await api.call("GET", LEASES, limit=2)
    assert page["metadata"]["remainingItemCount"] == 2
    api.cluster.remove(Node, "c")
    api.cluster.add(node("d"))
    assert await api.names(limit="2", continue_=page["metadata"]["continue"]) == ["c", "x"]
    assert await api.names() == ["a", "b", "d", "x"]


async def test_lease_is_printed_as_a_row() -> None:
    table = await Alive(node()).call("GET", LEASES, accept=TABLE)
    assert [each["cells"] for each in table["rows"]] == [["n1", "n1", "0s"]]


async def test_lost_node_renews_no_lease() -> None:
    api = Alive(node())
    await asyncio.sleep(1000)
    lost: Json = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    patch = {"content_type": "application/strategic-merge-patch+json"}
    await api.call("PATCH", f"{NODES}/n1/status", lost, **patch)
    (ready,) = (await api.call("GET", f"{NODES}/n1"))["status"]["conditions"]
    await asyncio.sleep(1000)
    assert (await api.call("GET", f"{NODES}/n1"))["status"]["conditions"] == [ready]
    assert 1000 <= await api.renewed() < 1310
    actual: Json = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await api.call("PATCH", f"{NODES}/n1/status", actual, **patch)
    assert 0 <= await api.renewed() < 10
    (again,) = (await api.call("GET", f"{NODES}/n1"))["status"]["conditions"]
    assert 0 <= api.clock.now() - seconds_of(again["lastHeartbeatTime"]) < 300


async def test_written_lease_replaces_the_virtual_one() -> None:
    api = Alive(node())
    before = await api.lease()
    patched = await api.call("PATCH", f"{LEASES}/n1", {"spec": {"renewTime": OLD}}, content_type=MERGE)
    assert patched["metadata"]["uid"] == before["metadata"]["uid"]
    assert int(patched["metadata"]["resourceVersion"]) == api.cluster.version
    await asyncio.sleep(100)
    assert await api.lease() == patched
    assert patched["spec"] == before["spec"] | {"renewTime": OLD}
    assert [each.metadata.name for each in api.cluster.objects(Lease)] == ["n1"]


async def test_lease_update_checks_the_version() -> None:
    api = Alive(node())
    read = await api.lease()
    api.cluster.add(node("n2"))
    await asyncio.sleep(100)
    wrong = read | {"metadata": read["metadata"] | {"resourceVersion": "999"}}
    assert (await api.call_error("PUT", f"{LEASES}/n1", wrong))[1] == "Conflict"
    unnamed = read | {"metadata": {"name": "n1"}}
    assert (await api.call_error("PUT", f"{LEASES}/n1", unnamed))[1] == "Invalid"
    stranger = read | {"metadata": read["metadata"] | {"uid": "u"}}
    assert (await api.call_error("PUT", f"{LEASES}/n1", stranger))[1] == "Conflict"
    assert api.cluster.objects(Lease) == []
    held = read | {"spec": read["spec"] | {"holderIdentity": "me", "renewTime": OLD}}
    updated = await api.call("PUT", f"{LEASES}/n1", held)
    assert (updated["spec"], await api.lease()) == (held["spec"], updated)
    assert (await api.call_error("PUT", f"{LEASES}/n1", held))[1] == "Conflict"


async def test_lease_can_be_applied() -> None:
    api = Alive(node())
    config = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n1", "labels": {"a": "b"}}}
    query = {"fieldManager": "me", "content_type": "application/apply-patch+yaml"}
    applied = await api.call("PATCH", f"{LEASES}/n1", config, **query)
    assert applied["metadata"]["labels"] == {"a": "b"}
    assert applied["spec"]["holderIdentity"] == "n1"


async def test_name_of_a_virtual_lease_is_taken() -> None:
    api = Alive(node())
    body = {"metadata": {"name": "n1"}, "spec": {"holderIdentity": "me"}}
    assert await api.call_error("POST", LEASES, body) == (
        409,
        "AlreadyExists",
        'leases.coordination.k8s.io "n1" already exists',
    )
    body["metadata"]["name"] = "n2"
    await api.call("POST", LEASES, body)
    api.cluster.add(node("n2"))
    assert (await api.lease("n2"))["spec"] == {"holderIdentity": "me"}
    assert await api.names() == ["n1", "n2"]


async def test_dry_run_changes_no_lease() -> None:
    api = Alive(node())
    patch = {"spec": {"renewTime": OLD}}
    tried = await api.call("PATCH", f"{LEASES}/n1", patch, content_type=MERGE, dryRun="All")
    assert tried["spec"]["renewTime"] == OLD
    await api.call("DELETE", f"{LEASES}/n1", dryRun="All")
    assert await api.renewed() < 10
    assert api.cluster.objects(Lease) == []


@pytest.mark.parametrize("is_written", [False, True])
async def test_deleted_lease_is_created_again(is_written: bool) -> None:
    api = Alive(node())
    if is_written:
        await api.call("PATCH", f"{LEASES}/n1", {"spec": {"renewTime": OLD}}, content_type=MERGE)
    uids = {(await api.lease())["metadata"]["uid"]}
    await asyncio.sleep(100)
    for _ in range(2):
        answer = await api.call("DELETE", f"{LEASES}/n1")
        assert answer["details"]["uid"] in uids
        lease = await api.lease()
        assert int(lease["metadata"]["resourceVersion"]) == api.cluster.version
        assert lease["metadata"]["creationTimestamp"] == api.cluster.timestamp()
        uids.add(lease["metadata"]["uid"])
        assert await api.renewed() < 10
    assert len(uids) == 3
    assert api.cluster.objects(Lease) == []


async def test_all_leases_are_deleted() -> None:
    api = Alive(node("a"), node("b"), stored("x"))
    assert [each["metadata"]["name"] for each in (await api.call("DELETE", LEASES))["items"]] == ["a", "b", "x"]
    assert await api.names() == ["a", "b"]


async def test_written_lease_outlives_its_node() -> None:
    api = Alive(node(), stored())
    api.cluster.remove(Node, "n1")
    assert await api.names() == ["n1"]
    await api.call("DELETE", f"{LEASES}/n1")
    assert await api.names() == []


async def test_watch_reports_leases_of_new_and_deleted_nodes() -> None:
    api = Alive(node("a"))
    async with api.watching(LEASES) as events:
        assert await events.take(1) == ["ADDED a"]
        api.cluster.add(node("b"))
        api.cluster.put(node("b", zone="z"))
        api.cluster.remove(Node, "b")
        assert await events.take(2) == ["ADDED b", "DELETED b"]
        await api.call("PATCH", f"{LEASES}/a", {"spec": {"renewTime": OLD}}, content_type=MERGE)
        changed = await events.next()
        assert (short(changed), changed["object"]["spec"]["renewTime"]) == ("MODIFIED a", OLD)
        await api.call("DELETE", f"{LEASES}/a")
        assert await events.take(2) == ["DELETED a", "ADDED a"]
        await api.call("DELETE", f"{LEASES}/a")
        assert await events.take(3) == ["MODIFIED a", "DELETED a", "ADDED a"]
        api.cluster.remove(Node, "a")
        deleted = await events.next()
        assert (short(deleted), deleted["object"]["metadata"]["resourceVersion"]) == (
            "DELETED a",
            str(api.cluster.version),
        )


async def renewals(events: Events, seconds: float) -> list[str]:
    """Return the messages of a watch within this time in seconds."""
    result: list[str] = []
    try:
        async with asyncio.timeout(seconds):
            while True:
                result.append(short(await events.next()))
    except TimeoutError:
        return result


@pytest.mark.parametrize("path", [LEASES, EVERYWHERE])
async def test_watch_reports_renewals_every_ten_seconds(path: str) -> None:
    api = Alive(node("a"), node("b"), stored("b"))
    query = {"resourceVersion": str(api.cluster.version), "allowWatchBookmarks": "true"}
    await api.names()
    async with api.watching(path, **query) as events:
        assert await renewals(events, 25) == ["MODIFIED a", "BOOKMARK"] * 2
    assert api.cluster.objects(Lease) == [api.cluster.read(Lease, "b", "kube-node-lease")]


async def test_watch_of_another_namespace_reports_no_renewals() -> None:
    api = Alive(node())
    async with api.watching("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases") as events:
        assert await renewals(events, 100) == []
    async with api.watching(LEASES, labelSelector="a=b") as events:
        assert await renewals(events, 100) == []


async def test_watch_can_be_resumed() -> None:
    api = Alive(node("a"))
    await api.names()
    start = api.cluster.version
    api.cluster.add(node("b"))
    api.cluster.remove(Node, "a")
    async with api.watching(LEASES, resourceVersion=start) as events:
        assert await events.take(2) == ["ADDED b", "DELETED a"]


async def test_only_written_leases_are_stored(tmp_path: Path) -> None:
    api = Alive(node(), stored("x"))
    await api.names()
    documents = [each for collection in api.server.collections() for each in collection.stored_documents()]
    assert [each.key[1] for each in documents if isinstance(each.subject, Lease)] == ["x"]


async def test_reset_cluster_has_its_leases() -> None:
    api = Alive(node("a"), node("b"), stored("b"))
    await api.names()
    await api.call("DELETE", f"{LEASES}/a")
    api.cluster.add(node("c"))
    api.local.reset()
    assert await api.names() == ["a", "b"]
    assert [each.metadata.name for each in api.cluster.objects(Lease)] == ["b"]


async def test_nodes_renew_their_heartbeats() -> None:
    unheard = NodeStatus(conditions=(NodeCondition(type="Ready", status="True"),))
    api = Alive(node(), Node(metadata=ObjectMeta(name="n2"), status=unheard))
    await asyncio.sleep(3599)
    await api.call("PATCH", f"{NODES}/n1", {"spec": {"unschedulable": True}}, content_type=MERGE)
    for seconds in (0, 3600):
        await asyncio.sleep(seconds)
        first, second = (await api.call("GET", NODES))["items"]
        (ready,) = first["status"]["conditions"]
        assert api.clock.now() - seconds_of(ready["lastHeartbeatTime"]) == 299
        assert seconds_of(ready["lastTransitionTime"]) == seconds_of(first["metadata"]["creationTimestamp"])
        assert second["status"]["conditions"] == [{"type": "Ready", "status": "True"}]
