"""Request the lists of nodes and pods before their reader is there.

A scheduler imports most of its modules after it has connected. Meanwhile the API server prepares the first pages, and
the loop requests the next ones, so that all of a small cluster is here when the reflectors request it. If plugins take
minutes to start, tokens of later pages have expired, and a reflector lists again as after any other 410.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from kframework.client.reflector import UNENDED_PODS
from kframework.client.transport import Request, Response, Transport, TransportLayer
from kframework.client.wire import list_request, next_page, read_continue_token
from kframework.objects import Node, Pod, kind_of

#: Most bytes of each list that wait for their reader, beside the last page: some 5,000 small objects.
MAX_WAITING_BYTES = 8 << 20


@asynccontextmanager
async def early_lists(transport: Transport, limit: int) -> AsyncIterator[Transport]:
    """Request the lists of nodes and pods in pages of `limit`, and yield the transport that returns them."""
    first = (list_request(kind_of(Node), limit), list_request(kind_of(Pod), limit, selection=UNENDED_PODS))
    lists = [_EarlyList(transport, request) for request in first]
    try:
        yield _EarlyLists(transport, lists)
    finally:
        for each in lists:
            each.cancel()


class _EarlyLists(TransportLayer):
    """A transport that answers the requests of early lists by the responses that are here or under way."""

    def __init__(self, inner: Transport, lists: Iterable[_EarlyList]) -> None:
        super().__init__(inner)
        self._lists = {each.path: each for each in lists}

    async def send(self, request: Request) -> Response:
        early = self._lists.get(request.path)
        if early is not None and request.method == "GET":
            page = early.take(request)
            if page is not None:
                await asyncio.sleep(0)  # if all pages are here, other lists are requested before these are decoded
                return await page
            del self._lists[request.path]  # the reader is at the end, or reads another list
            early.cancel()
        return await self._inner.send(request)


class _EarlyList:
    """A list that is requested page by page, until its reader takes other pages or is too slow."""

    def __init__(self, transport: Transport, first: Request) -> None:
        self.path: str = first.path
        self._transport = transport
        self._pages: dict[Request, asyncio.Task[Response]] = {}
        self._taken = asyncio.Event()
        self._requesting = asyncio.create_task(self._request_pages(first))

    def take(self, request: Request) -> asyncio.Task[Response] | None:
        """Return the page of this request, None if it was not requested early."""
        self._taken.set()
        return self._pages.pop(request, None)

    def cancel(self) -> None:
        """Request no more pages, and drop those that were not taken."""
        self._requesting.cancel()
        for page in self._pages.values():
            page.cancel()
        self._pages.clear()

    async def _request_pages(self, first: Request) -> None:
        request: Request | None = first
        while request is not None:
            page = self._pages[request] = asyncio.create_task(self._transport.send(request))
            await asyncio.wait((page,))  # unlike `await page`, cancels nothing that the reader has taken
            if page.cancelled() or page.exception() is not None:
                return  # the reader gets the error
            request = next_page(request, read_continue_token(page.result().body))
            while sum(map(_size, self._pages.values())) > MAX_WAITING_BYTES:
                self._taken.clear()
                await self._taken.wait()


def _size(page: asyncio.Task[Response]) -> int:
    return len(page.result().body) if page.done() else 0
