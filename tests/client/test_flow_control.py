"""Requests wait for their turn as those of kube-scheduler's clients do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.client.flow_control import FlowControl, TokenBucket
from kframework.client.transport import Request, Response, Stream
from kframework.clock import LoopClock, run_virtual
from kframework.config.load import parse
from kframework.config.models import ClientConnection

PODS = Request(method="PATCH", path="/api/v1/namespaces/default/pods/p/status")
EVENTS = Request(method="POST", path="/apis/events.k8s.io/v1/namespaces/default/events")


class Noting:
    """A transport that answers at once and notes when it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, str]] = []
        self.closed = False

    async def send(self, request: Request) -> Response:
        self.asked.append((asyncio.get_running_loop().time(), request.path))
        return Response(200)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        @asynccontextmanager
        async def answer() -> AsyncIterator[Stream]:
            yield Stream(200, lines())

        async def lines() -> AsyncIterator[bytes]:
            yield b"{}"

        return answer()

    async def close(self) -> None:
        self.closed = True


def connection(qps: float, burst: int) -> ClientConnection:
    text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    return parse(f"{text}clientConnection: {{qps: {qps}, burst: {burst}}}\n").settings.client_connection


def times(requests: list[Request], qps: float = 10, burst: int = 2) -> list[tuple[float, str]]:
    """Say when each of these requests, all made at once, was sent."""

    async def main() -> list[tuple[float, str]]:
        noting = Noting()
        control = FlowControl(noting, connection(qps, burst), LoopClock(asyncio.get_running_loop()))
        await asyncio.gather(*map(control.send, requests))
        return noting.asked

    return run_virtual(main)


def test_a_burst_passes_and_the_rest_waits_for_its_turn() -> None:
    sent = [at for at, _ in times([PODS] * 5)]
    assert sent == pytest.approx([0.0, 0.0, 0.1, 0.2, 0.3])


def test_events_have_a_bucket_of_their_own() -> None:
    sent = times([PODS, EVENTS, PODS, EVENTS, PODS, EVENTS])
    assert [path for at, path in sent if at == 0.0] == [PODS.path, EVENTS.path] * 2
    assert [path for at, path in sent if at > 0.0] == [PODS.path, EVENTS.path]


@pytest.mark.parametrize(
    ("qps", "burst", "at_once"),
    [(0, 0, 100), (0, 7, 7), (20, 0, 100), (-1, 1, 300)],
    ids=["defaults", "default qps", "default burst", "no limit"],
)
def test_zero_means_the_default_and_a_negative_rate_no_limit(qps: float, burst: int, at_once: int) -> None:
    sent = [at for at, _ in times([PODS] * 300, qps, burst)]
    assert sent.count(0.0) == at_once


def test_without_configuration_it_is_fifty_a_second_after_a_hundred() -> None:
    sent = [at for at, _ in times([PODS] * 150, 0, 0)]
    assert sent.count(0.0) == 100
    assert sent[-1] == pytest.approx(1.0, abs=1e-4)


def test_every_wait_for_a_turn_is_told() -> None:
    told: list[tuple[str, float]] = []

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        control = FlowControl(Noting(), connection(10, 2), clock, lambda *wait: told.append(wait))
        await asyncio.gather(*map(control.send, [PODS, PODS, PODS, EVENTS]))

    run_virtual(main)
    assert sorted(told) == [("PATCH", 0.0), ("PATCH", 0.0), ("PATCH", pytest.approx(0.1)), ("POST", 0.0)]


def in_virtual_time(work: Coroutine[object, object, None]) -> None:
    async def main() -> None:
        await work

    run_virtual(main)


def test_whoever_is_cancelled_has_used_up_its_turn_and_stops_nobody() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        bucket = TokenBucket(1, 1, LoopClock(loop))
        assert await bucket.admit() == 0.0
        first, second = (asyncio.ensure_future(bucket.admit()) for _ in range(2))
        await asyncio.sleep(0.5)
        first.cancel()
        await second
        assert loop.time() == 2.0

    in_virtual_time(work())


def test_streams_do_not_count() -> None:
    async def work() -> None:
        loop, noting = asyncio.get_running_loop(), Noting()
        control = FlowControl(noting, connection(1, 1), LoopClock(loop))
        await control.send(PODS)
        for _ in range(5):
            async with control.stream(PODS) as stream:
                assert [line async for line in stream.lines] == [b"{}"]
        assert loop.time() == 0.0
        await control.close()
        assert noting.closed

    in_virtual_time(work())


def test_long_waits_are_told_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        times([PODS] * 20, 1, 1)  # the waits are 1 s, 2 s, ... 19 s
    line = "a request has waited {} s for its turn: clientConnection allows 1 a second and bursts of 1 ({})"
    remedy = "qps -1 lifts the limit"
    told = [record.getMessage() for record in caplog.records]
    assert told == [line.format("1.0", remedy), line.format("11.0", remedy)]


@given(
    st.integers(1, 8),
    st.integers(1, 5),
    st.lists(st.integers(0, 12), max_size=30),
)
def test_it_fills_as_a_bucket_does(qps: int, burst: int, pauses: list[int]) -> None:
    """The slow version counts tokens: one trickles in every 1/qps seconds, and one is owed by whoever waits."""

    async def measured() -> list[float]:
        loop = asyncio.get_running_loop()
        bucket, waits = TokenBucket(qps, burst, LoopClock(loop)), []
        for pause in pauses:
            await asyncio.sleep(pause / 16)
            waits.append(asyncio.ensure_future(bucket.admit()))
        return list(await asyncio.gather(*waits))

    expected, tokens = [], float(burst)
    for pause in pauses:
        tokens = min(burst, tokens + qps * pause / 16) - 1
        expected.append(max(0.0, -tokens / qps))
    assert run_virtual(measured) == pytest.approx(expected, abs=1e-5)
