"""An API server as a queue: a number of requests a second, one after the other; more in flight means later answers."""

from __future__ import annotations

import asyncio
import math
from collections import Counter

from kframework.client.transport import Request, Response, Transport, TransportLayer
from kframework.errors import ClusterError


class InstantTransport(TransportLayer):
    """Creates whatever it is asked to."""

    def __init__(self) -> None:
        """There is nothing behind it."""

    async def send(self, request: Request) -> Response:
        return Response(201)


class SlowServer(TransportLayer):
    """Wraps another transport and takes `capacity` writes a second, each with a delay of `latency` seconds.

    More than `room` at a time are refused with 429 and a Retry-After of one second. While it is `down` it refuses
    connections, while it `hangs` it answers no client within 30 seconds. `slower` adds seconds to some writes, by a
    part of their path.
    """

    def __init__(
        self, capacity: float, latency: float, inner: Transport | None = None, *, room: float = math.inf
    ) -> None:
        super().__init__(inner or InstantTransport())
        self.capacity, self.latency, self.room = capacity, latency, room
        self.down = self.hangs = False
        self.slower: dict[str, float] = {}
        #: How many there are, how many there were at most, which were done, and what was answered how often.
        self.inside = self.most = 0
        self.done: list[tuple[float, str]] = []
        self.answers: Counter[int] = Counter()
        self._free_at = 0.0

    async def send(self, request: Request) -> Response:
        if request.method == "GET":
            return await self._inner.send(request)
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            response = await self._answer(request)
        except ClusterError:
            self.answers[0] += 1
            raise
        finally:
            self.inside -= 1
        self.answers[response.status] += 1
        return response

    async def _answer(self, request: Request) -> Response:
        loop = asyncio.get_running_loop()
        if self.down:
            raise ClusterError("the connection was refused", status=0, retryable=True)
        if self.hangs:
            await asyncio.sleep(30.0)
            raise ClusterError("no answer within 30 s", status=0, retryable=True)
        if self.inside > self.room:
            return Response(429, headers={"retry-after": "1"})
        self._free_at = max(self._free_at, loop.time()) + 1 / self.capacity
        more = next((seconds for part, seconds in self.slower.items() if part in request.path), 0.0)
        await asyncio.sleep(self._free_at - loop.time() + self.latency + more)
        self.done.append((loop.time(), request.path))
        return await self._inner.send(request)
