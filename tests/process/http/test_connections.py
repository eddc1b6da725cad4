"""Connections to a port: how many there may be, and how long a peer may be silent, slow or deaf, on virtual time."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import ClientSession, web

from kframework.clock import VirtualTimeLoop, run_virtual
from kframework.process.http import connections as module
from kframework.process.http.connections import HEADER_TIMEOUT, IDLE_TIMEOUT, STALL_TIMEOUT, Connections, listen_at

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Wire(asyncio.Transport):
    """A connection without a network: a peer that sends what the test says, and reads until it is deaf."""

    def __init__(self, server: Callable[[], asyncio.Protocol]) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self.protocol = server()
        self.sent = b""
        self.deaf = self._paused = False
        self.ended_at: float | None = None
        self.protocol.connection_made(self)

    def peer_sends(self, data: bytes) -> None:
        if self.ended_at is None:
            self.protocol.data_received(data)

    def peer_reads(self) -> None:
        self.deaf = self._paused = False
        self.protocol.resume_writing()

    def write(self, data: bytes | bytearray | memoryview[int]) -> None:
        self.sent += data
        if self.deaf and not self._paused:
            self._paused = True
            self.protocol.pause_writing()

    def writelines(self, data: object) -> None:
        self.write(b"".join(data))  # type: ignore[arg-type]  # of bytes

    def is_closing(self) -> bool:
        return self.ended_at is not None

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if self.ended_at is None:
            self.ended_at = self._loop.time()
            self._loop.call_soon(self.protocol.connection_lost, None)

    _start_tls_compatible = True

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.BufferedProtocol)
        self.protocol = protocol  # type: ignore[assignment]  # a peer that shakes no hands sends nothing

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


async def well(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="ok")


class Port:
    """A server whose connections are wires."""

    def __init__(
        self, handle: Handle = well, most: int = 100, tls: Callable[[], ssl.SSLContext | None] = lambda: None
    ) -> None:
        self.connections = Connections(most, tls)

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            with self.connections.in_request(request):
                return await handle(request)

        self.server = web.Server(answer, access_log=None, keepalive_timeout=10 * IDLE_TIMEOUT)
        self._make = self.connections.protocol_factory(self.server)

    def connect(self) -> Wire:
        return Wire(self._make)

    async def close(self) -> None:
        self.connections.abort()
        await asyncio.sleep(0)
        await self.server.shutdown(0)


@pytest.fixture
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


async def test_peer_without_a_request_is_disconnected() -> None:
    port, began = Port(), asyncio.get_running_loop().time()
    wire = port.connect()
    await asyncio.sleep(10 * HEADER_TIMEOUT)
    assert wire.ended_at == began + HEADER_TIMEOUT
    assert not len(port.connections)
    await port.close()


async def test_peer_that_sends_byte_by_byte_is_cut() -> None:
    port, began = Port(), asyncio.get_running_loop().time()
    wire = port.connect()
    for byte in b"GET / HTTP/1.1\r\nX-Slow: " + b"x" * 100:
        wire.peer_sends(bytes([byte]))
        await asyncio.sleep(1)
    assert wire.ended_at == began + HEADER_TIMEOUT
    await port.close()


def test_peer_that_shakes_no_hands_is_cut() -> None:
    async def story() -> None:
        port = Port(tls=lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        wire, began = port.connect(), asyncio.get_running_loop().time()
        await asyncio.sleep(HEADER_TIMEOUT - 1)
        assert len(port.connections) == 1  # it counts before its handshake is done
        await asyncio.sleep(10 * HEADER_TIMEOUT)
        assert wire.ended_at == began + HEADER_TIMEOUT
        assert not len(port.connections)
        await port.close()

    run_virtual(story)  # which passes over what such a wire lacks


@pytest.mark.parametrize(
    ("first_byte", "ends"),
    [(None, IDLE_TIMEOUT), (5.0, 5.0 + HEADER_TIMEOUT), (IDLE_TIMEOUT - 1, IDLE_TIMEOUT - 1 + HEADER_TIMEOUT)],
)
async def test_connection_that_lies_idle_is_cut(first_byte: float | None, ends: float) -> None:
    """The next request has its time, and from its first byte on no more than a first one."""
    port = Port()
    wire = port.connect()
    wire.peer_sends(REQUEST)
    await asyncio.sleep(0.001)
    assert wire.sent.startswith(b"HTTP/1.1 200")
    answered = asyncio.get_running_loop().time()
    if first_byte is not None:
        await asyncio.sleep(first_byte)
        wire.peer_sends(b"G")
    await asyncio.sleep(10 * IDLE_TIMEOUT)
    assert wire.ended_at == pytest.approx(answered + ends, abs=0.01)
    await port.close()


async def test_connection_with_a_request_in_time_stays() -> None:
    port = Port()
    wire = port.connect()
    for _ in range(5):
        wire.peer_sends(REQUEST)
        await asyncio.sleep(IDLE_TIMEOUT - 1)
    assert wire.ended_at is None
    assert wire.sent.count(b"HTTP/1.1 200") == 5
    await port.close()


async def streaming(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"a line\n")
        await asyncio.sleep(IDLE_TIMEOUT)


async def test_long_stream_stays_as_long_as_it_is_read() -> None:
    port = Port(streaming)
    wire = port.connect()
    wire.peer_sends(REQUEST)
    await asyncio.sleep(50 * IDLE_TIMEOUT)
    assert wire.ended_at is None
    assert wire.sent.count(b"a line") >= 50
    await port.close()


async def test_peer_that_does_not_read_is_cut() -> None:
    port = Port(streaming)
    wire, began = port.connect(), asyncio.get_running_loop().time()
    wire.deaf = True
    wire.peer_sends(REQUEST)
    await asyncio.sleep(STALL_TIMEOUT - 1)
    wire.peer_reads()  # just in time
    await asyncio.sleep(IDLE_TIMEOUT)
    assert wire.ended_at is None
    wire.deaf = True
    await asyncio.sleep(IDLE_TIMEOUT + STALL_TIMEOUT)
    assert wire.ended_at is not None
    assert (wire.ended_at - began) % IDLE_TIMEOUT == pytest.approx(STALL_TIMEOUT)
    await port.close()


async def test_idle_connections_are_closed_for_new_requests() -> None:
    port = Port(most=3)
    busy, *silent = (port.connect() for _ in range(3))
    busy.peer_sends(REQUEST)
    await asyncio.sleep(0.001)  # it has been heard, so it has been silent for the shortest time
    probe = port.connect()
    probe.peer_sends(REQUEST)
    await asyncio.sleep(0.001)
    assert probe.sent.startswith(b"HTTP/1.1 200")
    assert [wire.ended_at is not None for wire in (busy, *silent, probe)] == [False, True, False, False]
    assert len(port.connections) == 3
    await port.close()


async def test_connections_with_pending_answers_stay() -> None:
    port = Port(streaming, most=3)
    busy = [port.connect() for _ in range(3)]
    for wire in busy:
        wire.peer_sends(REQUEST)
    await asyncio.sleep(1)
    assert port.connections.in_progress == 3
    late = port.connect()
    assert late.ended_at is not None
    assert [wire.ended_at for wire in busy] == [None] * 3
    await port.close()
    assert port.connections.in_progress == len(port.connections) == 0


async def test_port_of_ones_own() -> None:
    connections = Connections()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        with connections.in_request(request):
            return await well(request)

    runner = web.ServerRunner(web.Server(answer, access_log=None))
    async with listen_at(runner, connections, "127.0.0.1", 0) as (host, port):
        async with ClientSession() as session, session.get(f"http://{host}:{port}") as response:
            assert await response.text() == "ok"
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(REQUEST)
        await reader.readuntil(b"ok")
    assert await reader.read() == b""  # who is idle at the end is cut
    assert not len(connections)
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, port)


async def test_silent_peer_is_closed_at_the_limit() -> None:
    connections = Connections(most=1)
    runner = web.ServerRunner(web.Server(lambda request: well(request), access_log=None))
    async with listen_at(runner, connections, "127.0.0.1", 0) as (host, port):
        reader, silent = await asyncio.open_connection(host, port)
        async with ClientSession() as session, session.get(f"http://{host}:{port}") as response:
            assert await response.text() == "ok"
        assert await reader.read() == b""
        silent.close()


def test_times_are_kube_scheduler_s() -> None:
    assert (module.HEADER_TIMEOUT, module.IDLE_TIMEOUT) == (32, 90)
