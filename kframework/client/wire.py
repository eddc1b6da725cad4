"""What an API server sends around objects: pages of lists and the lines of a watch, decoded once, into their structs.

An object that does not fit its struct is Undecodable: it costs itself, not its page or its watch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from typing import Generic, TypeVar

import msgspec

from kframework.client.rest import ask, path_of, stated
from kframework.client.transport import Request, Transport
from kframework.errors import ClusterError, InputError
from kframework.objects import ApiObject, Kind, ObjectMeta
from kframework.objects.codec import decode
from kframework.objects.kinds import T

Item = TypeVar("Item")

#: How long an answer may take, in seconds: longer than this an API server works on none.
LIST_TIMEOUT = 60.0

Query = tuple[tuple[str, str], ...]


class Undecodable(msgspec.Struct, frozen=True):
    """An object that cannot be decoded; the metadata is what could be read of it."""

    metadata: ObjectMeta
    why: str


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A page of a list: its objects, the version of the whole list, and the token of the next page, "" on the last."""

    items: list[T | Undecodable]
    version: str
    following: str


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, Generic[Item]):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[Item] | None = None


class _WatchEvent(msgspec.Struct, Generic[Item]):
    type: str
    object: Item


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


def read_page(body: bytes, kind: Kind[T]) -> Page[T]:
    """Decode a page of a list; ClusterError if it is none."""
    items: list[T | Undecodable]
    try:
        page = _pages(kind.struct).decode(body)
        items = [*(page.items or ())]
        metadata = page.metadata
    except msgspec.ValidationError:
        raw = _decoded(_RAW_PAGES, body)
        items = [read_object(item, kind) for item in raw.items or ()]
        metadata = raw.metadata
    except (ValueError, RecursionError) as error:
        raise _unreadable(error) from error
    return Page(items, metadata.resource_version, metadata.continue_)


def read_event(line: bytes, kind: Kind[T]) -> tuple[str, T | Undecodable]:
    """Decode a line of a watch: what happened, to which object; raises ClusterError, the one of an ERROR event too.

    Of the object of a bookmark, only the resource version means something.
    """
    try:
        event = _events(kind.struct).decode(line)
        if event.type != "ERROR":
            return event.type, event.object
    except msgspec.ValidationError:
        pass
    except (ValueError, RecursionError) as error:
        raise _unreadable(error) from error
    raw = _decoded(_RAW_EVENTS, line)
    if raw.type == "ERROR":
        raise stated(raw.object, 500) or ClusterError("the watch failed", status=500, retryable=True)
    return raw.type, read_object(raw.object, kind)


def read_object(data: bytes | msgspec.Raw, kind: Kind[T]) -> T | Undecodable:
    """Decode an object."""
    try:
        return decode(bytes(data), kind)
    except InputError as error:
        try:
            metadata = msgspec.json.decode(data, type=ApiObject).metadata
        except (ValueError, RecursionError):
            metadata = ObjectMeta()
        return Undecodable(metadata, f"{error.path}: {error.message}" if error.path else error.message)


def _decoded(decoder: msgspec.json.Decoder[Item], data: bytes) -> Item:
    try:
        return decoder.decode(data)
    except (ValueError, RecursionError) as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> ClusterError:
    return ClusterError(f"the API server's answer cannot be read: {error}", status=200)


_RAW_PAGES: msgspec.json.Decoder[_List[msgspec.Raw]] = msgspec.json.Decoder(_List[msgspec.Raw])
_RAW_EVENTS: msgspec.json.Decoder[_WatchEvent[msgspec.Raw]] = msgspec.json.Decoder(_WatchEvent[msgspec.Raw])


@cache
def _pages(struct: type[T]) -> msgspec.json.Decoder[_List[T]]:
    return msgspec.json.Decoder(_List[struct])  # type: ignore[valid-type]  # the type is only known at runtime


@cache
def _events(struct: type[T]) -> msgspec.json.Decoder[_WatchEvent[T]]:
    return msgspec.json.Decoder(_WatchEvent[struct])  # type: ignore[valid-type]  # the type is only known at runtime
