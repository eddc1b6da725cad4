"""How many writes are under way, and whose turn it is: one admission that all writes to an API server pass.

How many it takes is learned from its answers: sixteen at a time are 3,200 a second where an answer takes 5 ms, and 32
where it takes 500 ms. Of what is under way each class has its share, so that none waits for ever.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from contextlib import suppress
from enum import IntEnum

from kframework.client.rest import pause_of
from kframework.client.transport import Request, Response, Transport, TransportLayer
from kframework.clock import Clock
from kframework.errors import ClusterError


class WriteClass(IntEnum):
    """What a write is about, the most urgent first: bindings and what plugins write, statuses of pods, events."""

    BINDING = 0
    STATUS = 1
    EVENT = 2


_CLASSES = tuple(WriteClass)

#: How many of ten writes under way are of which class while all of them wait.
SHARES = (7, 2, 1)

#: How many writes are under way at first, and at most: a client has 256 connections, for watches and reads too.
FIRST, MOST = 16.0, 128.0

#: Statuses and events take up half of the places at most, however many are free: what hangs there delays no binding.
HALF = 2

#: How much longer than at best answers may take before there are fewer writes at a time, and by how many there are more
#: after every round of answers in time. So as many are under way as the server takes in twice the time of its best
#: answer, and eight: enough to keep it busy, and nobody waits long for his turn at the server.
STRETCH, MORE = 2.0, 8.0

#: Answers within this many seconds of the best are as good.
GOOD = 0.001

#: For how long the best answer counts, in seconds. A server that has become slower for good is then met anew, with a
#: third of the writes, so that what is measured is not how long they wait for each other. For so long after a failure
#: there is only one write more after a round: what a server refuses costs it, and whoever must come again, too.
MEMORY, PROBE = 10.0, 3.0

#: How long the place of a write that failed stays empty where the server does not say, in seconds: one that is down
#: refuses thousands a second.
REST = 0.5


class WriteLimit:
    """How many writes a server takes at a time, learned in rounds: as many answers as there may be writes under way.

    A round that took no longer than it must adds MORE, a slow one lowers the limit by as much as it was slow; a write
    that fails halves it, once a round. What was sent before the round says nothing of it.
    """

    def __init__(self, clock: Clock) -> None:
        self.value: float = FIRST
        #: Whether a write had to wait for its turn in this round: else there is nothing to learn.
        self.full: bool = False
        self._clock = clock
        self._best = [math.inf] * len(WriteClass)
        self._forget_at = clock.now() + MEMORY
        self._failed_at = -math.inf
        self._begin()

    def _begin(self) -> None:
        self._began = self._clock.now()
        self._answers, self._stretch, self.full = 0, 0.0, False

    def failed(self, sent: float) -> None:
        """Take notice of a write that was put off, went wrong at the server or got no answer."""
        if sent > self._began:
            self._failed_at = self._clock.now()
            self.value = max(1.0, self.value / 2)
            self._begin()

    def answered(self, of: WriteClass, sent: float) -> None:
        """Take notice of a write's answer."""
        if sent < self._began:
            return
        took = self._clock.now() - sent + GOOD
        best = self._best[of] = min(self._best[of], took)
        self._answers += 1
        self._stretch += took / best
        if self._answers >= self.value:
            self._end()

    def _end(self) -> None:
        now = self._clock.now()
        if now >= self._forget_at:
            self._forget_at = now + MEMORY
            self._best = [math.inf] * len(WriteClass)
            if self.full:
                self.value = max(1.0, self.value / PROBE)
        elif self.full:
            slow = self._stretch / self._answers / STRETCH
            more = MORE if now >= self._failed_at + MEMORY else 1.0
            self.value = min(self.value / min(max(slow, 1.0), 2.0) + more, MOST)
        self._begin()

    def __repr__(self) -> str:
        return f"<WriteLimit {self.value:.0f}>"


class WriteAdmission(TransportLayer):
    """A transport that lets writes wait for their turn; who reads waits for nobody.

    The next one is of the class that has the least of its share under way. A class of which nothing is under way has
    its turn at once, so that no class waits for another.
    """

    def __init__(self, transport: Transport, clock: Clock) -> None:
        super().__init__(transport)
        self.limit: WriteLimit = WriteLimit(clock)
        self._clock = clock
        self._under_way = [0] * len(WriteClass)
        self._waiting = [deque[asyncio.Future[None]]() for _ in WriteClass]

    async def send(self, request: Request) -> Response:
        """Send a request, a write when its turn comes."""
        if not request.writes:
            return await self._inner.send(request)
        of = _class_of(request)
        if self._waiting[of] or not self._has_room(of):
            await self._turn(of)
        else:
            self._under_way[of] += 1
        sent, rest = self._clock.now(), 0.0
        try:
            response = await self._inner.send(request)
            rest = self._note(of, sent, response)
            return response
        except ClusterError as error:
            if not error.status:
                self.limit.failed(sent)
                rest = REST
            raise
        finally:
            if rest:
                asyncio.get_running_loop().call_later(rest, self._leave, of)
            else:
                self._leave(of)

    def _note(self, of: WriteClass, sent: float, response: Response) -> float:
        """Learn from an answer; return for how long its place is to stay empty."""
        if response.status < 500 and response.status != 429:
            self.limit.answered(of, sent)
            return 0.0
        self.limit.failed(sent)
        pause = pause_of(response)
        return REST if pause is None else pause

    async def _turn(self, of: WriteClass) -> None:
        """Wait for a place."""
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
                self._leave(of)
            raise

    def _leave(self, of: WriteClass) -> None:
        """Give up a place, and let in whose turn it is."""
        self._under_way[of] -= 1
        while (chosen := self._next()) is not None:
            turn = self._waiting[chosen].popleft()
            if not turn.done():  # else it was cancelled a moment ago
                self._under_way[chosen] += 1
                turn.set_result(None)

    def _next(self) -> WriteClass | None:
        """Return the class whose turn it is, None if nobody waits or there is no place."""
        chosen, least = None, math.inf
        for of in _CLASSES:
            if self._waiting[of] and self._has_room(of):
                load = self._under_way[of] / SHARES[of]
                if load < least:
                    chosen, least = of, load
        return chosen

    def _has_room(self, of: WriteClass) -> bool:
        mine, limit = self._under_way[of], self.limit.value
        if not mine:
            return True
        return sum(self._under_way) < int(limit) and (of is WriteClass.BINDING or mine < limit / HALF)

    def __repr__(self) -> str:
        waiting = sum(map(len, self._waiting))
        return f"<WriteAdmission {sum(self._under_way)} of {self.limit.value:.0f} under way, {waiting} waiting>"


def _class_of(request: Request) -> WriteClass:
    if request.is_event:
        return WriteClass.EVENT
    return WriteClass.STATUS if request.path.endswith("/status") else WriteClass.BINDING
