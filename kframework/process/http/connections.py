"""Limits on connections to the HTTP server: their number, and how long a peer may be idle or slow.

aiohttp has no timeout for the rest of a request's headers or for a peer that does not read, and accepts any number of
connections. Answers in progress have no time limit as long as they are read.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web

#: The maximum number of connections. One without a complete request holds up to 1 MiB of headers.
MAX_CONNECTIONS = 128

#: The time limits for the headers of a request including the handshake, and for an idle connection between two
#: requests, in seconds, as in kube-scheduler.
HEADER_TIMEOUT, IDLE_TIMEOUT = 32.0, 90.0

#: The time limit for a peer to read a full buffer, some 64 KiB, in seconds.
STALL_TIMEOUT = 30.0


class Connections:
    """The connections of a server.

    Above the limit, the connection that has waited longest without a request is closed, even if that is the new one: a
    client that sends its request at once, as a probe does, is served, whatever others do. `tls` returns the TLS context
    of the next connection, None for no TLS.
    """

    def __init__(self, most: int = MAX_CONNECTIONS, tls: Callable[[], ssl.SSLContext | None] = lambda: None) -> None:
        self._most = most
        self.tls: Callable[[], ssl.SSLContext | None] = tls
        self._open: dict[asyncio.BaseProtocol, _Connection] = {}
        #: The number of requests in progress.
        self.in_progress: int = 0

    def protocol_factory(self, server: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """Return a protocol factory for connections to aiohttp's server, which must report its requests."""
        return lambda: _Connection(self, server())

    @contextmanager
    def in_request(self, request: web.BaseRequest) -> Iterator[None]:
        """Exempt the connection of a request from limits while inside."""
        connection = self._open.get(request.protocol)
        self.in_progress += 1
        if connection is not None:
            connection.start_request()
        try:
            yield
        finally:
            self.in_progress -= 1
            if connection is not None:
                connection.end_request()

    def add(self, handler: asyncio.BaseProtocol, connection: _Connection) -> None:
        """Count a connection that waits for a request from now on."""
        self._open.pop(handler, None)
        self._open[handler] = connection
        if len(self._open) > self._most:
            next(each for each in (*self._open.values(), connection) if each.waiting).abort()

    def discard(self, handler: asyncio.BaseProtocol) -> None:
        self._open.pop(handler, None)

    def abort(self) -> None:
        for connection in list(self._open.values()):
            connection.abort()

    def __len__(self) -> int:
        return len(self._open)


@asynccontextmanager
async def listen_at(
    runner: web.BaseRunner, connections: Connections, address: str, port: int
) -> AsyncIterator[tuple[str, int]]:
    """Serve at an address while inside, and yield host and port; port 0 is any free one, OSError if it fails."""
    await runner.setup()
    try:
        assert runner.server is not None
        server = await asyncio.get_running_loop().create_server(
            connections.protocol_factory(runner.server), address, port
        )
        try:
            host, found, *_ = server.sockets[0].getsockname()
            yield host, found
        finally:
            server.close()
    finally:
        await runner.cleanup()
        connections.abort()


class _Connection(asyncio.Protocol):
    """One connection: a timer that wraps aiohttp's own protocol and forwards everything to it."""

    def __init__(self, connections: Connections, handler: asyncio.Protocol) -> None:
        self._connections = connections
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._idle = self._lost = False
        #: Whether no request is in progress.
        self.waiting: bool = True

    def start_request(self) -> None:
        self.waiting = self._idle = False
        self._cancel(self._deadline)

    def end_request(self) -> None:
        if not self._lost:
            self.waiting = self._idle = True
            self._set_deadline(IDLE_TIMEOUT)
            self._connections.add(self._handler, self)

    def abort(self) -> None:
        self._connections.discard(self._handler)
        self._transport.abort()

    def _set_deadline(self, seconds: float) -> None:
        self._cancel(self._deadline)
        self._deadline = self._loop.call_later(seconds, self.abort)

    def _cancel(self, timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        tls = self._connections.tls()
        if tls is None:
            self._handler.connection_made(transport)
        else:
            transport.pause_reading()
            self._handshake = self._loop.create_task(self._start_tls(transport, tls))
        self._set_deadline(HEADER_TIMEOUT)
        self._connections.add(self._handler, self)

    async def _start_tls(self, transport: asyncio.Transport, tls: ssl.SSLContext) -> None:
        try:
            secure = await self._loop.start_tls(
                transport, self, tls, server_side=True, ssl_handshake_timeout=HEADER_TIMEOUT
            )
        except OSError:  # ssl.SSLError is one, and so is TimeoutError
            secure = None
        if secure is None or secure.is_closing():
            transport.abort()
            self.connection_lost(None)
            return
        self._transport, self._handshake = secure, None
        self._handler.connection_made(secure)

    def data_received(self, data: bytes) -> None:
        if self._idle:
            self._idle = False
            self._set_deadline(HEADER_TIMEOUT)
        self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        return self._handler.eof_received()

    def pause_writing(self) -> None:
        self._stalled = self._loop.call_later(STALL_TIMEOUT, self.abort)
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._cancel(self._stalled)
        self._handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._lost:
            return
        self._lost = True
        self._connections.discard(self._handler)
        self._cancel(self._deadline)
        self._cancel(self._stalled)
        if self._handshake is None:
            self._handler.connection_lost(exc)
