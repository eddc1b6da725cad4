"""Requests wait for their turn as those of kube-scheduler's clients do, and writes for a place at the server.

As many writes are in flight as the server takes, each class has its share, and every write ends.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.client.flow_control import (
    FAILURE_BUDGET,
    FAILURE_PAUSE,
    LATENCY_TOLERANCE,
    LATENCY_WINDOW,
    MAX_LIMIT,
    PROBE_DIVISOR,
    ROUND_INCREASE,
    FlowControl,
    TokenBucket,
    WriteClass,
    WriteLimit,
)
from kframework.client.kube_cluster import KubeCluster
from kframework.client.rest import send_with_retries
from kframework.client.transport import Request, Response, Stream, Transport
from kframework.clock import LoopClock, VirtualTimeLoop, run_virtual
from kframework.config.load import parse
from kframework.config.models import ClientConnection
from kframework.errors import ClusterError
from tests.client.scripted import NO_ANSWER, Answer, Scripted, ok, refused
from tests.support.scale import sampled
from tests.support.slow_server import SlowServer

STATUS = Request(method="PATCH", path="/api/v1/namespaces/default/pods/p/status")
EVENT = Request(method="POST", path="/apis/events.k8s.io/v1/namespaces/default/events")
BINDING = Request(method="POST", path="/api/v1/namespaces/default/pods/p/binding")
READ = Request(method="GET", path="/api/v1/namespaces/default/pods/p")

#: How many writers never cease to write.
WRITERS = 300


@pytest.fixture
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


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


def test_burst_passes_and_the_rest_waits_for_its_turn() -> None:
    sent = [at for at, _ in times([STATUS] * 5)]
    assert sent == pytest.approx([0.0, 0.0, 0.1, 0.2, 0.3])


def test_events_have_a_bucket_of_their_own() -> None:
    sent = times([STATUS, EVENT, STATUS, EVENT, STATUS, EVENT])
    assert [path for at, path in sent if at == 0.0] == [STATUS.path, EVENT.path] * 2
    assert [path for at, path in sent if at > 0.0] == [STATUS.path, EVENT.path]


@pytest.mark.parametrize(
    ("qps", "burst", "at_once"),
    [(0, 0, 100), (0, 7, 7), (20, 0, 100), (-1, 1, 300)],
    ids=["defaults", "default qps", "default burst", "no limit"],
)
def test_zero_means_the_default_and_a_negative_rate_no_limit(qps: float, burst: int, at_once: int) -> None:
    sent = [at for at, _ in times([STATUS] * 300, qps, burst)]
    assert sent.count(0.0) == at_once


def test_without_configuration_it_is_fifty_a_second_after_a_hundred() -> None:
    sent = [at for at, _ in times([STATUS] * 150, 0, 0)]
    assert sent.count(0.0) == 100
    assert sent[-1] == pytest.approx(1.0, abs=1e-4)


async def test_every_wait_is_reported() -> None:
    told: list[tuple[str, float]] = []
    clock = LoopClock(asyncio.get_running_loop())
    control = FlowControl(Noting(), connection(10, 2), clock, lambda *wait: told.append(wait))
    await asyncio.gather(*map(control.send, [STATUS, STATUS, STATUS, EVENT]))
    assert sorted(told) == [("PATCH", 0.0), ("PATCH", 0.0), ("PATCH", pytest.approx(0.1)), ("POST", 0.0)]


async def test_cancelled_request_uses_up_its_turn_and_blocks_no_other() -> None:
    loop = asyncio.get_running_loop()
    bucket = TokenBucket(1, 1, LoopClock(loop))
    assert await bucket.admit() == 0.0
    first, second = (asyncio.ensure_future(bucket.admit()) for _ in range(2))
    await asyncio.sleep(0.5)
    first.cancel()
    await second
    assert loop.time() == 2.0


async def test_streams_do_not_count() -> None:
    loop, noting = asyncio.get_running_loop(), Noting()
    control = FlowControl(noting, connection(1, 1), LoopClock(loop))
    await control.send(STATUS)
    for _ in range(5):
        async with control.stream(STATUS) as stream:
            assert [line async for line in stream.lines] == [b"{}"]
    assert loop.time() == 0.0
    await control.close()
    assert noting.closed


def test_long_waits_are_logged_at_an_interval(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        times([STATUS] * 20, 1, 1)  # the waits are 1 s, 2 s, ... 19 s
    line = (
        "waited {} s due to client-side throttling: clientConnection allows 1 requests per second and bursts of 1 ({})"
    )
    remedy = "qps: -1 removes the limit"
    told = [record.getMessage() for record in caplog.records]
    assert told == [line.format("1.0", remedy), line.format("11.0", remedy)]


@given(
    st.integers(1, 8),
    st.integers(1, 5),
    st.lists(st.integers(0, 12), max_size=30),
)
def test_bucket_refills_at_its_rate(qps: int, burst: int, pauses: list[int]) -> None:
    """The slow version counts tokens: one trickles in every 1/qps seconds, and each waiting write owes one."""

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


def unlimited(transport: Transport) -> FlowControl:
    """Let requests pass at any rate, so that only writes may have to wait."""
    return FlowControl(transport, ClientConnection(qps=-1.0), LoopClock(asyncio.get_running_loop()))


def is_empty(control: FlowControl) -> bool:
    places = repr(control.slots)
    return places.startswith("<WriteSlots 0 of ") and places.endswith(" 0 waiting>")


class Rush:
    """A server that writers never cease to write to, each one request after the other."""

    def __init__(self, server: SlowServer) -> None:
        self.server = server
        self.control = unlimited(server)
        self.tasks: asyncio.Task[None] | None = None

    def counts(self) -> Counter[str]:
        """Return the number of writes per path since the last call."""
        counts = Counter(path.rpartition("/")[2] for _, path in self.server.done)
        self.server.done.clear()
        return counts

    async def write(self, request: Request) -> None:
        while True:
            try:
                await send_with_retries(self.control, request)
            except ClusterError:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def rushing(server: SlowServer, *requests: Request) -> AsyncIterator[Rush]:
    rush = Rush(server)
    async with anyio.create_task_group() as tasks:
        for request in requests:
            for _ in range(WRITERS):
                tasks.start_soon(rush.write, request)
        yield rush
        tasks.cancel_scope.cancel()
    await asyncio.sleep(1.0)  # a failed write keeps its slot for the Retry-After
    assert is_empty(rush.control), "all places were given back"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capacity", "latency"), sampled([(20, 0.05), (200, 0.3), (1000, 0.005), (3000, 0.015), (400, 0.1)])
)
async def test_limit_converges_to_the_servers_capacity(capacity: int, latency: float) -> None:
    """It keeps the server busy, and no write waits there for much longer than it must."""
    async with rushing(SlowServer(capacity, latency), BINDING) as rush:
        await asyncio.sleep(8.0)
        rush.counts()
        rush.server.most = 0
        await asyncio.sleep(20.0)
        assert rush.counts().total() >= 0.93 * 20 * capacity
        needed = capacity * (latency + LATENCY_TOLERANCE)
        assert rush.server.most <= 2 * needed + 24


async def test_limit_has_a_maximum() -> None:
    async with rushing(SlowServer(1000000.0, 0.1), BINDING) as rush:
        await asyncio.sleep(5.0)
        assert 100 < rush.server.most <= MAX_LIMIT


async def test_limit_doubles_until_responses_are_slow_and_outlives_the_measurement_of_the_best() -> None:
    limit = WriteLimit(clock := LoopClock(asyncio.get_running_loop()))

    async def round_of(latency: float) -> float:
        sent, limit.is_saturated = clock.now(), True
        await asyncio.sleep(latency)
        for _ in range(math.ceil(limit.value)):
            limit.record_answer(WriteClass.BINDING, sent)
        return limit.value

    assert [await round_of(0.1) for _ in range(2)] == [32.0, 64.0]
    assert await round_of(1.0) < 64.0
    grown = await round_of(0.1)
    assert await round_of(0.1) == grown + ROUND_INCREASE
    await asyncio.sleep(LATENCY_WINDOW)
    assert await round_of(0.1) == (grown + ROUND_INCREASE) / PROBE_DIVISOR
    assert await round_of(0.1) == grown + ROUND_INCREASE
    await asyncio.sleep(LATENCY_WINDOW)
    assert await round_of(0.1) == grown + ROUND_INCREASE, "no round was slow since then"


@pytest.mark.slow
async def test_limit_adapts_when_the_server_becomes_slower_or_faster() -> None:
    async with rushing(SlowServer(1000, 0.01), BINDING) as rush:
        for latency, capacity in ((0.01, 500), (0.2, 200), (0.01, 500)):
            rush.server.latency, rush.server.capacity = latency, capacity
            await asyncio.sleep(20.0)
            rush.counts()
            await asyncio.sleep(10.0)
            assert rush.counts().total() >= 0.9 * 10 * capacity


async def test_limit_stays_when_no_write_waits() -> None:
    limit = WriteLimit(clock := LoopClock(asyncio.get_running_loop()))
    for _ in range(200):
        sent = clock.now()
        await asyncio.sleep(0.2)
        limit.record_answer(WriteClass.BINDING, sent)
    assert limit.value == 16.0


def overload(limit: WriteLimit) -> None:
    """Spend the budget of failures."""
    for _ in range(int(FAILURE_BUDGET)):
        limit.record_failure(0.0)


async def test_failures_halve_the_limit_once_a_round() -> None:
    limit = WriteLimit(clock := LoopClock(asyncio.get_running_loop()))
    overload(limit)
    limit.value = 16.0
    await asyncio.sleep(1.0)
    sent = clock.now()
    await asyncio.sleep(1.0)
    for _ in range(16):
        limit.record_failure(sent)
    assert limit.value == 8.0
    for _ in range(9):
        await asyncio.sleep(1.0)
        limit.record_failure(clock.now())
    assert limit.value == 1.0


async def test_deferring_server_gets_no_more_requests_than_it_allows() -> None:
    async with rushing(SlowServer(500, 0.2), BINDING, EVENT) as rush:
        rush.server.room = 0
        await asyncio.sleep(10.0)
        assert rush.server.answers[429] <= 16 + 10 * 8
        assert set(rush.server.answers) == {429}
        rush.server.room = 50
        await asyncio.sleep(20.0)
        rush.server.answers.clear()
        rush.counts()
        await asyncio.sleep(60.0)
        assert rush.counts().total() >= 0.6 * 60 * 250
        assert rush.server.answers[429] < 0.02 * rush.server.answers[201]


@pytest.mark.parametrize("request_", [BINDING, STATUS, EVENT], ids=["binding", "status", "event"])
async def test_deferred_requests_are_retried_at_the_servers_time(request_: Request) -> None:
    inner = Scripted(refused(429, retry_after="7"), refused(503, retry_after="2"), ok({}))
    await send_with_retries(unlimited(inner), request_)
    assert inner.at == [0.0, 7.0, 9.0]


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (refused(429, retry_after="7"), 7.0),
        (refused(500), FAILURE_PAUSE),
        (NO_ANSWER, FAILURE_PAUSE),
        (refused(409), 0.0),
        (ok({}), 0.0),
    ],
    ids=["429", "500", "no answer", "409", "200"],
)
async def test_failed_write_keeps_its_slot_for_a_pause_at_an_overloaded_server(answer: Answer, seconds: float) -> None:
    inner = Scripted(*[answer] * 16, *[ok({})] * 16)
    control = unlimited(inner)
    overload(control.slots.limit)
    control.slots.limit.value = 16.0
    await asyncio.gather(*[control.send(BINDING) for _ in range(32)], return_exceptions=True)
    assert inner.at == [0.0] * 16 + [seconds] * 16


@pytest.mark.parametrize("answer", [refused(429, retry_after="7"), refused(500), NO_ANSWER])
async def test_single_failures_change_neither_slots_nor_limit(answer: Answer) -> None:
    answers = [answer if number % 4 == 0 else ok({}) for number in range(400)]
    inner = Scripted(*answers)
    control = unlimited(inner)
    await asyncio.gather(*[control.send(BINDING) for _ in answers], return_exceptions=True)
    assert set(inner.at) == {0.0}
    assert control.slots.limit.value >= 16.0


async def test_failures_beyond_the_budget_mean_overload_until_it_has_recovered() -> None:
    limit = WriteLimit(clock := LoopClock(asyncio.get_running_loop()))
    assert [limit.record_failure(clock.now()) for _ in range(17)] == [False] * 15 + [True] * 2
    await asyncio.sleep(LATENCY_WINDOW)
    for _ in range(31):
        limit.record_answer(WriteClass.BINDING, clock.now())
    assert limit.record_failure(clock.now())
    for _ in range(34):
        limit.record_answer(WriteClass.BINDING, clock.now())
    assert not limit.record_failure(clock.now())


async def test_slow_responses_to_fewer_than_three_quarters_of_the_writes_leave_the_limit() -> None:
    """A server whose responses are all slow is overloaded; it is not, if some are fast."""

    async def grown_limit(slow_of_ten: int) -> float:
        limit = WriteLimit(clock := LoopClock(asyncio.get_running_loop()))
        for _ in range(12):
            sent = clock.now()
            limit.is_saturated = True
            slow = int(limit.value) * slow_of_ten // 10
            await asyncio.sleep(0.01)
            for _ in range(int(limit.value) - slow):
                limit.record_answer(WriteClass.BINDING, sent)
            await asyncio.sleep(0.5)
            for _ in range(slow):
                limit.record_answer(WriteClass.BINDING, sent)
        return limit.value

    assert await grown_limit(7) > 100
    assert await grown_limit(8) < 40


@pytest.mark.slow
@pytest.mark.parametrize("hangs", [False, True], ids=["refuses connections", "hangs"])
async def test_server_that_is_down_gets_few_requests_until_it_recovers(hangs: bool) -> None:
    async with rushing(SlowServer(500, 0.02), BINDING, EVENT) as rush:
        await asyncio.sleep(10.0)
        rush.server.down, rush.server.hangs = not hangs, hangs
        rush.server.answers.clear()
        await asyncio.sleep(300.0)
        assert rush.server.answers[0] <= 300 / FAILURE_PAUSE * 2 + MAX_LIMIT
        rush.server.down = rush.server.hangs = False
        await asyncio.sleep(35.0)
        rush.counts()
        await asyncio.sleep(30.0)
        assert rush.counts().total() >= 0.9 * 30 * 500


async def test_each_class_has_its_share_while_all_of_them_wait() -> None:
    async with rushing(SlowServer(1000, 0.02), BINDING, STATUS, EVENT) as rush:
        await asyncio.sleep(5.0)
        rush.counts()
        await asyncio.sleep(20.0)
        counts = rush.counts()
        shares = {name: count / counts.total() for name, count in counts.items()}
        assert shares == pytest.approx({"binding": 0.7, "status": 0.2, "events": 0.1}, abs=0.04)


@pytest.mark.slow
@pytest.mark.parametrize("first", [BINDING, EVENT], ids=["bindings", "events"])
async def test_neither_bindings_nor_events_starve(first: Request) -> None:
    """What comes into a rush of the other class has its share, whichever was there first."""
    async with rushing(SlowServer(1000, 0.02), first) as rush:
        other = EVENT if first is BINDING else BINDING
        await asyncio.sleep(5.0)
        async with anyio.create_task_group() as tasks:
            for _ in range(WRITERS):
                tasks.start_soon(rush.write, other)
            await asyncio.sleep(5.0)
            rush.counts()
            await asyncio.sleep(20.0)
            counts = rush.counts()
            assert counts["events"] / counts.total() == pytest.approx(1 / 8, abs=0.04)
            tasks.cancel_scope.cancel()


async def test_events_that_hang_delay_no_binding() -> None:
    async with rushing(SlowServer(500, 0.02), EVENT) as rush:
        rush.server.slower["events.k8s.io"] = 60.0
        await asyncio.sleep(120.0)
        async with anyio.create_task_group() as tasks:
            for _ in range(WRITERS):
                tasks.start_soon(rush.write, BINDING)
            await asyncio.sleep(10.0)
            rush.counts()
            await asyncio.sleep(30.0)
            assert rush.counts()["binding"] >= 0.85 * 30 * 500
            tasks.cancel_scope.cancel()


async def test_reads_need_no_slot() -> None:
    inner = Scripted(*[ok({})] * 3)
    control = unlimited(inner)
    control.slots.limit.value = 1.0
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(control.send, READ)
        await asyncio.sleep(1.0)
        assert inner.at == [0.0] * 5
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("request_", "most"), [(BINDING, 16), (STATUS, 8), (EVENT, 4)], ids=["binding", "status", "event"]
)
async def test_writes_that_hang_take_part_of_the_slots(request_: Request, most: int) -> None:
    control = unlimited(Scripted())
    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(control.send, request_)
        await asyncio.sleep(1.0)
        assert repr(control.slots) == f"<WriteSlots {most} of 16 taken, {20 - most} waiting>"
        tasks.cancel_scope.cancel()


async def test_write_rejected_before_it_is_sent_does_not_change_the_limit() -> None:
    """Such as by a fence that is closed."""
    closed = ClusterError("stopped", status=403, reason="Stopped")
    control = unlimited(Scripted(*[closed] * 20))
    for _ in range(20):
        with pytest.raises(ClusterError, match="stopped"):
            await control.send(BINDING)
    assert repr(control.slots) == "<WriteSlots 0 of 16 taken, 0 waiting>"


@given(st.lists(st.tuples(st.sampled_from([BINDING, STATUS, EVENT]), st.integers(0, 30), st.integers(1, 60))))
async def test_cancelled_write_frees_its_slot(writes: list[tuple[Request, int, int]]) -> None:
    """Each starts and gives up after a number of milliseconds, whether it waits or runs."""
    server = SlowServer(300, 0.01)
    control = unlimited(server)
    control.slots.limit.value = 2.0

    async def write(request: Request, start: int, patience: int) -> None:
        await asyncio.sleep(start / 1000)
        with anyio.move_on_after(patience / 1000):
            await control.send(request)

    async with anyio.create_task_group() as tasks:
        for each in writes:
            tasks.start_soon(write, *each)
    assert is_empty(control)
    async with asyncio.timeout(60.0):
        await asyncio.gather(*[control.send(request) for request, _, _ in writes])


async def test_client_with_flow_control_does_every_write() -> None:
    loop = asyncio.get_running_loop()
    server = SlowServer(100, 0.01)
    cluster = KubeCluster(unlimited(server), LoopClock(loop), random=Random(0))
    await asyncio.gather(*[cluster.bind("default", str(number), "", "n") for number in range(500)])
    assert len({path for _, path in server.done}) == 500
    assert loop.time() < 5.6
