"""Requests go over HTTP as they are, and every failure on the way is a ClusterError."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from kframework.client import kube_transport
from kframework.client.kube_transport import KubeTransport
from kframework.client.login import Login
from kframework.client.transport import Request, WriteFence
from kframework.errors import ClusterError, ConfigError

Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Credentials(Login):
    """Hands out one token after the other; None as a token is a login that fails."""

    host = ""
    server_name = None
    proxy = None

    def __init__(self, host: str, *tokens: str | None, reconnect: bool = False) -> None:
        self.host = host
        self.tokens = list(tokens)
        self.authorization = self.tokens.pop(0) if tokens else None
        self.due = float("inf")
        self.renewals = 0
        self.reconnect = reconnect
        self.renewing = asyncio.Event()

    def connector(self) -> aiohttp.BaseConnector:
        return aiohttp.TCPConnector()

    async def renew(self) -> bool:
        self.renewals += 1
        self.renewing.set()
        self.due = float("inf")
        await asyncio.sleep(0.01)
        token = self.tokens.pop(0)
        if token is None:
            raise ConfigError("the plugin is ill", file="f")
        self.authorization = token
        return self.reconnect


@asynccontextmanager
async def serving(handle: Handle) -> AsyncIterator[str]:
    """Serve on a free port and yield the URL."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application, shutdown_timeout=0, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connected(handle: Handle, *tokens: str | None, reconnect: bool = False) -> AsyncIterator[KubeTransport]:
    async with serving(handle) as url:
        transport = KubeTransport(Credentials(url, *tokens, reconnect=reconnect), "test/1")
        try:
            yield transport
        finally:
            await transport.close()


def get(path: str = "/api", seconds: float | None = 5.0) -> Request:
    return Request(method="GET", path=path, timeout=seconds)


async def no_answer(awaitable: Awaitable[object]) -> str:
    with pytest.raises(ClusterError) as caught:
        await awaitable
    assert (caught.value.status, caught.value.retryable) == (0, True)
    return str(caught.value)


async def text(transport: KubeTransport, request: Request) -> list[bytes]:
    async with transport.stream(request) as stream:
        return [line async for line in stream.lines]


async def test_request_is_not_sent_when_its_check_fails_after_connecting() -> None:
    seen: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.Response()

    async with connected(handle) as transport:
        fence = WriteFence()
        request = Request(method="POST", path="/late", timeout=5.0, check_before_send=fence.check)
        in_progress = asyncio.create_task(transport.send(request))
        await asyncio.sleep(0)  # now it waits for its connection
        fence.close()
        with pytest.raises(ClusterError, match="writes are blocked"):
            await in_progress
        await transport.send(get("/read"))
    assert seen == ["/read"]


async def test_request_arrives_unchanged() -> None:
    seen: list[tuple[web.Request, bytes]] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append((request, await request.read()))
        return web.Response(status=409, body=b"no", headers={"Retry-After": "3"})

    async with connected(handle) as transport:
        response = await transport.send(
            Request(
                method="PATCH",
                path="/api/v1/pods/a%2Fb",
                query=(("fieldSelector", "a!=b,c!=d"), ("limit", "5")),
                body=b"{}",
                content_type="application/merge-patch+json",
            )
        )
    assert (response.status, response.body, response.headers["retry-after"]) == (409, b"no", "3")
    ((request, body),) = seen
    assert (request.method, request.raw_path.partition("?")[0], body) == ("PATCH", "/api/v1/pods/a%2Fb", b"{}")
    assert dict(request.query) == {"fieldSelector": "a!=b,c!=d", "limit": "5"}
    headers = {name: request.headers.get(name) for name in ("User-Agent", "Accept", "Content-Type", "Accept-Encoding")}
    assert headers == {
        "User-Agent": "test/1",
        "Accept": "application/json",
        "Content-Type": "application/merge-patch+json",
        "Accept-Encoding": "identity",
    }
    assert "Authorization" not in request.headers


async def test_server_url_may_have_a_path() -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(text=request.path)

    async with serving(handle) as url:
        transport = KubeTransport(Credentials(f"{url}/k8s/clusters/c-1"), "test/1")
        assert (await transport.send(get())).body == b"/k8s/clusters/c-1/api"
        await transport.close()


async def test_redirects_are_not_followed() -> None:
    async def handle(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "http://elsewhere"})

    async with connected(handle, "Bearer a") as transport:
        assert (await transport.send(get())).status == 302


async def test_response_without_a_length_is_read() -> None:
    async with connected(pieces(b"ab", b"c")) as transport:
        assert (await transport.send(get())).body == b"abc"


def pieces(*parts: bytes, status: int = 200, then: float = 0.0) -> Handle:
    """Answer piece by piece, and pause at the end for `then` seconds."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        for part in parts:
            await response.write(part)
            await asyncio.sleep(0.005)
        await asyncio.sleep(then)
        return response

    return handle


@pytest.mark.parametrize("declared", [True, False])
async def test_too_large_response_is_an_error(monkeypatch: pytest.MonkeyPatch, declared: bool) -> None:
    monkeypatch.setattr(kube_transport, "MAX_RESPONSE_BYTES", 10)

    async def handle(request: web.Request) -> web.Response:
        return web.Response(body=b"x" * int(request.query["size"]))

    async with connected(handle if declared else pieces(b"x" * 6, b"x" * 5)) as transport:
        if declared:
            request = Request(method="GET", path="/", query=(("size", "10"),))
            assert (await transport.send(request)).body == b"x" * 10
        error = await no_answer(transport.send(Request(method="GET", path="/", query=(("size", "11"),))))
        assert error == "GET /: the answer is longer than 10 bytes"


async def test_refused_connection_is_an_error() -> None:
    async with serving(pieces()) as url:
        pass
    transport = KubeTransport(Credentials(url), "test/1")
    place = url.removeprefix("http://")
    for call in (transport.send(get()), text(transport, get())):
        assert await no_answer(call) == f"GET /api: cannot connect to {place}: connection refused"
    await transport.close()


async def test_late_response_is_an_error() -> None:
    async with connected(pieces(b"x", then=5)) as transport:
        assert await no_answer(transport.send(get(seconds=0.05))) == "GET /api: no answer within 0.05 s"


async def test_broken_connection_is_an_error() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "10"})
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.close()
        return response

    async with connected(handle) as transport:
        assert (await no_answer(transport.send(get()))).startswith("GET /api: ")
        assert (await no_answer(text(transport, get()))).startswith("GET /api: ")


async def test_unresolvable_host_is_an_error() -> None:
    transport = KubeTransport(Credentials("nonsense"), "test/1")
    assert (await no_answer(transport.send(get()))).startswith("GET /api: ")
    await transport.close()


async def test_lines_are_split_across_chunks() -> None:
    async with connected(pieces(b'{"a":1}\n{"b"', b":2}\n\n", b"{", b"}", b"\n3\n4")) as transport:
        assert await text(transport, get()) == [b'{"a":1}', b'{"b":2}', b"{}", b"3", b"4"]


async def test_lines_come_before_the_end() -> None:
    async with connected(pieces(b"1\n2\n", then=60)) as transport, transport.stream(get()) as stream:
        assert [await anext(stream.lines), await anext(stream.lines)] == [b"1", b"2"]


async def test_silent_stream_is_an_error() -> None:
    async with connected(pieces(b"1\n", then=5)) as transport, transport.stream(get(seconds=0.05)) as stream:
        assert await anext(stream.lines) == b"1"
        assert await no_answer(anext(stream.lines)) == "GET /api: no answer within 0.05 s"


async def test_stream_lasts_longer_than_its_time_while_something_comes() -> None:
    async with connected(pieces(*[b"1\n"] * 30)) as transport:
        assert len(await text(transport, get(seconds=0.1))) == 30


async def test_refused_stream_comes_as_a_whole() -> None:
    async with connected(pieces(b'{"kind":\n', b'"Status"}', status=410)) as transport:
        async with transport.stream(get()) as stream:
            assert stream.status == 410
            assert [line async for line in stream.lines] == [b'{"kind":\n"Status"}']


async def test_too_long_line_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube_transport, "MAX_LINE_BYTES", 10)
    async with connected(pieces(b"x" * 10, b"\n", b"x" * 11, b"\n")) as transport, transport.stream(get()) as stream:
        assert await anext(stream.lines) == b"x" * 10
        assert await no_answer(anext(stream.lines)) == "GET /api: a line is longer than 10 bytes"


async def test_leaving_a_stream_ends_it() -> None:
    ended = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"1\n")
                await asyncio.sleep(0.005)
        finally:
            ended.set()

    async with connected(handle) as transport:
        async with transport.stream(get()) as stream:
            assert await anext(stream.lines) == b"1"
        await asyncio.wait_for(ended.wait(), 5)


def door(*keys: str) -> tuple[Handle, list[str]]:
    """Let in who has one of these keys; return the door and the list of all that were shown."""
    shown: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        shown.append(request.headers.get("Authorization", ""))
        return web.Response(status=200 if shown[-1] in keys else 401, body=b"body")

    return handle, shown


async def test_request_is_repeated_after_a_new_login_on_401() -> None:
    handle, shown = door("new")
    async with connected(handle, "old", "new") as transport:
        assert (await transport.send(get())).status == 200
        assert (await transport.send(get())).status == 200
    assert shown == ["old", "new", "new"]


async def test_stream_is_repeated_after_a_new_login_on_401() -> None:
    handle, shown = door("new")
    async with connected(handle, "old", "new") as transport:
        assert await text(transport, get()) == [b"body"]
    assert shown == ["old", "new"]


async def test_concurrent_requests_share_one_login() -> None:
    handle, shown = door("new")
    async with connected(handle, "old", "new") as transport:
        responses = await asyncio.gather(*(transport.send(get()) for _ in range(5)))
        assert [response.status for response in responses] == [200] * 5
        assert transport._credentials.renewals == 1  # type: ignore[attr-defined]  # they are the ones of this file
    assert shown == ["old"] * 5 + ["new"] * 5


@pytest.mark.parametrize("second", ["old", None])
async def test_401_is_returned_when_a_new_login_does_not_help(
    second: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    handle, shown = door()
    async with connected(handle, "old", second) as transport:
        assert (await transport.send(get())).status == 401
    assert shown == ["old"]
    assert caplog.messages == (["f: the plugin is ill"] if second is None else [])


async def test_cancelled_request_does_not_cancel_the_shared_login() -> None:
    handle, _ = door("new")
    async with connected(handle, "old", "new") as transport:
        first, second = (asyncio.ensure_future(transport.send(get())) for _ in range(2))
        await transport._credentials.renewing.wait()  # type: ignore[attr-defined]  # they are the ones of this file
        first.cancel()
        assert (await second).status == 200


async def test_credentials_are_renewed_before_they_end_while_requests_go_on() -> None:
    handle, shown = door("old", "new")
    async with connected(handle, "old", "new") as transport:
        transport._credentials.due = 0.0
        await transport.send(get())
        await asyncio.sleep(0.05)
        await transport.send(get())
    assert shown == ["old", "new"]


async def test_another_certificate_takes_another_connection() -> None:
    peers = []

    async def handle(request: web.Request) -> web.Response:
        assert request.transport is not None
        peers.append(request.transport.get_extra_info("peername"))
        return web.Response(status=401 if len(peers) == 2 else 200)

    async with connected(handle, "same", "same", reconnect=True) as transport:
        assert [(await transport.send(get())).status for _ in range(2)] == [200, 200]
    assert peers[0] == peers[1] != peers[2]
