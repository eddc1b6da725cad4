"""A faulty transport does what its rates say, at the time it should, and the same again with the same seed."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import TypeVar

import msgspec
import pytest

from kframework import ClusterError
from kframework.client.transport import Request, Response, Stream
from kframework.clock import VIRTUAL_EPOCH, LoopClock, run_virtual
from tests.support.faulty_transport import FaultyTransport, Rates

T = TypeVar("T")

GET = Request(method="GET", path="/api/v1/pods", timeout=10.0)
POST = Request(method="POST", path="/api/v1/pods", timeout=10.0)
BIND = Request(method="POST", path="/api/v1/namespaces/default/pods/p/binding", timeout=10.0)
NEXT_PAGE = Request(method="GET", path="/api/v1/pods", query=(("continue", "token"),), timeout=10.0)
WATCH = Request(method="GET", path="/api/v1/pods", query=(("watch", "true"),), timeout=10.0)

LINES = [b'{"n":1}', b'{"n":2}', b'{"n":3}']


class PlainTransport:
    """A transport that answers everything: with a body, or with a line every second."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.closed = False
        self.streams = 0

    async def send(self, request: Request) -> Response:
        self.asked.append(request)
        return Response(200, b"{}")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        self.asked.append(request)
        self.streams += 1
        try:
            yield Stream(200, self._lines())
        finally:
            self.streams -= 1

    async def _lines(self) -> AsyncIterator[bytes]:
        for line in LINES:
            await asyncio.sleep(1.0)
            yield line

    async def close(self) -> None:
        self.closed = True


class TransportTrial:
    """What came of asking through a faulty transport."""

    def __init__(self, rates: Rates, until: float = math.inf) -> None:
        self.plain = PlainTransport()
        self._rates = rates
        self._until = until
        self.seconds = 0.0

    def run(self, ask: Callable[[FaultyTransport], Awaitable[T]]) -> T:
        async def main() -> T:
            clock = LoopClock(asyncio.get_running_loop())
            self.faulty = FaultyTransport(self.plain, Random(1), self._rates, clock, self._until)
            try:
                return await ask(self.faulty)
            finally:
                self.seconds = clock.now() - VIRTUAL_EPOCH

        return run_virtual(main)

    def send(self, request: Request) -> Response:
        return self.run(lambda faulty: faulty.send(request))

    def follow(self, request: Request = WATCH) -> tuple[int, list[bytes]]:
        return self.run(lambda faulty: follow_watch(faulty, request))


async def follow_watch(faulty: FaultyTransport, request: Request) -> tuple[int, list[bytes]]:
    async with faulty.stream(request) as stream:
        return stream.status, [line async for line in stream.lines]


def test_requests_succeed_without_faults() -> None:
    quiet = TransportTrial(Rates())
    assert quiet.send(GET) == Response(200, b"{}")
    assert quiet.follow() == (200, LINES)
    assert quiet.plain.asked == [GET, WATCH]
    quiet.run(lambda faulty: faulty.close())
    assert quiet.plain.closed and not quiet.faulty.counts


@pytest.mark.parametrize(
    ("rates", "request_", "status", "reason"),
    [
        (Rates(conflict=1.0), POST, 409, "Conflict"),
        (Rates(too_many_requests=1.0), GET, 429, "TooManyRequests"),
        (Rates(internal_error=1.0), GET, 500, "InternalError"),
        (Rates(unavailable=1.0), POST, 503, "ServiceUnavailable"),
        (Rates(expired=1.0), NEXT_PAGE, 410, "Expired"),
    ],
)
def test_refused_request_has_a_status_and_no_effect(rates: Rates, request_: Request, status: int, reason: str) -> None:
    refusing = TransportTrial(rates)
    response = refusing.send(request_)
    said = msgspec.json.decode(response.body)
    assert (response.status, said["kind"], said["code"], said["reason"]) == (status, "Status", status, reason)
    assert not refusing.plain.asked and refusing.faulty.counts.total() == 1
    assert ("retry-after" in response.headers) == (status == 429)


@pytest.mark.parametrize(("rates", "request_"), [(Rates(conflict=1.0), GET), (Rates(expired=1.0), GET)])
def test_refusal_that_a_method_cannot_have_does_not_occur(rates: Rates, request_: Request) -> None:
    assert TransportTrial(rates).send(request_).status == 200


@pytest.mark.parametrize(("rates", "done"), [(Rates(lost=1.0), False), (Rates(unanswered=1.0), True)])
def test_unanswered_request_fails_after_the_timeout(rates: Rates, done: bool) -> None:
    silent = TransportTrial(rates)
    with pytest.raises(ClusterError) as raised:
        silent.send(POST)
    assert (raised.value.status, raised.value.retryable, silent.seconds) == (0, True, 10.0)
    assert bool(silent.plain.asked) == done


@pytest.mark.parametrize(("request_", "status"), [(POST, 504), (BIND, 409)])
def test_failed_answer_may_hide_a_completed_write(request_: Request, status: int) -> None:
    doubtful = TransportTrial(Rates(doubtful=1.0))
    assert doubtful.send(request_).status == status
    assert doubtful.plain.asked == [request_]


def test_late_answer_arrives_within_the_timeout() -> None:
    late = TransportTrial(Rates(late=1.0))
    assert late.send(POST).status == 200
    assert 0.0 < late.seconds < 10.0


@pytest.mark.parametrize("rates", [Rates(expired=1.0), Rates(unavailable=1.0)])
def test_watch_may_be_refused(rates: Rates) -> None:
    refusing = TransportTrial(rates)
    status, (body,) = refusing.follow()
    assert status == msgspec.json.decode(body)["code"] >= 400
    assert not refusing.plain.asked


def test_watch_may_get_no_answer() -> None:
    with pytest.raises(ClusterError):
        TransportTrial(Rates(lost=1.0)).follow()


def test_dropped_watch_ends() -> None:
    assert TransportTrial(Rates(dropped=1.0)).follow() == (200, [])


def test_expired_version_ends_a_watch_with_an_error() -> None:
    status, (line,) = TransportTrial(Rates(forgotten=1.0)).follow()
    event = msgspec.json.decode(line)
    assert (status, event["type"], event["object"]["code"]) == (200, "ERROR", 410)


def test_stalled_watch_fails_after_its_timeout() -> None:
    stalled = TransportTrial(Rates(stalls=1.0))
    with pytest.raises(ClusterError) as raised:
        stalled.follow()
    assert (raised.value.status, stalled.seconds) == (0, 11.0)


def test_watch_events_are_repeated() -> None:
    assert TransportTrial(Rates(repeated=1.0)).follow() == (200, [line for line in LINES for _ in range(2)])


def test_watch_events_are_delayed() -> None:
    slow = TransportTrial(Rates(slow=1.0))
    assert slow.follow() == (200, LINES)
    assert slow.seconds > 3.5


@pytest.mark.parametrize("rates", [Rates(), Rates(dropped=0.5), Rates(repeated=0.5)])
def test_underlying_stream_is_closed(rates: Rates) -> None:
    watch = TransportTrial(rates)
    watch.follow()
    assert watch.plain.streams == 0


def test_restart_drops_connections_and_refuses_new_ones() -> None:
    server = TransportTrial(Rates())

    async def ask(faulty: FaultyTransport) -> list[bytes]:
        seen = []
        asyncio.get_running_loop().call_later(1.5, faulty.restart, 2.5)
        with pytest.raises(ClusterError, match="closed"):
            async with faulty.stream(WATCH) as stream:
                async for line in stream.lines:
                    seen.append(line)  # noqa: PERF401 - what came before the break counts
        assert asyncio.get_running_loop().time() == 1.5
        for request in (GET, POST):
            with pytest.raises(ClusterError, match="refused") as raised:
                await faulty.send(request)
            assert raised.value.status == 0
        with pytest.raises(ClusterError, match="refused"):
            await follow_watch(faulty, WATCH)
        await asyncio.sleep(2.5)
        assert await faulty.send(GET) == Response(200, b"{}")
        assert await follow_watch(faulty, WATCH) == (200, LINES)
        return seen

    assert server.run(ask) == LINES[:1]
    assert server.plain.streams == 0
    assert server.faulty.counts == {"connection closed": 1, "connection refused": 3}


def test_restarted_server_denies_everything_for_a_while() -> None:
    server = TransportTrial(Rates())

    async def ask(faulty: FaultyTransport) -> list[int]:
        faulty.restart(1.0, denying=2.0)
        statuses = []
        for _ in range(2):
            await asyncio.sleep(1.5)
            statuses.append((await faulty.send(POST)).status)
        return statuses

    assert server.run(ask) == [403, 200]


async def restart_during(faulty: FaultyTransport, ask: Awaitable[T]) -> T:
    """Ask, and have the server restarted meanwhile."""
    asyncio.get_running_loop().call_later(1.001, faulty.restart, 1.0)
    return await ask


def test_late_answer_is_lost_in_a_restart() -> None:
    late = TransportTrial(Rates(late=1.0))
    with pytest.raises(ClusterError, match="closed before the answer came"):
        late.run(lambda faulty: restart_during(faulty, faulty.send(POST)))
    assert late.plain.asked == [POST]


def test_delayed_watch_event_is_lost_in_a_restart() -> None:
    slow = TransportTrial(Rates(slow=1.0))
    assert slow.run(lambda faulty: restart_during(faulty, follow_watch(faulty, WATCH))) == (200, [])


def test_no_fault_occurs_after_the_end() -> None:
    faulty = TransportTrial(Rates(internal_error=1.0, dropped=1.0), until=VIRTUAL_EPOCH + 1.0)

    async def ask(transport: FaultyTransport) -> list[int]:
        before = await transport.send(GET)
        await asyncio.sleep(1.0)
        after, watch = await transport.send(GET), await follow_watch(transport, WATCH)
        assert watch == (200, LINES)
        return [before.status, after.status]

    assert faulty.run(ask) == [500, 200]


def test_same_seed_causes_the_same_faults() -> None:
    rates = Rates(internal_error=0.2, unanswered=0.2, late=0.3, too_many_requests=0.2, repeated=0.5)

    async def ask(faulty: FaultyTransport) -> list[object]:
        results: list[object] = []
        for _ in range(50):
            try:
                results.append(await faulty.send(POST))
            except ClusterError as error:
                results.append(str(error))
        return results

    first, second = TransportTrial(rates), TransportTrial(rates)
    assert first.run(ask) == second.run(ask)
    assert first.faulty.counts == second.faulty.counts
    assert len(first.faulty.counts) == 4 and first.seconds == second.seconds
