"""Requests are counted by how they ended, right before the server, under the names of Kubernetes' own client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kframework.client.transport import Request, Response, Stream
from kframework.errors import ClusterError
from kframework.observe.metrics.requests import MeteredTransport, RequestMetrics
from tests.observe.metrics.exposition import count_of, samples, sum_of, text, values

API = "10.0.0.1:6443"


def test_request_is_counted_with_duration_and_sizes() -> None:
    counts = RequestMetrics()
    counts.observe_wait(API, "POST", 0.5)
    counts.requests[201, "POST", API] += 1
    counts.durations["POST", API].observe(3_000_000)
    counts.sent["POST", API].observe(100)
    counts.received["POST", API].observe(2_000)
    shown = {name: value for name, value in samples(text(counts.series)).items() if "_bucket" not in name}
    labels = f'{{host="{API}",verb="POST"}}'
    assert shown == {
        f'rest_client_requests_total{{code="201",host="{API}",method="POST"}}': 1,
        f"rest_client_request_duration_seconds_sum{labels}": 0.003,
        f"rest_client_request_duration_seconds_count{labels}": 1,
        f"rest_client_rate_limiter_duration_seconds_sum{labels}": 0.5,
        f"rest_client_rate_limiter_duration_seconds_count{labels}": 1,
        f"rest_client_request_size_bytes_sum{labels}": 100,
        f"rest_client_request_size_bytes_count{labels}": 1,
        f"rest_client_response_size_bytes_sum{labels}": 2_000,
        f"rest_client_response_size_bytes_count{labels}": 1,
    }


def test_request_without_a_response_is_counted_as_error() -> None:
    counts = RequestMetrics()
    counts.requests[0, "GET", API] += 1
    assert list(samples(text(counts.series))) == [
        f'rest_client_requests_total{{code="<error>",host="{API}",method="GET"}}'
    ]


PODS = Request(method="GET", path="/api/v1/pods")
BIND = Request(method="POST", path="/api/v1/namespaces/a/pods/b/binding", body=b"{...}")


class Server:
    """A transport that answers with a status, or not at all if that is 0."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.closed = False

    async def send(self, request: Request) -> Response:
        self._fail()
        return Response(self.status, b"0123456789")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        self._fail()

        async def lines() -> AsyncIterator[bytes]:
            yield b"{}"
            raise ClusterError("the connection broke", status=0)

        yield Stream(self.status, lines())

    async def close(self) -> None:
        self.closed = True

    def _fail(self) -> None:
        if not self.status:
            raise ClusterError("no connection", status=0)


def metered(status: int = 200) -> tuple[MeteredTransport, RequestMetrics]:
    counts = RequestMetrics()
    return MeteredTransport(Server(status), counts, API), counts


def results(counts: RequestMetrics) -> dict[tuple[str, ...], float]:
    return values(counts.series, "rest_client_requests_total")


@pytest.mark.parametrize("status", [200, 409, 500])
async def test_response_is_returned_and_counted(status: int) -> None:
    transport, counts = metered(status)
    assert await transport.send(BIND) == Response(status, b"0123456789")
    assert results(counts) == {(str(status), API, "POST"): 1}
    assert count_of(counts.series, "rest_client_request_duration_seconds") == {(API, "POST"): 1}
    assert sum_of(counts.series, "rest_client_request_size_bytes") == {(API, "POST"): 5}
    assert sum_of(counts.series, "rest_client_response_size_bytes") == {(API, "POST"): 10}


async def test_transport_error_is_counted_and_raised() -> None:
    transport, counts = metered(0)
    with pytest.raises(ClusterError):
        await transport.send(PODS)
    with pytest.raises(ClusterError):
        async with transport.stream(PODS):
            pass
    assert results(counts) == {("<error>", API, "GET"): 2}
    assert count_of(counts.series, "rest_client_request_duration_seconds") == {(API, "GET"): 1}
    assert count_of(counts.series, "rest_client_response_size_bytes") == {}


async def test_stream_is_counted_once() -> None:
    transport, counts = metered()
    async with transport.stream(PODS) as stream:
        assert results(counts) == {("200", API, "GET"): 1}
        with pytest.raises(ClusterError, match="broke"):
            assert [line async for line in stream.lines] == []
    assert results(counts) == {("200", API, "GET"): 1}


async def test_exception_while_reading_a_stream_is_not_counted_again() -> None:
    transport, counts = metered()
    with pytest.raises(ClusterError, match="mine"):
        async with transport.stream(PODS):
            raise ClusterError("mine", status=0)
    assert results(counts) == {("200", API, "GET"): 1}


async def test_metered_transport_closes_the_inner_transport() -> None:
    server = Server(200)
    await MeteredTransport(server, RequestMetrics(), API).close()
    assert server.closed
