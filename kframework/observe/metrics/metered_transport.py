"""Counts and measures the requests that a client sends to its API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from time import perf_counter_ns

from kframework.cluster.transport import Request, Response, Stream, Transport, TransportLayer
from kframework.errors import ClusterError
from kframework.observe.metrics.requests import RequestCounts


class MeteredTransport(TransportLayer):
    """A transport whose requests are counted as those to `host`; it stands right before the server.

    Of a stream only its beginning counts.
    """

    def __init__(self, transport: Transport, counts: RequestCounts, host: str) -> None:
        super().__init__(transport)
        self._counts = counts
        self._host = host

    async def send(self, request: Request) -> Response:
        began, status = perf_counter_ns(), 0
        try:
            response = await self._inner.send(request)
            status = response.status
        finally:
            self._counts.ended(self._host, request.method, status)
            self._counts.took(self._host, request.method, perf_counter_ns() - began)
        self._counts.carried(self._host, request.method, sent=len(request.body), received=len(response.body))
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with AsyncExitStack() as open_stream:
            try:
                stream = await open_stream.enter_async_context(self._inner.stream(request))
            except ClusterError:
                self._counts.ended(self._host, request.method, 0)
                raise
            self._counts.ended(self._host, request.method, stream.status)
            yield stream
