"""Lists in pages, as a server hands them out: all of one version, or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TypeVar

from kframework.cluster.rest import ask, path_of
from kframework.cluster.transport import Request, Transport
from kframework.cluster.wire import Page, read_page
from kframework.objects import Kind
from kframework.objects.meta import ApiObject

T = TypeVar("T", bound=ApiObject)

#: How long an answer may take, in seconds: longer than this an API server works on none.
LIST_TIMEOUT = 60.0

Query = tuple[tuple[str, str], ...]


async def pages(
    transport: Transport, kind: Kind[T], limit: int, *, namespace: str = "", selection: Query = ()
) -> AsyncIterator[Page[T]]:
    """Read the objects of a kind, `limit` at once or with 0 all; raises ClusterError.

    Status 410 says that the pages before it count for nothing: they took longer than the server remembers a version.
    """
    path, following = path_of(kind, namespace), ""
    while True:
        query = selection
        if limit:
            query = (*query, ("limit", str(limit)))
        if following:
            query = (*query, ("continue", following))
        page = read_page(
            await ask(transport, Request(method="GET", path=path, query=query, timeout=LIST_TIMEOUT)), kind
        )
        yield page
        following = page.following
        if not following:
            return
