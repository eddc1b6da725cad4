"""The way to the server without a socket."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from kframework.client.transport import Transport
from kframework.errors import ClusterError
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.objects import Node, ObjectMeta
from tests.fake_api.local_api import NODES, Events, LocalApi, node, read, request


async def test_request_is_answered_in_process() -> None:
    transport: Transport = InProcessTransport(LocalApi().server)
    assert (await transport.send(request("POST", NODES, node()))).status == 201
    assert read((await transport.send(request("GET", f"{NODES}/n1"))).body)["kind"] == "Node"
    assert (await transport.send(request("GET", f"{NODES}/n2"))).status == 404
    await transport.close()


async def test_stream_is_answered_in_process() -> None:
    api = LocalApi(Node(metadata=ObjectMeta(name="n1")))
    transport = InProcessTransport(api.server)
    async with transport.stream(request("GET", NODES, watch="1", timeoutSeconds=5)) as stream:
        events = Events(stream.lines)
        assert stream.status == 200
        assert await events.take(1) == ["ADDED n1"]
        api.cluster.remove(Node, "n1")
        assert await events.remaining() == ["DELETED n1"]
    async with transport.stream(request("GET", "/api/v1/nonsense", watch="1")) as stream:
        assert stream.status == 404
        assert [read(line)["reason"] async for line in stream.lines] == ["NotFound"]


async def test_silent_stream_times_out() -> None:
    api = LocalApi()
    loop = asyncio.get_running_loop()
    sent = request("GET", NODES, watch="1")
    async with InProcessTransport(api.server).stream(replace(sent, timeout=30.0)) as stream:
        loop.call_later(20, api.cluster.add, Node(metadata=ObjectMeta(name="n1")))
        assert read(await anext(stream.lines))["type"] == "ADDED"
        with pytest.raises(ClusterError, match="no answer for 30 s") as failed:
            await anext(stream.lines)
    assert (failed.value.status, failed.value.retryable) == (0, True)
    assert loop.time() >= 50
