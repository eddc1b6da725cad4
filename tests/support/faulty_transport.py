"""What befalls requests on their way: a transport that loses, refuses and delays, seeded and on the loop's time.

A request that was given up is never done afterwards: a real network keeps that promise only almost always, and without
it nothing could keep a node from being overcommitted.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from random import Random

import msgspec

from kframework.client.transport import Request, Response, Stream, Transport, TransportLayer
from kframework.clock import Clock
from kframework.errors import ClusterError

#: How long a client without a timeout of its own waits for what does not come, in seconds.
_PATIENCE = 60.0


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """How probable each fault is, at every request or at every line of a watch, from 0 to 1.

    Requests: the four errors (`conflict` only of writes), `lost` before it is done, `unanswered` though it is done,
    `reset` connections (before or after it is done), `delayed` by 0.2 to 3 s before it is done, so that later ones
    overtake it, `late` answers, `doubtful` ones (504, of a binding 409, though it is done), `expired` pages of a list
    and versions of a watch. Watches: the connection is `dropped`, the history `forgotten` (410), it `stalls` without an
    end, a line is `repeated` or `slow`.
    """

    conflict: float = 0.0
    too_many_requests: float = 0.0
    internal_error: float = 0.0
    unavailable: float = 0.0
    lost: float = 0.0
    unanswered: float = 0.0
    reset: float = 0.0
    delayed: float = 0.0
    late: float = 0.0
    doubtful: float = 0.0
    expired: float = 0.0
    dropped: float = 0.0
    forgotten: float = 0.0
    stalls: float = 0.0
    repeated: float = 0.0
    slow: float = 0.0


class FaultyTransport(TransportLayer):
    """Lets faults befall the requests to another transport, before the moment `until` in seconds since 1970.

    `counts` tells how often each fault befell; a 429 asks for at most `max_retry_after` seconds. With the same seed and
    the same requests it is always the same.
    """

    def __init__(
        self,
        inner: Transport,
        random: Random,
        rates: Rates,
        clock: Clock,
        until: float = math.inf,
        *,
        max_retry_after: int = 3,
    ) -> None:
        super().__init__(inner)
        self._max_retry_after = max_retry_after
        self.until = until
        self.counts: Counter[str] = Counter()
        self._random = random
        self._rates = rates
        self._clock = clock
        self._restarts = 0
        self._back_at = self._grants_from = -math.inf
        #: What waits for the next line of each watch, in order: a set of them would have none.
        self._waiting: dict[asyncio.Timeout, None] = {}

    def restart(self, seconds: float, *, denying: float = 0.0) -> None:
        """Restart the server: all connections break now, and for so many seconds there are no new ones.

        After that it denies everything for a while, until it has read its roles.
        """
        self._restarts += 1
        self._back_at = self._clock.now() + seconds
        self._grants_from = self._back_at + denying
        for limit in self._waiting:
            limit.reschedule(asyncio.get_running_loop().time())

    async def send(self, request: Request) -> Response:
        """Send a request, unless something befalls it."""
        self._connect()
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        if self._occurs("lost"):
            await self._no_answer(request)
        if self._occurs("delayed"):
            await asyncio.sleep(self._random.uniform(0.2, 3.0))
        if self._occurs("reset"):
            if self._random.random() < 0.5:
                await self._inner.send(request)
            raise _broken("the connection was reset")
        restarts = self._restarts
        response = await self._inner.send(request)
        if self._occurs("unanswered"):
            await self._no_answer(request)
        if self._occurs("doubtful"):
            return _doubtful(request)
        if self._occurs("late"):
            await asyncio.sleep(self._random.uniform(0.0, 0.5) * (request.timeout or _PATIENCE))
        if self._restarts != restarts:
            raise _broken("the connection was closed before the answer came")
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Send a request and return its answer line by line, as far as it comes."""
        self._connect()
        refusal = self._refusal(request)
        if refusal is not None:
            yield Stream(refusal.status, _one(refusal.body), refusal.headers)
            return
        if self._occurs("lost"):
            await self._no_answer(request)
        async with self._inner.stream(request) as stream, aclosing(self._lines(request, stream.lines)) as lines:
            yield Stream(stream.status, lines, stream.headers)

    def _connect(self) -> None:
        if self._clock.now() < self._back_at:
            self.counts["connection refused"] += 1
            raise _broken("the connection was refused")

    def _refusal(self, request: Request) -> Response | None:
        if self._clock.now() < self._grants_from:
            self.counts["denied"] += 1
            return _refused(403, "Forbidden", f'User "scheduler" cannot {request.method} resource "{request.path}"')
        writes, query = request.method != "GET", dict(request.query)
        if writes and self._occurs("conflict"):
            return _refused(409, "Conflict", "the object has been modified; please apply your changes to the latest")
        if self._occurs("too_many_requests"):
            seconds = str(self._random.randint(1, self._max_retry_after))
            return _refused(429, "TooManyRequests", "please try again later", {"retry-after": seconds})
        if self._occurs("internal_error"):
            return _refused(500, "InternalError", "etcdserver: leader changed")
        if self._occurs("unavailable"):
            return _refused(503, "ServiceUnavailable", "the server is currently unable to handle the request")
        if (query.get("continue") or query.get("watch")) and self._occurs("expired"):
            return _refused(410, "Expired", "the provided resource version or continue parameter is too old")
        return None

    async def _no_answer(self, request: Request) -> None:
        await asyncio.sleep(request.timeout or _PATIENCE)
        raise _broken(f"no answer within {request.timeout or _PATIENCE:g} s")

    async def _lines(self, request: Request, lines: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        restarts = self._restarts
        while (line := await self._next(lines)) is not None:
            if self._occurs("dropped"):
                return
            if self._occurs("forgotten"):
                yield json.dumps({"type": "ERROR", "object": _status(410, "Expired", "too old")}).encode()
                return
            if self._occurs("stalls"):
                await self._no_answer(request)
            if self._occurs("slow"):
                await asyncio.sleep(self._random.uniform(0.0, 5.0))
            if self._restarts != restarts:
                break
            if self._occurs("repeated"):
                yield line
            yield line

    async def _next(self, lines: AsyncIterator[bytes]) -> bytes | None:
        try:
            async with asyncio.timeout(None) as limit:
                self._waiting[limit] = None
                return await anext(lines, None)
        except TimeoutError:
            if not limit.expired():
                raise
            self.counts["connection closed"] += 1
            raise _broken("the connection was closed") from None
        finally:
            self._waiting.pop(limit, None)

    def _occurs(self, fault: str) -> bool:
        rate: float = getattr(self._rates, fault)
        if not rate or self._clock.now() >= self.until or self._random.random() >= rate:
            return False
        self.counts[fault] += 1
        return True


def _doubtful(request: Request) -> Response:
    """Answer as an API server whose etcd falls silent: whatever it hears of a binding it calls a conflict."""
    if request.path.endswith("/binding"):
        return _refused(409, "Conflict", "Operation cannot be fulfilled on pods/binding: etcdserver: request timed out")
    return _refused(504, "Timeout", "the request did not complete within the allotted timeout")


async def _one(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _broken(message: str) -> ClusterError:
    return ClusterError(message, status=0, retryable=True)


def _refused(code: int, reason: str, message: str, headers: dict[str, str] | None = None) -> Response:
    return Response(code, json.dumps(_status(code, reason, message)).encode(), headers or {})


def _status(code: int, reason: str, message: str) -> dict[str, object]:
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**head, "message": message, "reason": reason, "code": code}
