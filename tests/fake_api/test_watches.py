"""Watches, on virtual time."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.clock import run_virtual
from kframework.fake_api import collection, watches
from kframework.objects import Lease, ObjectMeta, Pod, PodStatus
from tests.fake_api.local_api import PODS, TABLE, Events, Json, LocalApi, request

LEASES = "/apis/coordination.k8s.io/v1/leases"


def lease(name: str, namespace: str = "default", **labels: str) -> Lease:
    return Lease(metadata=ObjectMeta(name=name, namespace=namespace, labels=labels))


async def version(api: LocalApi) -> str:
    """List once, as every client does, and return the version of the list."""
    listed = await api.call("GET", LEASES)
    return str(listed["metadata"]["resourceVersion"])


async def test_watch_starts_after_a_version() -> None:
    api = LocalApi(lease("a"))
    start = await version(api)
    api.cluster.add(lease("b"))
    async with api.watching(LEASES, resourceVersion=start) as events:
        assert await events.take(1) == ["ADDED b"]
        api.cluster.put(lease("b", x="y"))
        api.cluster.remove(Lease, "a", "default")
        changed, deleted = await events.next(), await events.next()
    assert (changed["type"], changed["object"]["metadata"]["labels"]) == ("MODIFIED", {"x": "y"})
    assert (deleted["type"], deleted["object"]["metadata"]["name"]) == ("DELETED", "a")
    assert deleted["object"]["metadata"]["resourceVersion"] == str(api.cluster.version)
    assert deleted["object"]["kind"] == "Lease"


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
async def test_watch_without_a_version_starts_with_all_objects(query: Json) -> None:
    api = LocalApi(lease("b"), lease("a"))
    async with api.watching(LEASES, **query) as events:
        assert await events.take(2) == ["ADDED a", "ADDED b"]
        api.cluster.add(lease("c"))
        assert await events.take(1) == ["ADDED c"]


async def test_streaming_list_marks_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "BATCH_SIZE", 2)
    api = LocalApi(*(lease(name) for name in "abc"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with api.watching(LEASES, **query) as events:
        assert await events.take(3) == ["ADDED a", "ADDED b", "ADDED c"]
        mark = await events.next()
        assert mark == {
            "type": "BOOKMARK",
            "object": {
                "kind": "Lease",
                "apiVersion": "coordination.k8s.io/v1",
                "metadata": {
                    "resourceVersion": str(api.cluster.version),
                    "annotations": {"k8s.io/initial-events-end": "true"},
                },
            },
        }
        api.cluster.add(lease("d"))
        assert await events.take(1) == ["ADDED d"]


async def test_changes_during_a_streaming_list_follow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "BATCH_SIZE", 1)
    api = LocalApi(lease("a"), lease("b"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with api.watching(LEASES, **query) as events:
        assert await events.take(1) == ["ADDED a"]
        api.cluster.remove(Lease, "b", "default")
        assert await events.take(3) == ["ADDED b", "BOOKMARK", "DELETED b"]


async def test_watch_sends_no_initial_events_on_request() -> None:
    api = LocalApi(lease("a"))
    query = {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}
    async with api.watching(LEASES, **query) as events:
        result = asyncio.ensure_future(events.take(1))
        await asyncio.sleep(1)
        api.cluster.add(lease("b"))
        assert await result == ["ADDED b"]


async def test_watch_sends_only_selected_objects() -> None:
    api = LocalApi(lease("a", app="x"), lease("b"), lease("c", "other", app="x"))
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    async with api.watching(path, labelSelector="app=x") as events:
        assert await events.take(1) == ["ADDED a"]
        api.cluster.put(lease("b", app="x"))
        api.cluster.put(lease("c", "other", app="x", more="y"))
        api.cluster.put(lease("b", app="x", more="y"))
        api.cluster.put(lease("a", app="z"))
        api.cluster.put(lease("a", app="w"))
        assert await events.take(2) == ["ADDED b", "MODIFIED b"]
        deleted = await events.next()
        api.cluster.remove(Lease, "a", "default")
        api.cluster.remove(Lease, "b", "default")
        assert await events.take(1) == ["DELETED b"]
    assert (deleted["type"], deleted["object"]["metadata"]["labels"]) == ("DELETED", {"app": "x"})
    assert int(deleted["object"]["metadata"]["resourceVersion"]) == api.cluster.version - 3


async def test_terminated_pods_leave_the_watch_of_a_scheduler() -> None:
    pod = Pod(metadata=ObjectMeta(name="web"))
    api = LocalApi(pod)
    async with api.watching(PODS, fieldSelector="status.phase!=Succeeded,status.phase!=Failed") as events:
        assert await events.take(1) == ["ADDED web"]
        api.cluster.set_status(api.cluster.read(Pod, "web", "default"), PodStatus(phase="Succeeded"))
        assert await events.take(1) == ["DELETED web"]


async def test_watch_sends_bookmarks_and_ends() -> None:
    api = LocalApi()
    loop = asyncio.get_running_loop()
    start = await version(api)
    async with api.watching(LEASES, resourceVersion=start, allowWatchBookmarks="true", timeoutSeconds=150) as events:
        began = loop.time()
        api.cluster.add(lease("a", "default"))
        assert await events.take(1) == ["ADDED a"]
        mark = await events.next()
        assert (mark["type"], mark["object"]["metadata"]) == (
            "BOOKMARK",
            {"resourceVersion": str(api.cluster.version)},
        )
        assert loop.time() - began == pytest.approx(60)
        assert await events.remaining() == ["BOOKMARK", "BOOKMARK"]
        assert loop.time() - began == pytest.approx(150)


async def test_bookmark_has_the_version_of_the_cluster() -> None:
    api = LocalApi()
    start = await version(api)
    async with api.watching(LEASES, resourceVersion=start, allowWatchBookmarks="true", timeoutSeconds=60) as events:
        api.cluster.add(Pod(metadata=ObjectMeta(name="web")))
        (mark,) = [await events.next()]
        assert mark["object"]["metadata"]["resourceVersion"] == str(api.cluster.version)


async def test_watch_starts_after_the_version_of_a_loaded_object() -> None:
    api = LocalApi(lease("a"), lease("b"), lease("c"))
    first = (await api.call("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases/a"))["metadata"]
    api.cluster.remove(Lease, "c", "default")
    async with api.watching(LEASES, resourceVersion=first["resourceVersion"]) as events:
        assert await events.take(3) == ["ADDED b", "ADDED c", "DELETED c"]


async def test_version_before_too_many_loaded_objects_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "HISTORY", 2)
    api = LocalApi(*map(lease, "abcd"))
    versions = {each.metadata.name: each.metadata.resource_version for each in api.cluster.objects(Lease)}
    async with api.watching(LEASES, resourceVersion=versions["a"]) as events:
        assert await events.next() == expired(versions["a"], versions["b"])
    async with api.watching(LEASES, resourceVersion=versions["b"]) as events:
        assert await events.take(2) == ["ADDED c", "ADDED d"]


async def test_watch_ends_without_a_timeout_option() -> None:
    api = LocalApi()
    began = asyncio.get_running_loop().time()
    async with api.watching(LEASES) as events:
        assert await events.remaining() == []
    assert asyncio.get_running_loop().time() - began == pytest.approx(watches.DEFAULT_WATCH_SECONDS)


def expired(since: int | str, oldest: int | str) -> Json:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    message = f"too old resource version: {since} ({oldest})"
    return {"type": "ERROR", "object": status | {"message": message, "reason": "Expired", "code": 410}}


async def test_expired_version_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "HISTORY", 2)
    api = LocalApi(lease("a"))
    start = int(await version(api))
    for turn in range(3):
        api.cluster.put(lease("a", turn=str(turn)))
    async with api.watching(LEASES, resourceVersion=start) as events:
        assert await events.next() == expired(start, start + 1)
        assert await events.remaining() == []


async def test_future_version_is_an_error() -> None:
    api = LocalApi()
    start = int(await version(api))
    async with api.watching(LEASES, resourceVersion=start + 100) as events:
        assert await events.next() == expired(start + 100, 0)


async def test_slow_client_gets_an_expired_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "HISTORY", 3)
    api = LocalApi(lease("a"))
    async with api.watching(LEASES) as events:
        assert await events.take(1) == ["ADDED a"]
        for turn in range(3):
            api.cluster.put(lease("a", turn=str(turn)))
        assert await events.take(1) == ["MODIFIED a"]
        for turn in range(4):
            api.cluster.put(lease("a", again=str(turn)))
        assert await events.remaining() == ["MODIFIED a", "MODIFIED a", "ERROR"]


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ({"resourceVersion": "x"}, 400, 'resourceVersion: Invalid value: "x": it must be a number'),
        (
            {"sendInitialEvents": "true"},
            422,
            (
                'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires '
                "setting resourceVersionMatch to NotOlderThan"
            ),
        ),
        (
            {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": "99"},
            504,
            "Timeout: Too large resource version: 99, current: 4",
        ),
        ({"fieldSelector": "spec.x=y"}, 400, None),
    ],
)
async def test_invalid_watch_is_rejected(query: Json, status: int, message: str | None) -> None:
    api = LocalApi()
    async with api.server.follow(request("GET", LEASES, watch="true", **query)) as stream:
        assert stream.status == status
        answer = await Events(stream.lines).next()
    assert (answer["kind"], answer["code"]) == ("Status", status)
    assert message is None or answer["message"] == message


async def test_objects_are_encoded_as_rows() -> None:
    api = LocalApi(lease("a"))
    async with api.watching(LEASES, accept=TABLE) as events:
        event = await events.next()
    assert event["type"] == "ADDED"
    assert (event["object"]["kind"], event["object"]["rows"][0]["cells"][0]) == ("Table", "a")


async def test_closed_watch_leaves_no_timer() -> None:
    api = LocalApi(lease("a"))
    async with api.watching(LEASES) as events:
        await events.take(1)
        left = asyncio.ensure_future(events.next())
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.wait([left])
    (kept,) = api.server._store._collections.values()
    assert not kept._listeners


_writes = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y", ""])), max_size=20)


@given(_writes, st.integers(0, 20), st.booleans())
def test_watch_mirrors_the_stored_objects(writes: list[tuple[str, str]], joins: int, selects: bool) -> None:
    async def main() -> None:
        api = LocalApi()
        query = {"labelSelector": "app=x"} if selects else {}
        known: dict[str, str] = {}

        async def follow() -> None:
            listed = await api.call("GET", LEASES, **query)
            known.update({each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in listed["items"]})
            async with api.watching(LEASES, resourceVersion=listed["metadata"]["resourceVersion"], **query) as events:
                while True:
                    event = await events.next()
                    metadata = event["object"]["metadata"]
                    assert (event["type"] == "ADDED") == (metadata["name"] not in known)
                    if event["type"] == "DELETED":
                        del known[metadata["name"]]
                    else:
                        known[metadata["name"]] = metadata["resourceVersion"]

        follower = asyncio.ensure_future(asyncio.sleep(0))
        for turn, (name, label) in enumerate([*writes, ("a", "x")]):
            if turn == min(joins, len(writes)):
                follower = asyncio.ensure_future(follow())
            if label:
                api.cluster.put(lease(name, app=label))
            elif api.cluster.find(Lease, name, "default") is not None:
                api.cluster.remove(Lease, name, "default")
            await asyncio.sleep(turn % 2)
        await asyncio.sleep(1)
        there = [each.metadata for each in api.cluster.objects(Lease)]
        expected = {each.name: each.resource_version for each in there if not selects or each.labels["app"] == "x"}
        assert known == expected
        follower.cancel()
        await asyncio.wait([follower])

    run_virtual(main)
