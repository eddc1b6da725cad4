"""Flow control of an API server's client: how many requests it sends in a second, and how many writes at a time.

`clientConnection.qps` and `burst` set the rate, as in kube-scheduler's clients. How many writes are in flight is
learned from the server's answers: sixteen at a time are 3,200 a second where an answer takes 5 ms, and 32 where it
takes 500 ms. What the client repeats waits for its turn again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum

from kframework.client.rest import pause_of
from kframework.client.transport import Request, Response, Transport, TransportLayer
from kframework.clock import Clock
from kframework.config.models import ClientConnection
from kframework.errors import ClusterError

_log = logging.getLogger(__name__)

#: A wait this long is worth a line in the log, but no more often than that, both in seconds; as in client-go.
LONG_WAIT, LOG_INTERVAL = 1.0, 10.0

#: How many writes are in flight at first, and at most: a client has 256 connections, for watches and reads too.
INITIAL_LIMIT, MAX_LIMIT = 16.0, 128.0

#: How much longer than the best answer a write may take before the limit is lowered, and by how much a round of answers
#: in time raises it. So as many are in flight as the server takes in twice the time of its best answer, and eight:
#: enough to keep it busy, and no write waits long for its turn at the server.
SLOWDOWN_TARGET, ROUND_INCREASE = 2.0, 8.0

#: Answers within this many seconds of the best are as good.
LATENCY_TOLERANCE = 0.001

#: For how many seconds the best answer counts. A server that has become slower for good is then measured again, with a
#: third of the writes, so that what is measured is not how long they wait for each other. For as long after a failure
#: a round adds one write only: what a server refuses costs it, and the writer must come again, too.
MEMORY, PROBE_DIVISOR = 10.0, 3.0

#: How long the place of a failed write stays empty where the server does not say, in seconds: one that is down refuses
#: thousands a second.
FAILURE_PAUSE = 0.5


class WriteClass(IntEnum):
    """What a write is about, the most urgent first: bindings and what plugins write, statuses of pods, events."""

    BINDING = 0
    STATUS = 1
    EVENT = 2


_CLASSES = tuple(WriteClass)

#: How many of ten writes in flight are of which class while all of them wait.
SHARES = (7, 2, 1)


class TokenBucket:
    """Lets `burst` through at once, and `qps` a second after that, in the order in which they come.

    A caller that is cancelled while it waits has used up its turn all the same.
    """

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._interval = 1 / qps
        self._credit = (burst - 1) * self._interval
        self._clock = clock
        #: When the bucket will be full again.
        self._full_at = -math.inf

    async def admit(self) -> float:
        """Wait for one's turn; return for how many seconds."""
        now = self._clock.now()
        self._full_at = max(self._full_at, now) + self._interval
        wait = self._full_at - self._interval - self._credit - now
        if wait <= 0:
            return 0.0
        await asyncio.sleep(wait)
        return wait


class WriteLimit:
    """How many writes a server takes at a time, learned in rounds: as many answers as there may be writes in flight.

    A round that took no longer than it must raises the limit, a slow one lowers it by as much as it was slow; a failed
    write halves it, once a round. What was sent before the round says nothing of it.
    """

    def __init__(self, clock: Clock) -> None:
        self.value: float = INITIAL_LIMIT
        #: Whether a write had to wait for its turn in this round: else there is nothing to learn.
        self.full: bool = False
        self._clock = clock
        self._best = [math.inf] * len(_CLASSES)
        self._forget_at = clock.now() + MEMORY
        self._failed_at = -math.inf
        self._begin_round()

    def _begin_round(self) -> None:
        self._began = self._clock.now()
        self._answers, self._slowdown, self.full = 0, 0.0, False

    def record_failure(self, sent: float) -> None:
        """Learn from a write that was put off, went wrong at the server or got no answer."""
        if sent > self._began:
            self._failed_at = self._clock.now()
            self.value = max(1.0, self.value / 2)
            self._begin_round()

    def record_answer(self, of: WriteClass, sent: float) -> None:
        """Learn from a write's answer."""
        if sent < self._began:
            return
        took = self._clock.now() - sent + LATENCY_TOLERANCE
        best = self._best[of] = min(self._best[of], took)
        self._answers += 1
        self._slowdown += took / best
        if self._answers < self.value:
            return
        now = self._clock.now()
        if now >= self._forget_at:
            self._forget_at = now + MEMORY
            self._best = [math.inf] * len(_CLASSES)
            if self.full:
                self.value = max(1.0, self.value / PROBE_DIVISOR)
        elif self.full:
            slow = self._slowdown / self._answers / SLOWDOWN_TARGET
            increase = ROUND_INCREASE if now >= self._failed_at + MEMORY else 1.0
            self.value = min(self.value / min(max(slow, 1.0), 2.0) + increase, MAX_LIMIT)
        self._begin_round()


class WritePlaces:
    """The places of writes in flight, at most as many as the limit, and the writes that wait for one.

    The next one is of the class that has the least of its share in flight. A class of which nothing is in flight has
    its turn at once, so that no class waits for another. Statuses and events take up half of the places at most,
    however many are free: what hangs there delays no binding.
    """

    def __init__(self, clock: Clock) -> None:
        self.limit: WriteLimit = WriteLimit(clock)
        self._in_flight = [0] * len(_CLASSES)
        self._waiting = [deque[asyncio.Future[None]]() for _ in _CLASSES]

    async def take(self, of: WriteClass) -> None:
        """Take a place for a write of this class, as soon as it is its turn."""
        if not self._waiting[of] and self._has_room(of):
            self._in_flight[of] += 1
            return
        self.limit.full = True
        turn = asyncio.get_running_loop().create_future()
        self._waiting[of].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):  # it was passed over already
                    self._waiting[of].remove(turn)
            else:
                self.give_back(of)
            raise

    def give_back(self, of: WriteClass) -> None:
        """Give a place back, and let in the writes whose turn it is."""
        self._in_flight[of] -= 1
        while (chosen := self._next()) is not None:
            turn = self._waiting[chosen].popleft()
            if not turn.done():  # else it was cancelled a moment ago
                self._in_flight[chosen] += 1
                turn.set_result(None)

    def _next(self) -> WriteClass | None:
        """Return the class whose turn it is; None if nothing waits or there is no place."""
        chosen, least = None, math.inf
        for of in _CLASSES:
            if self._waiting[of] and self._has_room(of):
                load = self._in_flight[of] / SHARES[of]
                if load < least:
                    chosen, least = of, load
        return chosen

    def _has_room(self, of: WriteClass) -> bool:
        mine, limit = self._in_flight[of], self.limit.value
        if not mine:
            return True
        return sum(self._in_flight) < int(limit) and (of is WriteClass.BINDING or mine < limit / 2)

    def __repr__(self) -> str:
        waiting = sum(map(len, self._waiting))
        return f"<WritePlaces {sum(self._in_flight)} of {self.limit.value:.0f} taken, {waiting} waiting>"


class FlowControl(TransportLayer):
    """A transport that lets requests wait for their turn, and writes then for a place; streams do not count.

    `tell` is told the method of each request that may have waited for its turn, and for how many seconds it has.
    """

    def __init__(
        self,
        transport: Transport,
        settings: ClientConnection,
        clock: Clock,
        tell: Callable[[str, float], None] = lambda method, seconds: None,
    ) -> None:
        super().__init__(transport)
        self.places: WritePlaces = WritePlaces(clock)
        self._settings = settings
        self._clock = clock
        self._tell = tell
        self._buckets: tuple[TokenBucket, TokenBucket] | None = None
        if settings.qps > 0:
            all_else, events = (TokenBucket(settings.qps, settings.burst, clock) for _ in range(2))
            self._buckets = all_else, events
        self._logged_at = -math.inf

    async def send(self, request: Request) -> Response:
        if self._buckets is not None:
            # Events have a bucket of their own: kube-scheduler's recorder has its own client.
            waited = await self._buckets[request.is_event].admit()
            self._tell(request.method, waited)
            self._log(waited)
        if not request.writes:
            return await self._inner.send(request)
        of = WriteClass.STATUS if request.path.endswith("/status") else WriteClass.BINDING
        of = WriteClass.EVENT if request.is_event else of
        await self.places.take(of)
        #: For how long the place stays empty.
        pause = 0.0
        sent = self._clock.now()
        try:
            response = await self._inner.send(request)
            if response.status < 500 and response.status != 429:
                self.places.limit.record_answer(of, sent)
            else:
                self.places.limit.record_failure(sent)
                wanted = pause_of(response)
                pause = FAILURE_PAUSE if wanted is None else wanted
            return response
        except ClusterError as error:
            if not error.status:
                self.places.limit.record_failure(sent)
                pause = FAILURE_PAUSE
            raise
        finally:
            if pause:
                asyncio.get_running_loop().call_later(pause, self.places.give_back, of)
            else:
                self.places.give_back(of)

    def _log(self, seconds: float) -> None:
        now = self._clock.now()
        if seconds < LONG_WAIT or now < self._logged_at + LOG_INTERVAL:
            return
        self._logged_at = now
        limit = f"{self._settings.qps:g} a second and bursts of {self._settings.burst}"
        _log.info(
            "a request has waited %.1f s for its turn: clientConnection allows %s (qps -1 lifts the limit)",
            seconds,
            limit,
        )
