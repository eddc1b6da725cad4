"""Kinds that plugins declare, through the client and the fake API server: they are served like any other."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from msgspec.structs import replace

from kframework.client.kube_cluster import KubeCluster
from kframework.client.transport import Request
from kframework.clock import LoopClock
from kframework.errors import ClusterError
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, ObjectMeta, kind
from kframework.state.inbox import Deleted, Message, Synced, Upserted
from tests.fake_api.local_api import MERGE, TABLE, LocalApi
from tests.support.declared_kinds import Gang, GangStatus, Quota, Team, gang, team


async def test_declared_kinds_are_created_watched_changed_and_deleted() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    client = KubeCluster(InProcessTransport(ApiServer(MemoryCluster(clock), clock)), clock, random=Random(0))
    messages: list[Message] = []
    following = asyncio.ensure_future(client.watch([Team, Quota], messages.append))
    await client.create(team("red", 3))
    await client.create(Quota(metadata=ObjectMeta(name="all")))
    await asyncio.sleep(1.0)

    patched = await client.patch(Team, "red", {"spec": {"maxPods": 5}}, "default")
    stale = replace(patched, metadata=replace(patched.metadata, resource_version="1"))
    with pytest.raises(ClusterError, match=r'teams\.example\.com "red"'):
        await client.update(stale)
    assert [each.spec.max_pods for each in await client.list(Team)] == [5]
    await client.delete(Quota, "all")
    await asyncio.sleep(1.0)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)

    result = [(type(each), each.obj.metadata.name) for each in messages if isinstance(each, Upserted | Deleted)]
    assert sorted(result[:2], key=str) == [(Upserted, "all"), (Upserted, "red")]
    assert result[2:] == [(Upserted, "red"), (Deleted, "all")]
    assert sum(isinstance(each, Synced) for each in messages) == 1


async def test_discovery_lists_declared_kinds() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    server = ApiServer(MemoryCluster(clock), clock)
    answer = await server.answer(Request(method="GET", path="/apis/example.com/v1beta1"))
    assert answer.status == 200
    assert b'"teams"' in answer.body and b'"Team"' in answer.body


async def test_declared_columns_are_printed() -> None:
    api = LocalApi(gang())
    (resource, _) = (await api.call("GET", "/apis/example.com/v1"))["resources"][:2]
    assert (resource["name"], resource["shortNames"], resource["categories"]) == ("gangs", ["gn"], [])
    table = await api.call("GET", GANGS, accept=TABLE)
    assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "PHASE"]
    assert [row["cells"] for row in table["rows"]] == [["crew", None]]


GANGS = "/apis/example.com/v1/namespaces/default/gangs"


async def test_discovery_lists_the_status_of_kinds_that_have_one() -> None:
    api = LocalApi()
    resources = (await api.call("GET", "/apis/example.com/v1"))["resources"]
    assert {each["name"]: each["verbs"] for each in resources if "/" in each["name"]} == {
        "gangs/status": ["get", "patch", "update"]
    }


async def test_status_has_its_own_path() -> None:
    api = LocalApi()
    written = {"metadata": {"name": "crew"}, "spec": {"size": 2}, "status": {"phase": "Running"}}
    created = await api.call("POST", GANGS, written)
    assert "status" not in created
    ignored = await api.call("PUT", f"{GANGS}/crew", created | {"status": {"phase": "Running"}})
    assert "status" not in ignored

    status = {"phase": "Running", "podsRunning": 2, "unread": {"by": "structs"}}
    stored = await api.call("PUT", f"{GANGS}/crew/status", created | {"spec": {"size": 9}, "status": status})
    assert (stored["spec"], stored["status"]) == ({"size": 2}, status)
    assert api.cluster.read(Gang, "crew").status == GangStatus(phase="Running", pods_running=2)
    assert await api.call("GET", f"{GANGS}/crew/status") == stored == await api.call("GET", f"{GANGS}/crew")

    patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 9}, "status": {"phase": None}}
    patched = await api.call("PATCH", f"{GANGS}/crew/status", patch, content_type=MERGE)
    assert (patched["spec"], patched["status"]) == ({"size": 2}, {"podsRunning": 2, "unread": {"by": "structs"}})
    assert "labels" not in patched["metadata"]
    assert api.cluster.read(Gang, "crew").status == GangStatus(pods_running=2)


async def test_unknown_fields_of_a_declared_kind_are_refused_as_asked_for() -> None:
    api = LocalApi()
    misspelt = {"metadata": {"name": "crew"}, "spec": {"siez": 2}}
    status, _, message = await api.call_error("POST", GANGS, misspelt, fieldValidation="Strict")
    assert (status, 'strict decoding error: unknown field "spec.siez"' in message) == (400, True)
    answer = await api.send("POST", GANGS, misspelt)
    assert (answer.status, answer.headers["warning"]) == (201, '299 - "unknown field \\"spec.siez\\""')


async def test_status_update_checks_the_version() -> None:
    api = LocalApi(gang())
    first = await api.call("GET", f"{GANGS}/crew")
    await api.call("PUT", f"{GANGS}/crew/status", first | {"status": {"phase": "Running"}})
    status, reason, _ = await api.call_error("PUT", f"{GANGS}/crew/status", first | {"status": {"phase": "Pending"}})
    assert (status, reason) == (409, "Conflict")
    unversioned = first | {"metadata": {"name": "crew"}}
    status, reason, message = await api.call_error("PUT", f"{GANGS}/crew/status", unversioned)
    assert (status, reason) == (422, "Invalid")
    assert "metadata.resourceVersion" in message


async def test_kind_without_a_status_has_no_status_path() -> None:
    api = LocalApi(Quota(metadata=ObjectMeta(name="all")))
    path = "/apis/example.com/v1/quotas/all/status"
    assert (await api.send("GET", path)).status == 404
    assert (await api.send("PATCH", path, {"status": {}}, content_type=MERGE)).status == 404


@kind("first.example.com/v1", "troops")
class Troop(ApiObject, frozen=True, kw_only=True):
    """A kind whose name another group has as well."""

    status: GangStatus = GangStatus()


@kind("second.example.com/v1alpha2", "troops", name="Troop")
class OtherTroop(ApiObject, frozen=True, kw_only=True):
    """That other kind."""


async def test_kinds_of_the_same_name_in_two_groups_are_separate() -> None:
    api = LocalApi()
    first, second = "/apis/first.example.com/v1", "/apis/second.example.com/v1alpha2"
    for place in (first, second):
        (resource, *_) = (await api.call("GET", place))["resources"]
        assert (resource["name"], resource["kind"]) == ("troops", "Troop")
        troop = {"kind": "Troop", "metadata": {"name": "t", "labels": {"at": place[6:11]}}}
        await api.call("POST", f"{place}/namespaces/default/troops", troop)
    await api.call(
        "PATCH", f"{first}/namespaces/default/troops/t/status", {"status": {"phase": "On"}}, content_type=MERGE
    )
    assert api.cluster.read(Troop, "t").status.phase == "On"
    assert api.cluster.read(OtherTroop, "t").metadata.labels == {"at": "secon"}
    status, _, message = await api.call_error("DELETE", f"{second}/namespaces/default/troops/none")
    assert (status, message) == (404, 'troops.second.example.com "none" not found')
    await api.call("DELETE", f"{second}/namespaces/default/troops/t")
    assert [each["metadata"]["labels"] for each in (await api.call("GET", f"{first}/troops"))["items"]] == [
        {"at": "first"}
    ]
