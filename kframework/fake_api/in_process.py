"""Requests straight into the fake API server of this process: no socket, and so virtual time works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from kframework.client.transport import Request, Response, Stream, Transport
from kframework.errors import ClusterError
from kframework.fake_api.server import ApiServer
from kframework.objects.openapi.definitions import read_document

# Here, because the loop may not be held up, and virtual time knows nothing of a thread that reads.
read_document()


class InProcess(Transport):
    """Carries requests without a network; an answer takes one turn of the loop."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def send(self, request: Request) -> Response:
        await asyncio.sleep(0)
        return await self._server.answer(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        await asyncio.sleep(0)
        async with (
            self._server.follow(request) as stream,
            aclosing(_in_time(stream.lines, request.timeout)) as lines,
        ):
            yield Stream(stream.status, lines, stream.headers)

    async def close(self) -> None:
        """Do nothing: there are no connections."""


async def _in_time(lines: AsyncIterator[bytes], seconds: float | None) -> AsyncGenerator[bytes, None]:
    """Yield the lines; ClusterError if the next takes more than so many seconds."""
    while True:
        try:
            async with asyncio.timeout(seconds):
                line = await anext(lines)
        except StopAsyncIteration:
            return
        except TimeoutError as error:
            raise ClusterError(f"no answer for {seconds:g} s", status=0, retryable=True) from error
        yield line
