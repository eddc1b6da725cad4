"""Every node has its Lease, which nobody writes and everybody finds renewed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kframework.clock import LoopClock, seconds_of
from kframework.fake_api.local_cluster import LocalCluster
from kframework.fake_api.state_file import StateFile
from kframework.objects import ApiObject, Lease, Node, NodeCondition, NodeStatus, ObjectMeta
from kframework.objects.manifest import Manifest
from tests.fake_api.serving import MERGE, NODES, TABLE, Events, Json, Served, short

EVERYWHERE = "/apis/coordination.k8s.io/v1/leases"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
OLD = "2020-01-01T00:00:00.000000Z"


class Alive(Served):
    """A cluster with kubelets."""

    def __init__(self, *objects: ApiObject, state: StateFile | None = None) -> None:
        self.clock = LoopClock(asyncio.get_running_loop())
        self.local = LocalCluster(self.clock, Manifest([*objects]), state=state)
        self.cluster = self.local.memory
        self.server = self.local.server

    async def names(self, path: str = LEASES, **query: str) -> list[str]:
        return [each["metadata"]["name"] for each in (await self.ask("GET", path, **query))["items"]]

    async def lease(self, name: str = "n1") -> Json:
        return await self.ask("GET", f"{LEASES}/{name}")

    async def renewed(self, name: str = "n1") -> float:
        """Return how many seconds ago a Lease was renewed."""
        return self.clock.now() - seconds_of((await self.lease(name))["spec"]["renewTime"])


def node(name: str = "n1", **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=labels))


def stored(name: str = "n1", namespace: str = "kube-node-lease") -> Lease:
    return Lease(metadata=ObjectMeta(name=name, namespace=namespace))


async def test_node_has_a_lease() -> None:
    served = Alive(node())
    await asyncio.sleep(100)
    of_node, lease = await served.ask("GET", f"{NODES}/n1"), await served.lease()
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
    assert 0 <= await served.renewed() < 10


async def test_lease_is_renewed_without_a_write() -> None:
    served = Alive(node())
    assert await served.renewed() == 0  # as it is made
    version, seen = served.cluster.version, set()
    for _ in range(50):
        await asyncio.sleep(2)
        lease = await served.lease()
        assert 0 <= await served.renewed() < 10
        seen.add(lease["spec"]["renewTime"])
        lease["spec"].pop("renewTime")
        assert lease == (await served.lease()) | {"spec": lease["spec"]}
    assert 10 <= len(seen) <= 12
    assert served.cluster.version == version
    assert served.cluster.objects(Lease) == []


async def test_leases_follow_their_nodes() -> None:
    served = Alive(node("b"), stored("other", "default"))
    assert await served.names() == ["b"]
    served.cluster.add(node("a"))
    assert await served.names(EVERYWHERE) == ["other", "a", "b"]
    before = await served.lease("b")
    await served.ask("DELETE", f"{NODES}/b")
    assert await served.names() == ["a"]
    assert (await served.refused("GET", f"{LEASES}/b"))[0] == 404
    served.cluster.add(node("b"))
    assert (await served.lease("b"))["metadata"]["uid"] != before["metadata"]["uid"]


async def test_lists_are_selected_and_paged_at_one_version() -> None:
    served = Alive(*(node(name) for name in "abc"), stored("b"), stored("x"))
    assert await served.names(fieldSelector="metadata.name=c") == ["c"]
    assert await served.names(labelSelector="a=b") == []
    page = await served.ask("GET", LEASES, limit=2)
    assert page["metadata"]["remainingItemCount"] == 2
    served.cluster.remove(Node, "c")
    served.cluster.add(node("d"))
    assert await served.names(limit="2", continue_=page["metadata"]["continue"]) == ["c", "x"]
    assert await served.names() == ["a", "b", "d", "x"]


async def test_lease_is_printed_as_a_row() -> None:
    table = await Alive(node()).ask("GET", LEASES, accept=TABLE)
    assert [each["cells"] for each in table["rows"]] == [["n1", "n1", "0s"]]


async def test_lost_node_renews_no_lease() -> None:
    served = Alive(node())
    await asyncio.sleep(1000)
    lost: Json = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    patch = {"content_type": "application/strategic-merge-patch+json"}
    await served.ask("PATCH", f"{NODES}/n1/status", lost, **patch)
    (ready,) = (await served.ask("GET", f"{NODES}/n1"))["status"]["conditions"]
    await asyncio.sleep(1000)
    assert (await served.ask("GET", f"{NODES}/n1"))["status"]["conditions"] == [ready]
    assert 1000 <= await served.renewed() < 1310
    found: Json = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await served.ask("PATCH", f"{NODES}/n1/status", found, **patch)
    assert 0 <= await served.renewed() < 10
    (again,) = (await served.ask("GET", f"{NODES}/n1"))["status"]["conditions"]
    assert 0 <= served.clock.now() - seconds_of(again["lastHeartbeatTime"]) < 300


async def test_written_lease_replaces_the_virtual_one() -> None:
    served = Alive(node())
    before = await served.lease()
    patched = await served.ask("PATCH", f"{LEASES}/n1", {"spec": {"renewTime": OLD}}, content_type=MERGE)
    assert patched["metadata"]["uid"] == before["metadata"]["uid"]
    assert int(patched["metadata"]["resourceVersion"]) == served.cluster.version
    await asyncio.sleep(100)
    assert await served.lease() == patched
    assert patched["spec"] == before["spec"] | {"renewTime": OLD}
    assert [each.metadata.name for each in served.cluster.objects(Lease)] == ["n1"]


async def test_lease_update_checks_the_version() -> None:
    served = Alive(node())
    read = await served.lease()
    served.cluster.add(node("n2"))
    await asyncio.sleep(100)
    wrong = read | {"metadata": read["metadata"] | {"resourceVersion": "999"}}
    assert (await served.refused("PUT", f"{LEASES}/n1", wrong))[1] == "Conflict"
    unnamed = read | {"metadata": {"name": "n1"}}
    assert (await served.refused("PUT", f"{LEASES}/n1", unnamed))[1] == "Invalid"
    stranger = read | {"metadata": read["metadata"] | {"uid": "u"}}
    assert (await served.refused("PUT", f"{LEASES}/n1", stranger))[1] == "Conflict"
    assert served.cluster.objects(Lease) == []
    held = read | {"spec": read["spec"] | {"holderIdentity": "me", "renewTime": OLD}}
    updated = await served.ask("PUT", f"{LEASES}/n1", held)
    assert (updated["spec"], await served.lease()) == (held["spec"], updated)
    assert (await served.refused("PUT", f"{LEASES}/n1", held))[1] == "Conflict"


async def test_lease_can_be_applied() -> None:
    served = Alive(node())
    config = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n1", "labels": {"a": "b"}}}
    query = {"fieldManager": "me", "content_type": "application/apply-patch+yaml"}
    applied = await served.ask("PATCH", f"{LEASES}/n1", config, **query)
    assert applied["metadata"]["labels"] == {"a": "b"}
    assert applied["spec"]["holderIdentity"] == "n1"


async def test_name_of_a_virtual_lease_is_taken() -> None:
    served = Alive(node())
    body = {"metadata": {"name": "n1"}, "spec": {"holderIdentity": "me"}}
    assert await served.refused("POST", LEASES, body) == (
        409,
        "AlreadyExists",
        'leases.coordination.k8s.io "n1" already exists',
    )
    body["metadata"]["name"] = "n2"
    await served.ask("POST", LEASES, body)
    served.cluster.add(node("n2"))
    assert (await served.lease("n2"))["spec"] == {"holderIdentity": "me"}
    assert await served.names() == ["n1", "n2"]


async def test_dry_run_changes_no_lease() -> None:
    served = Alive(node())
    patch = {"spec": {"renewTime": OLD}}
    tried = await served.ask("PATCH", f"{LEASES}/n1", patch, content_type=MERGE, dryRun="All")
    assert tried["spec"]["renewTime"] == OLD
    await served.ask("DELETE", f"{LEASES}/n1", dryRun="All")
    assert await served.renewed() < 10
    assert served.cluster.objects(Lease) == []


@pytest.mark.parametrize("is_written", [False, True])
async def test_deleted_lease_is_created_again(is_written: bool) -> None:
    served = Alive(node())
    if is_written:
        await served.ask("PATCH", f"{LEASES}/n1", {"spec": {"renewTime": OLD}}, content_type=MERGE)
    uids = {(await served.lease())["metadata"]["uid"]}
    await asyncio.sleep(100)
    for _ in range(2):
        answer = await served.ask("DELETE", f"{LEASES}/n1")
        assert answer["details"]["uid"] in uids
        lease = await served.lease()
        assert int(lease["metadata"]["resourceVersion"]) == served.cluster.version
        assert lease["metadata"]["creationTimestamp"] == served.cluster.timestamp()
        uids.add(lease["metadata"]["uid"])
        assert await served.renewed() < 10
    assert len(uids) == 3
    assert served.cluster.objects(Lease) == []


async def test_all_leases_are_deleted() -> None:
    served = Alive(node("a"), node("b"), stored("x"))
    assert [each["metadata"]["name"] for each in (await served.ask("DELETE", LEASES))["items"]] == ["a", "b", "x"]
    assert await served.names() == ["a", "b"]


async def test_written_lease_outlives_its_node() -> None:
    served = Alive(node(), stored())
    served.cluster.remove(Node, "n1")
    assert await served.names() == ["n1"]
    await served.ask("DELETE", f"{LEASES}/n1")
    assert await served.names() == []


async def test_watch_reports_leases_of_new_and_deleted_nodes() -> None:
    served = Alive(node("a"))
    async with served.watching(LEASES) as events:
        assert await events.told(1) == ["ADDED a"]
        served.cluster.add(node("b"))
        served.cluster.put(node("b", zone="z"))
        served.cluster.remove(Node, "b")
        assert await events.told(2) == ["ADDED b", "DELETED b"]
        await served.ask("PATCH", f"{LEASES}/a", {"spec": {"renewTime": OLD}}, content_type=MERGE)
        changed = await events.next()
        assert (short(changed), changed["object"]["spec"]["renewTime"]) == ("MODIFIED a", OLD)
        await served.ask("DELETE", f"{LEASES}/a")
        assert await events.told(2) == ["DELETED a", "ADDED a"]
        await served.ask("DELETE", f"{LEASES}/a")
        assert await events.told(3) == ["MODIFIED a", "DELETED a", "ADDED a"]
        served.cluster.remove(Node, "a")
        gone = await events.next()
        assert (short(gone), gone["object"]["metadata"]["resourceVersion"]) == (
            "DELETED a",
            str(served.cluster.version),
        )


async def renewals(events: Events, seconds: float) -> list[str]:
    """Return what a watch tells within so many seconds."""
    told: list[str] = []
    try:
        async with asyncio.timeout(seconds):
            while True:
                told.append(short(await events.next()))
    except TimeoutError:
        return told


@pytest.mark.parametrize("path", [LEASES, EVERYWHERE])
async def test_watch_reports_renewals_every_ten_seconds(path: str) -> None:
    served = Alive(node("a"), node("b"), stored("b"))
    query = {"resourceVersion": str(served.cluster.version), "allowWatchBookmarks": "true"}
    await served.names()
    async with served.watching(path, **query) as events:
        assert await renewals(events, 25) == ["MODIFIED a", "BOOKMARK"] * 2
    assert served.cluster.objects(Lease) == [served.cluster.read(Lease, "b", "kube-node-lease")]


async def test_watch_of_another_namespace_reports_no_renewals() -> None:
    served = Alive(node())
    async with served.watching("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases") as events:
        assert await renewals(events, 100) == []
    async with served.watching(LEASES, labelSelector="a=b") as events:
        assert await renewals(events, 100) == []


async def test_watch_can_be_resumed() -> None:
    served = Alive(node("a"))
    await served.names()
    start = served.cluster.version
    served.cluster.add(node("b"))
    served.cluster.remove(Node, "a")
    async with served.watching(LEASES, resourceVersion=start) as events:
        assert await events.told(2) == ["ADDED b", "DELETED a"]


async def test_only_written_leases_are_stored(tmp_path: Path) -> None:
    served = Alive(node(), stored("x"))
    await served.names()
    assert [each.key[1] for each in served.server.documents() if isinstance(each.subject, Lease)] == ["x"]


async def test_reset_cluster_has_its_leases() -> None:
    served = Alive(node("a"), node("b"), stored("b"))
    await served.names()
    await served.ask("DELETE", f"{LEASES}/a")
    served.cluster.add(node("c"))
    served.local.reset()
    assert await served.names() == ["a", "b"]
    assert [each.metadata.name for each in served.cluster.objects(Lease)] == ["b"]


async def test_nodes_renew_their_heartbeats() -> None:
    unheard = NodeStatus(conditions=(NodeCondition(type="Ready", status="True"),))
    served = Alive(node(), Node(metadata=ObjectMeta(name="n2"), status=unheard))
    await asyncio.sleep(3599)
    await served.ask("PATCH", f"{NODES}/n1", {"spec": {"unschedulable": True}}, content_type=MERGE)
    for seconds in (0, 3600):
        await asyncio.sleep(seconds)
        first, second = (await served.ask("GET", NODES))["items"]
        (ready,) = first["status"]["conditions"]
        assert served.clock.now() - seconds_of(ready["lastHeartbeatTime"]) == 299
        assert seconds_of(ready["lastTransitionTime"]) == seconds_of(first["metadata"]["creationTimestamp"])
        assert second["status"]["conditions"] == [{"type": "Ready", "status": "True"}]
