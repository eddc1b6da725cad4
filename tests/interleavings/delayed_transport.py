"""A transport whose requests, answers and lines of watches come when the schedule says so, are lost, or break off."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kframework.client.transport import Request, Response, Stream, Transport, TransportLayer
from kframework.errors import ClusterError
from tests.interleavings.loop import ExploringLoop

__all__ = ["DelayedTransport"]

_EXPIRED = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "message": "too old",
    "reason": "Expired",
    "code": 410,
}
_ERROR = json.dumps({"type": "ERROR", "object": _EXPIRED}).encode()


class DelayedTransport(TransportLayer):
    """Explores the requests for these resources; all others are answered at once."""

    def __init__(self, inner: Transport, loop: ExploringLoop, *resources: str) -> None:
        super().__init__(inner)
        self._loop = loop
        self._resources = resources
        self._numbers: Counter[str] = Counter()

    async def send(self, request: Request) -> Response:
        """Send a request; ClusterError if it is lost, its answer is, or its time runs out."""
        if not self._explores(request):
            return await self._inner.send(request)
        what = self._numbered(f"{request.method} {request.path.rpartition('/v1/')[2]}")
        try:
            async with asyncio.timeout(request.timeout):
                await self._loop.come(what, f"{what} arrives", (f"{what} is lost", _broken()))
                response = await self._inner.send(request)
                await self._loop.come(what, f"{what} is answered", (f"the answer to {what} is lost", _broken()))
        except TimeoutError:
            raise _broken() from None
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Follow a stream; the schedule decides when each line comes, if ever."""
        async with self._inner.stream(request) as stream:
            lines = self._lines(request, stream.lines) if self._explores(request) else stream.lines
            yield Stream(stream.status, lines, stream.headers)

    async def _lines(self, request: Request, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        watch = self._numbered(f"watch {request.path.rpartition('/')[2]}")
        async for line in lines:
            label = self._numbered(f"{watch} tells")
            try:
                await self._loop.come(watch, label, (f"{watch} breaks", _broken()), (f"{watch} expires", _Expired()))
            except _Expired:
                yield _ERROR
                return
            yield line

    def _explores(self, request: Request) -> bool:
        return request.path.endswith(self._resources)

    def _numbered(self, label: str) -> str:
        self._numbers[label] += 1
        return label if self._numbers[label] == 1 else f"{label} ({self._numbers[label]})"


class _Expired(Exception):
    """Raised where the server has forgotten from when a watch goes on."""


def _broken() -> ClusterError:
    return ClusterError("the connection is broken", status=0, retryable=True)
