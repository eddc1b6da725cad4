"""Flow control of an API server's client: requests per second, and concurrent writes.

`clientConnection.qps` and `burst` set the rate, as in kube-scheduler's clients. The limit of concurrent writes is
learned from the server's response times: sixteen are 3,200 writes a second if a response takes 5 ms, and 32 if it takes
500 ms. A retried request waits for its turn again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum

from kframework.client.rest import retry_after
from kframework.client.transport import Request, Response, Transport, TransportLayer
from kframework.clock import Clock
from kframework.config.models import ClientConnection
from kframework.errors import ClusterError

_log = logging.getLogger(__name__)

#: Waits of at least LOGGED_WAIT seconds are logged, at most once in LOG_INTERVAL seconds; as in client-go.
LOGGED_WAIT, LOG_INTERVAL = 1.0, 10.0

#: Initial and maximal number of concurrent writes: a client has 256 connections, also for watches and reads.
INITIAL_LIMIT, MAX_LIMIT = 16.0, 128.0

#: A round slower than SLOWDOWN_TARGET times the best response lowers the limit, any other raises it by ROUND_INCREASE;
#: it doubles until the first slow one. The limit settles at what the server completes in twice its best response time,
#: plus eight: enough to keep it busy without long queues in the server.
SLOWDOWN_TARGET, ROUND_INCREASE = 2.0, 8.0

#: Responses within this many seconds of the best count as equally fast: a busy machine delays any response as much,
#: however few writes are in flight, and in a server's queue that is no long wait.
LATENCY_TOLERANCE = 0.02

#: For how many seconds the best response time counts if rounds are slow. Then it is measured again, for a round with a
#: third of the writes, so that they do not slow each other down; otherwise a server that became slower for good would
#: look overloaded. For as long, at least, a server that was overloaded counts as overloaded.
LATENCY_WINDOW, PROBE_DIVISOR = 10.0, 3.0

#: How many writes may fail before the server counts as overloaded, and by how many each answered write replenishes
#: that: failures up to a third of all writes are accepted, because they hit writes at random.
FAILURE_BUDGET, BUDGET_PER_ANSWER = 16.0, 0.5

#: For how many seconds a write that fails at an overloaded server keeps its slot if the server does not say: one that
#: is down fails thousands a second.
FAILURE_PAUSE = 0.5


class WriteClass(IntEnum):
    """The class of a write, most urgent first: bindings and plugins' writes, pod statuses, events."""

    BINDING = 0
    STATUS = 1
    EVENT = 2


_CLASSES = tuple(WriteClass)

#: Shares of the write slots, out of ten, if writes of all classes wait.
SHARES = (7, 2, 1)

#: The largest part of the slots that each class may take, however many are free. Where 30 % of writes take seconds,
#: events with half of the slots let bindings wait for up to 0.8 s.
MAX_PARTS = (1.0, 0.5, 0.25)


class TokenBucket:
    """A rate limit: `burst` requests at once, then `qps` a second, in order of arrival.

    A caller that is cancelled while it waits still uses up its turn.
    """

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._interval = 1 / qps
        self._credit = (burst - 1) * self._interval
        self._clock = clock
        #: When the bucket is full again.
        self._full_at = -math.inf

    async def admit(self) -> float:
        """Wait for a turn; return the seconds waited."""
        now = self._clock.now()
        self._full_at = max(self._full_at, now) + self._interval
        wait = self._full_at - self._interval - self._credit - now
        if wait <= 0:
            return 0.0
        await asyncio.sleep(wait)
        return wait


class WriteLimit:
    """The number of concurrent writes, learned in rounds of as many responses as there may be writes in flight.

    A slow round lowers the limit in proportion, any other raises it. Three quarters of a round's responses must be
    slow: fewer show a busy machine, or a server that is slow at random. At an overloaded server a failed write halves
    the limit, once a round, and near the limit at which one failed a round adds one write only. Responses to writes
    sent before the round are ignored.
    """

    def __init__(self, clock: Clock) -> None:
        self.value: float = INITIAL_LIMIT
        #: Whether a write had to wait in this round; otherwise the limit stays.
        self.is_saturated: bool = False
        self._clock = clock
        self._best = [math.inf] * len(_CLASSES)
        self._forget_at = clock.now() + LATENCY_WINDOW
        #: The limit after the round in which the best response time is measured again.
        self._resumed: float | None = None
        #: Whether a round was slow: ever, and since the best response time was measured.
        self._was_slow = self._is_slow = False
        self._budget = FAILURE_BUDGET
        #: Since when the server counts as overloaded, None if it does not.
        self._overloaded_since: float | None = None
        #: The limit at which a write last failed at the overloaded server.
        self._failed_limit = math.inf
        #: When a failure last lowered the limit: failures of writes sent until then do not lower it further.
        self._lowered_at = -math.inf
        self._start_round()

    def _start_round(self) -> None:
        self._round_start = self._clock.now()
        self._slowdowns: list[float] = []
        self.is_saturated = False

    def record_failure(self, sent: float) -> bool:
        """Count a write that was deferred, failed at the server or got no response; return whether it is overloaded."""
        self._budget = max(0.0, self._budget - 1)
        if self._overloaded_since is None:
            if self._budget:
                return False
            self._overloaded_since = self._clock.now()
        if sent > self._lowered_at:
            self._lowered_at = self._clock.now()
            self._failed_limit, self.value = self.value, max(1.0, self.value / 2)
            self._resumed, self._was_slow = None, True
            self._start_round()
        return True

    def record_answer(self, write_class: WriteClass, sent: float) -> None:
        now = self._clock.now()
        self._budget = min(self._budget + BUDGET_PER_ANSWER, FAILURE_BUDGET)
        if self._overloaded_since is not None and self._budget == FAILURE_BUDGET:
            if now >= self._overloaded_since + LATENCY_WINDOW:
                self._overloaded_since, self._failed_limit = None, math.inf
        if sent < self._round_start:
            return
        took = now - sent + LATENCY_TOLERANCE
        best = self._best[write_class] = min(self._best[write_class], took)
        self._slowdowns.append(took / best)
        if len(self._slowdowns) < self.value:
            return
        if self._resumed is not None:
            self.value, self._resumed = self._resumed, None
        elif now >= self._forget_at:
            self._forget_at = now + LATENCY_WINDOW
            if self._is_slow or not self.is_saturated:
                self._best = [math.inf] * len(_CLASSES)
            if self._is_slow and self.is_saturated:
                self._resumed, self.value = self.value, max(1.0, self.value / PROBE_DIVISOR)
            self._is_slow = False
        elif self.is_saturated:
            self._adapt()
        self._start_round()

    def _adapt(self) -> None:
        slow = sorted(self._slowdowns)[len(self._slowdowns) // 4] / SLOWDOWN_TARGET
        self._is_slow = self._is_slow or slow > 1.0
        self._was_slow = self._was_slow or slow > 1.0
        increase = ROUND_INCREASE if self._was_slow else self.value
        if self.value + increase >= self._failed_limit:
            increase = 1.0
        self.value = min(self.value / min(max(slow, 1.0), 2.0) + increase, MAX_LIMIT)


class WriteSlots:
    """The slots of concurrent writes, as many as the limit, and the writes that wait for one.

    The next slot goes to the class that uses the least of its share. A class without a write in flight gets a slot at
    once, so that no class blocks another. Statuses use at most half of the slots and events a quarter, however many
    are free: slow ones delay no binding.
    """

    def __init__(self, clock: Clock) -> None:
        self.limit: WriteLimit = WriteLimit(clock)
        self._in_flight = [0] * len(_CLASSES)
        self._waiting = [deque[asyncio.Future[None]]() for _ in _CLASSES]

    async def acquire(self, write_class: WriteClass) -> None:
        if not self._waiting[write_class] and self._has_room(write_class):
            self._in_flight[write_class] += 1
            return
        self.limit.is_saturated = True
        turn = asyncio.get_running_loop().create_future()
        self._waiting[write_class].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):  # `release` has skipped it already
                    self._waiting[write_class].remove(turn)
            else:
                self.release(write_class)
            raise

    def release(self, write_class: WriteClass) -> None:
        self._in_flight[write_class] -= 1
        while (next_class := self._next_class()) is not None:
            turn = self._waiting[next_class].popleft()
            if not turn.done():  # otherwise it has just been cancelled
                self._in_flight[next_class] += 1
                turn.set_result(None)

    def _next_class(self) -> WriteClass | None:
        next_class, least_load = None, math.inf
        for write_class in _CLASSES:
            if self._waiting[write_class] and self._has_room(write_class):
                load = self._in_flight[write_class] / SHARES[write_class]
                if load < least_load:
                    next_class, least_load = write_class, load
        return next_class

    def _has_room(self, write_class: WriteClass) -> bool:
        in_flight, limit = self._in_flight[write_class], self.limit.value
        if not in_flight:
            return True
        return sum(self._in_flight) < int(limit) and in_flight < limit * MAX_PARTS[write_class]

    def __repr__(self) -> str:
        waiting = sum(map(len, self._waiting))
        return f"<WriteSlots {sum(self._in_flight)} of {self.limit.value:.0f} taken, {waiting} waiting>"


class FlowControl(TransportLayer):
    """A transport that limits the rate of requests and the number of concurrent writes; streams are exempt.

    `on_wait` receives the method of each rate-limited request and the seconds waited.
    """

    def __init__(
        self,
        transport: Transport,
        settings: ClientConnection,
        clock: Clock,
        on_wait: Callable[[str, float], None] = lambda method, seconds: None,
    ) -> None:
        super().__init__(transport)
        self.slots: WriteSlots = WriteSlots(clock)
        self._settings = settings
        self._clock = clock
        self._on_wait = on_wait
        self._buckets: tuple[TokenBucket, TokenBucket] | None = None
        if settings.qps > 0:
            others, events = (TokenBucket(settings.qps, settings.burst, clock) for _ in range(2))
            self._buckets = others, events
        self._logged_at = -math.inf

    async def send(self, request: Request) -> Response:
        if self._buckets is not None:
            # Events have a bucket of their own: kube-scheduler's recorder has its own client.
            waited = await self._buckets[request.is_event].admit()
            self._on_wait(request.method, waited)
            self._log_wait(waited)
        if not request.is_write:
            return await self._inner.send(request)
        write_class = WriteClass.STATUS if request.path.endswith("/status") else WriteClass.BINDING
        write_class = WriteClass.EVENT if request.is_event else write_class
        await self.slots.acquire(write_class)
        #: For how many seconds the slot stays taken.
        pause = 0.0
        sent = self._clock.now()
        try:
            response = await self._inner.send(request)
            if response.status < 500 and response.status != 429:
                self.slots.limit.record_answer(write_class, sent)
            elif self.slots.limit.record_failure(sent):
                delay = retry_after(response)
                pause = FAILURE_PAUSE if delay is None else delay
            return response
        except ClusterError as error:
            if not error.status and self.slots.limit.record_failure(sent):
                pause = FAILURE_PAUSE
            raise
        finally:
            if pause:
                asyncio.get_running_loop().call_later(pause, self.slots.release, write_class)
            else:
                self.slots.release(write_class)

    def _log_wait(self, seconds: float) -> None:
        now = self._clock.now()
        if seconds < LOGGED_WAIT or now < self._logged_at + LOG_INTERVAL:
            return
        self._logged_at = now
        limit = f"{self._settings.qps:g} requests per second and bursts of {self._settings.burst}"
        _log.info(
            "waited %.1f s due to client-side throttling: clientConnection allows %s (qps: -1 removes the limit)",
            seconds,
            limit,
        )
