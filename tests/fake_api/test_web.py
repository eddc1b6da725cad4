"""The server over HTTP on this machine."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import aiohttp
import msgspec
import pytest

from kframework.client.transport import User
from kframework.clock import SystemClock
from kframework.fake_api.access import AlwaysAllow, Authorizer, RbacAuthorizer
from kframework.fake_api.authentication import Authenticator
from kframework.fake_api.server import ApiServer
from kframework.fake_api.web import MAX_BODY_BYTES, serve
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Lease, Node, ObjectMeta
from tests.fake_api.local_api import NODES, PODS, node, read


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


class Line:
    """A client of a server, and the cluster behind that."""

    def __init__(self, cluster: MemoryCluster, server: ApiServer, session: aiohttp.ClientSession, port: int) -> None:
        self.cluster = cluster
        self.server = server
        self.session = session
        self.port = port


@asynccontextmanager
async def line(
    authorize: Callable[[MemoryCluster], Authorizer] = AlwaysAllow,
    tokens: Mapping[str, User] | None = None,
) -> AsyncIterator[Line]:
    cluster = MemoryCluster(SystemClock(), [Node(metadata=ObjectMeta(name="n1", labels={"a": "b"}))])
    server = ApiServer(cluster, SystemClock(), authorize=authorize)
    server.authenticator = Authenticator(server.accounts, tokens)
    async with serve(server) as port, aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        yield Line(cluster, server, session, port)


async def test_requests_are_answered_over_http() -> None:
    async with line() as client:
        async with client.session.post(NODES, json=node("n2")) as answer:
            assert (answer.status, answer.content_type) == (201, "application/json")
            assert (await answer.json())["metadata"]["name"] == "n2"
        async with client.session.get(NODES, params={"labelSelector": "a in (b),a!=c"}) as answer:
            assert [each["metadata"]["name"] for each in (await answer.json())["items"]] == ["n1"]
        async with client.session.delete(f"{NODES}/n2") as answer:
            assert (await answer.json())["status"] == "Success"
        async with client.session.get(f"{NODES}/n2") as answer:
            assert (answer.status, (await answer.json())["reason"]) == (404, "NotFound")
        async with client.session.post(PODS, data="a=b") as answer:
            assert (answer.status, (await answer.json())["reason"]) == (415, "UnsupportedMediaType")


ANN, ADA = "Bearer ann's", "Bearer ada's"
EVERYWHERE = 'in API group "" at the cluster scope'
TOKENS = {"ann's": User("ann", ("dev",)), "ada's": User("ada", ("system:masters",))}


@pytest.mark.parametrize(
    ("headers", "status", "message"),
    [
        ({"Authorization": ADA}, 200, None),
        ({"Authorization": "Bearer other"}, 401, "Unauthorized"),
        (
            {},
            403,
            f'nodes is forbidden: User "system:anonymous" cannot list resource "nodes" {EVERYWHERE}',
        ),
        (
            {"Authorization": ANN},
            403,
            f'nodes is forbidden: User "ann" cannot list resource "nodes" {EVERYWHERE}',
        ),
        (
            {"Authorization": ADA, "Impersonate-User": "bob"},
            403,
            f'nodes is forbidden: User "bob" cannot list resource "nodes" {EVERYWHERE}',
        ),
        ({"Authorization": ADA, "Impersonate-User": "bob", "Impersonate-Group": "system:masters"}, 200, None),
        (
            {"Authorization": ANN, "Impersonate-User": "bob"},
            403,
            f'users "bob" is forbidden: User "ann" cannot impersonate resource "users" {EVERYWHERE}',
        ),
        (
            {"Authorization": ADA, "Impersonate-Group": "dev", "Impersonate-Extra-Scopes": "x"},
            400,
            "requested Impersonate-Group, Impersonate-Extra-Scopes without impersonating a user name",
        ),
        (
            {"Authorization": ADA, "Impersonate-Uid": "7"},
            400,
            "requested Impersonate-Uid without impersonating a user name",
        ),
        (
            {"Authorization": ANN, "Impersonate-User": "system:serviceaccount:shop:robot"},
            403,
            (
                'serviceaccounts "robot" is forbidden: User "ann" cannot impersonate resource "serviceaccounts" '
                'in API group "" in the namespace "shop"'
            ),
        ),
    ],
)
async def test_users_are_authenticated_and_authorized(
    headers: dict[str, str], status: int, message: str | None
) -> None:
    async with line(RbacAuthorizer, TOKENS) as client, client.session.get(NODES, headers=headers) as answer:
        assert (answer.status, (await answer.json()).get("message")) == (status, message)


async def test_rejection_names_its_subject() -> None:
    async with line(RbacAuthorizer, {}) as client, client.session.get(f"{NODES}/n1") as answer:
        assert (await answer.json())["details"] == {"name": "n1", "kind": "nodes"}


async def test_watch_is_streamed_line_by_line() -> None:
    async with line() as client:
        async with client.session.get(NODES, params={"watch": "true"}) as answer:
            assert (answer.status, answer.headers["transfer-encoding"]) == (200, "chunked")
            assert read(await answer.content.readline())["type"] == "ADDED"
            client.cluster.remove(Node, "n1")
            event = read(await answer.content.readline())
            assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "n1")
        async with client.session.get(NODES, params={"watch": "true", "timeoutSeconds": "1"}) as answer:
            assert await answer.read() == b""


async def test_disconnected_client_is_dropped() -> None:
    async with line() as client:
        async with client.session.get(NODES, params={"watch": "true"}) as answer:
            await answer.content.readline()
            (remaining,) = client.server._store._collections.values()
            assert len(remaining._listeners) == 1
            answer.close()
        async with asyncio.timeout(10):
            while remaining._listeners:  # noqa: ASYNC110 -- nothing tells that a connection was closed
                await asyncio.sleep(0)


async def test_too_large_body_is_rejected() -> None:
    async with line() as client, client.session.post(NODES, data=io.BytesIO(b" " * (MAX_BODY_BYTES + 1))) as answer:
        assert answer.status == 413
        assert (await answer.json())["reason"] == "RequestEntityTooLarge"


async def test_foreign_host_header_is_rejected() -> None:
    async with line() as client, client.session.get(NODES, headers={"Host": "evil.example"}) as answer:
        assert (answer.status, (await answer.json())["code"]) == (421, 421)


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://evil.example", 403),
        ("null", 403),
        ("http://localhost:3000", 201),
    ],
)
async def test_request_of_a_foreign_page_is_refused(origin: str, status: int) -> None:
    body, headers = msgspec.json.encode(node("n2")), {"Origin": origin}
    async with line() as client:
        async with client.session.post(NODES, data=body, headers=headers, skip_auto_headers=["Content-Type"]) as answer:
            assert answer.status == status
        assert (client.cluster.find(Node, "n2") is not None) == (status == 201)


async def test_watches_end_with_the_server() -> None:
    cluster = MemoryCluster(SystemClock())
    async with aiohttp.ClientSession() as session:
        async with serve(ApiServer(cluster, SystemClock())) as port:
            answer = await session.get(f"http://127.0.0.1:{port}/api/v1/pods", params={"watch": "true"})
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_server_error_is_logged_and_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with line() as client:
        monkeypatch.setattr(client.server, "begin", lambda request: 1 // 0)
        with caplog.at_level(logging.ERROR, "kframework.fake_api.web"):
            async with client.session.get(NODES) as answer:
                assert (answer.status, (await answer.json())["reason"]) == (500, "InternalError")
    assert "ZeroDivisionError" in caplog.text


async def test_taken_port_is_an_error() -> None:
    async with line() as client:
        with pytest.raises(OSError, match="address already in use"):
            async with serve(client.server, port=client.port):
                pass


async def test_slow_reader_delays_no_other() -> None:
    async with line() as client:
        leases = "/apis/coordination.k8s.io/v1/leases"
        async with client.session.get(leases, params={"watch": "true"}) as slow:
            for turn in range(200):
                metadata = ObjectMeta(name="l", namespace="default", annotations={"a": f"{turn}" + "x" * 100_000})
                client.cluster.put(Lease(metadata=metadata))
                await asyncio.sleep(0)
            async with client.session.get(f"{NODES}/n1") as answer:
                assert answer.status == 200
            assert read(await slow.content.readuntil(b"\n"))["type"] == "ADDED"
