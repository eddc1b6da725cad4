"""Metrics of requests to the API server, named as in Kubernetes' own client and counted right before the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from time import perf_counter_ns

from kframework.client.transport import Request, Response, Stream, Transport, TransportLayer
from kframework.errors import ClusterError
from kframework.observe.metrics import families
from kframework.observe.metrics.series import NANOSECONDS, CounterSeries, HistogramSeries, Series, as_labels

#: Histograms by method and host.
_ByHost = HistogramSeries[tuple[str, str]]


class RequestMetrics:
    """Metrics of requests to API servers; `requests` counts by status (0: no answer), method, and host with port."""

    def __init__(self) -> None:
        self.requests: CounterSeries[tuple[int, str, str]] = CounterSeries(
            families.REST_CLIENT_REQUESTS, _request_labels
        )
        self.durations: _ByHost = HistogramSeries(families.REST_CLIENT_REQUEST_DURATION, as_labels, scale=NANOSECONDS)
        self._waits: _ByHost = HistogramSeries(families.REST_CLIENT_RATE_LIMITER_DURATION, as_labels, scale=NANOSECONDS)
        self.sent: _ByHost = HistogramSeries(families.REST_CLIENT_REQUEST_SIZE, as_labels)
        self.received: _ByHost = HistogramSeries(families.REST_CLIENT_RESPONSE_SIZE, as_labels)
        #: All that is counted here.
        self.series: tuple[Series, ...] = (self.requests, self.durations, self._waits, self.sent, self.received)

    def observe_wait(self, host: str, method: str, seconds: float) -> None:
        self._waits[method, host].observe(round(seconds * NANOSECONDS))


def _request_labels(key: tuple[int, str, str]) -> tuple[str, ...]:
    status, method, host = key
    return str(status) if status else "<error>", method, host


class MeteredTransport(TransportLayer):
    """The innermost transport, which counts its requests as those to `host`; a stream counts until it has begun."""

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
            self._counts.requests[status, request.method, self._host] += 1
            self._counts.durations[request.method, self._host].observe(perf_counter_ns() - start)
        self._counts.sent[request.method, self._host].observe(len(request.body))
        self._counts.received[request.method, self._host].observe(len(response.body))
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with AsyncExitStack() as open_stream:
            try:
                stream = await open_stream.enter_async_context(self._inner.stream(request))
            except ClusterError:
                self._counts.requests[0, request.method, self._host] += 1
                raise
            self._counts.requests[stream.status, request.method, self._host] += 1
            yield stream
