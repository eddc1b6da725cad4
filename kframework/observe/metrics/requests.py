"""Metrics of requests to the API server, named as in Kubernetes' own client and counted right before the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from time import perf_counter_ns

from kframework.client.transport import Request, Response, Stream, Transport, TransportLayer
from kframework.errors import ClusterError
from kframework.observe.metrics import families
from kframework.observe.metrics.series import NANOSECONDS, CounterSeries, HistogramSeries, Series, as_labels


class RequestMetrics:
    """Counts and measures requests to API servers; `host` is a server's name and port."""

    def __init__(self) -> None:
        self._requests = CounterSeries(families.REST_CLIENT_REQUESTS, _request_labels)
        self._times = HistogramSeries(families.REST_CLIENT_REQUEST_DURATION, as_labels, scale=NANOSECONDS)
        self._waits = HistogramSeries(families.REST_CLIENT_RATE_LIMITER_DURATION, as_labels, scale=NANOSECONDS)
        self._sent = HistogramSeries(families.REST_CLIENT_REQUEST_SIZE, as_labels)
        self._received = HistogramSeries(families.REST_CLIENT_RESPONSE_SIZE, as_labels)
        #: All that is counted here.
        self.series: tuple[Series, ...] = (self._requests, self._times, self._waits, self._sent, self._received)

    def count_request(self, host: str, method: str, status: int) -> None:
        """Count a request: its answer has begun, or will not come (status 0)."""
        self._requests[status, method, host] += 1

    def observe_duration(self, host: str, method: str, nanoseconds: int) -> None:
        self._times[method, host].observe(nanoseconds)

    def observe_sizes(self, host: str, method: str, *, sent: int, received: int) -> None:
        self._sent[method, host].observe(sent)
        self._received[method, host].observe(received)

    def observe_wait(self, host: str, method: str, seconds: float) -> None:
        self._waits[method, host].observe(round(seconds * NANOSECONDS))


def _request_labels(key: tuple[int, str, str]) -> tuple[str, ...]:
    status, method, host = key
    return str(status) if status else "<error>", method, host


class MeteredTransport(TransportLayer):
    """A transport that counts its requests as those to `host`; it is the innermost layer, right before the server.

    A stream counts only until it has begun.
    """

    def __init__(self, transport: Transport, counts: RequestMetrics, host: str) -> None:
        super().__init__(transport)
        self._counts = counts
        self._host = host

    async def send(self, request: Request) -> Response:
        start, status = perf_counter_ns(), 0
        try:
            response = await self._inner.send(request)
            status = response.status
        finally:
            self._counts.count_request(self._host, request.method, status)
            self._counts.observe_duration(self._host, request.method, perf_counter_ns() - start)
        self._counts.observe_sizes(self._host, request.method, sent=len(request.body), received=len(response.body))
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with AsyncExitStack() as open_stream:
            try:
                stream = await open_stream.enter_async_context(self._inner.stream(request))
            except ClusterError:
                self._counts.count_request(self._host, request.method, 0)
                raise
            self._counts.count_request(self._host, request.method, stream.status)
            yield stream
