"""A proxy in front of an API server, over plain HTTP on this machine: it refuses, loses and delays what passes it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from random import Random

import yaml
from aiohttp import web

from kframework.client.kube import ConnectionSettings, connect
from kframework.client.transport import JSON, Request, Transport
from kframework.clock import SystemClock
from kframework.errors import ClusterError
from tests.support.faulty_transport import FaultyTransport, Rates

#: Headers of answers that clients read.
_HEADERS = ("content-type", "retry-after")


@contextmanager
def faulty_proxy(kubeconfig: Path, copy: Path, rates: Rates, seed: int = 0) -> Iterator[None]:
    """Run a proxy to the server of a kubeconfig, as its user; the copy leads over the proxy."""
    loop, ended = asyncio.new_event_loop(), asyncio.Event()
    ports = SimpleQueue[int]()

    async def serve() -> None:
        transport = await connect(ConnectionSettings(kubeconfig=str(kubeconfig)))
        # kube-apiserver always says that a request may come again after one second.
        faulty = FaultyTransport(transport, Random(seed), rates, SystemClock(), max_retry_after=1)

        async def handle(incoming: web.BaseRequest) -> web.StreamResponse:
            return await _pass_on(incoming, faulty)

        runner = web.ServerRunner(web.Server(handle, handler_cancellation=True, access_log=None), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        ports.put(runner.addresses[0][1])
        await ended.wait()
        await runner.cleanup()
        await transport.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    copy.write_text(yaml.safe_dump(_kubeconfig(ports.get())))
    try:
        yield
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


async def _pass_on(incoming: web.BaseRequest, transport: Transport) -> web.StreamResponse:
    request = Request(
        method=incoming.method,
        path=incoming.path,
        query=tuple(incoming.query.items()),
        body=await incoming.read(),
        content_type=incoming.headers.get("content-type", JSON),
        accept=incoming.headers.get("accept", JSON),
    )
    try:
        if "watch" in incoming.query:
            return await _pass_on_watch(incoming, request, transport)
        response = await transport.send(request)
    except ClusterError:
        assert incoming.transport is not None
        incoming.transport.abort()
        return web.Response()  # not sent: the connection is closed
    headers = {name: value for name, value in response.headers.items() if name in _HEADERS}
    return web.Response(status=response.status, body=response.body, headers=headers)


async def _pass_on_watch(incoming: web.BaseRequest, request: Request, transport: Transport) -> web.StreamResponse:
    async with transport.stream(request) as stream:
        headers = {name: value for name, value in stream.headers.items() if name in _HEADERS}
        answer = web.StreamResponse(status=stream.status, headers=headers)
        await answer.prepare(incoming)
        async for line in stream.lines:
            await answer.write(line + b"\n")
        return answer


def _kubeconfig(port: int) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "faulty", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "contexts": [{"name": "faulty", "context": {"cluster": "faulty", "user": ""}}],
        "current-context": "faulty",
    }
