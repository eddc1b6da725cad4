"""Watches: the initial objects, if requested, and then every change, line by line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import lru_cache

import msgspec

from kframework.client.request_attributes import is_flag_set
from kframework.errors import ClusterError
from kframework.fake_api.calls import invalid_option
from kframework.fake_api.collection import Collection, DocumentChange
from kframework.fake_api.lists import ObjectSelection, parse_number, version_too_large
from kframework.fake_api.representations import Representation
from kframework.fake_api.wire.documents import ApiDocument
from kframework.process.http.statuses import status_of

#: Seconds between bookmarks for clients that ask for them.
BOOKMARK_INTERVAL = 60.0
DEFAULT_WATCH_SECONDS = 1800.0
BATCH_SIZE = 500

_INITIAL_EVENTS_END = {"annotations": {"k8s.io/initial-events-end": "true"}}


class WatchStream:
    """The events for one client; ClusterError for an invalid query.

    It keeps the version that the client has received, and reads later changes from the collection. If they have
    expired, because the client is slow, the watch ends with an ERROR of 410.
    """

    def __init__(
        self, collection: Collection, selection: ObjectSelection, form: Representation, query: Mapping[str, str]
    ) -> None:
        self._collection = collection
        self._selection = selection
        self._form = form
        self._since = parse_number(query, "resourceVersion")
        self._sends_initial = _sends_initial(query)
        self._marks_initial_end = self._sends_initial and "sendInitialEvents" in query
        self._wants_bookmarks = is_flag_set(query, "allowWatchBookmarks")
        self._seconds = float(parse_number(query, "timeoutSeconds")) or DEFAULT_WATCH_SECONDS
        if self._sends_initial and self._since > collection.version:
            raise version_too_large(self._since, collection.version)

    async def batches(self) -> AsyncGenerator[list[bytes], None]:
        """Yield encoded events, as many at once as there are, until the watch times out."""
        version = self._collection.version if self._sends_initial else self._since or self._collection.version
        wake = asyncio.Event()
        every = min(BOOKMARK_INTERVAL, self._collection.renewal_interval(self._selection.namespace))
        with self._collection.wake_on_change(wake), closing(_WatchTimer(wake, self._seconds, every)) as timer:
            if self._sends_initial:
                documents = self._collection.documents_at(version, self._selection.namespace)
                for batch in _split_batches(self._select(documents)):
                    yield [_encode_event(b"ADDED", self._form.encode_one(document)) for document in batch]
                if self._marks_initial_end and self._wants_bookmarks:
                    yield [self._bookmark(version, _INITIAL_EVENTS_END)]
            while True:
                wake.clear()
                try:
                    changes = self._collection.changes_since(version)
                except ClusterError as error:
                    yield [_encode_event(b"ERROR", msgspec.json.encode(status_of(error)))]
                    return
                version = changes[-1].version if changes else self._collection.version
                if lines := [line for change in changes for line in self._encode_change(change)]:
                    yield lines
                if timer.take_due():
                    renewed = self._collection.renewed_documents(self._selection.namespace)
                    for batch in _split_batches(self._select(renewed)):
                        yield [_encode_event(b"MODIFIED", self._form.encode_one(document)) for document in batch]
                    if self._wants_bookmarks:
                        yield [self._bookmark(version)]
                if timer.is_over:
                    return
                await wake.wait()

    def _select(self, documents: Iterable[ApiDocument]) -> list[ApiDocument]:
        return [document for document in documents if self._selection.matches(document)]

    def _encode_change(self, change: DocumentChange) -> Iterator[bytes]:
        before, after = self._selection.matches(change.old), self._selection.matches(change.new)
        if after and change.new is not None:
            yield _encode_event(b"MODIFIED" if before else b"ADDED", self._form.encode_one(change.new))
        elif before and change.old is not None:
            yield _encode_event(b"DELETED", self._form.encode_one(_final_state(change.old, change.version)))

    def _bookmark(self, version: int, metadata: Mapping[str, object] = {}) -> bytes:
        return _encode_event(b"BOOKMARK", self._form.encode_bookmark({"resourceVersion": str(version), **metadata}))


class _WatchTimer:
    """Wakes a watch at an interval, and when its time is over."""

    def __init__(self, wake: asyncio.Event, seconds: float, every: float) -> None:
        self.is_over = False
        self._woken = wake
        self._remaining = seconds
        self._every = every
        self._is_due = False
        self._start()

    def take_due(self) -> bool:
        due, self._is_due = self._is_due, False
        return due

    def close(self) -> None:
        self._timer.cancel()

    def _start(self) -> None:
        seconds = min(self._remaining, self._every)
        self._remaining -= seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._ring)

    def _ring(self) -> None:
        self._is_due = True
        self._woken.set()
        if self._remaining > 0:
            self._start()
        else:
            self.is_over = True


def _sends_initial(query: Mapping[str, str]) -> bool:
    if "sendInitialEvents" not in query:
        return query.get("resourceVersion", "") in ("", "0")
    if query.get("resourceVersionMatch") != "NotOlderThan":
        why = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise invalid_option("ListOptions", "resourceVersionMatch", why)
    return is_flag_set(query, "sendInitialEvents")


def _split_batches(documents: Sequence[ApiDocument]) -> Iterator[Sequence[ApiDocument]]:
    return (documents[start : start + BATCH_SIZE] for start in range(0, len(documents), BATCH_SIZE))


def _encode_event(kind: bytes, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}' % (kind, body)


# Encoded once for all watches: the last state, with the version of the deletion.
_final_state = lru_cache(maxsize=256)(ApiDocument.with_version)
