"""Watches: what was there, if the client wants it, and then everything that happens to it, line by line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import lru_cache

import msgspec

from kframework.client.request_attributes import is_flag_set
from kframework.errors import ClusterError
from kframework.fake_api.collection import Collection, Written
from kframework.fake_api.forms import Form
from kframework.fake_api.lists import Selection, number, too_large
from kframework.fake_api.wire.documents import Document
from kframework.process.http.statuses import status_of

#: How often a client that wants bookmarks is told how far it is, in seconds.
BOOKMARK_EVERY = 60.0
#: How long a watch lasts whose client does not say, in seconds.
LONGEST = 1800.0
#: How many objects are written at once while much is told.
AT_ONCE = 500

_INITIAL_EVENTS_END = {"annotations": {"k8s.io/initial-events-end": "true"}}


class Watch:
    """What one client is told; raises ClusterError for a query that makes no sense.

    It keeps the version up to which the client has been told, and asks the collection for what came after: a client
    that reads too slowly finds that forgotten, and the watch ends with an ERROR of 410.
    """

    def __init__(self, collection: Collection, selection: Selection, form: Form, query: Mapping[str, str]) -> None:
        self._collection = collection
        self._selection = selection
        self._form = form
        self._since = number(query, "resourceVersion")
        self._tells_initial = _tells_initial(query)
        self._marks_initial_end = self._tells_initial and "sendInitialEvents" in query
        self._wants_bookmarks = is_flag_set(query, "allowWatchBookmarks")
        self._seconds = float(number(query, "timeoutSeconds")) or LONGEST
        if self._tells_initial and self._since > collection.version:
            raise too_large(self._since, collection.version)

    async def batches(self) -> AsyncGenerator[list[bytes], None]:
        """Yield events, JSON documents each, as many at once as there are, until the time of the watch is over."""
        version = self._collection.version if self._tells_initial else self._since or self._collection.version
        woken = asyncio.Event()
        every = min(BOOKMARK_EVERY, self._collection.renewed_every(self._selection.namespace))
        with self._collection.waking(woken), closing(_Alarm(woken, self._seconds, every)) as alarm:
            if self._tells_initial:
                found = self._collection.at(version, self._selection.namespace)
                for documents in _in_batches(self._selected(found)):
                    yield [_event(b"ADDED", self._form.one(document)) for document in documents]
                if self._marks_initial_end and self._wants_bookmarks:
                    yield [self._bookmark(version, _INITIAL_EVENTS_END)]
            while True:
                woken.clear()
                try:
                    news = self._collection.since(version)
                except ClusterError as error:
                    yield [_event(b"ERROR", msgspec.json.encode(status_of(error)))]
                    return
                version = news[-1].version if news else self._collection.version
                if lines := [line for written in news for line in self._told(written)]:
                    yield lines
                if alarm.rang():
                    for documents in _in_batches(self._selected(self._collection.renewed(self._selection.namespace))):
                        yield [_event(b"MODIFIED", self._form.one(document)) for document in documents]
                    if self._wants_bookmarks:
                        yield [self._bookmark(version)]
                if alarm.is_over:
                    return
                await woken.wait()

    def _selected(self, documents: Iterable[Document]) -> list[Document]:
        return [document for document in documents if self._selection.selects(document)]

    def _told(self, written: Written) -> Iterator[bytes]:
        """Say what a write means to one who sees only what is selected."""
        before, after = self._selection.selects(written.old), self._selection.selects(written.new)
        if after and written.new is not None:
            yield _event(b"MODIFIED" if before else b"ADDED", self._form.one(written.new))
        elif before and written.old is not None:
            yield _event(b"DELETED", self._form.one(_deleted(written.old, written.version)))

    def _bookmark(self, version: int, metadata: Mapping[str, object] = {}) -> bytes:
        return _event(b"BOOKMARK", self._form.bookmark({"resourceVersion": str(version), **metadata}))


class _Alarm:
    """Wakes a watch every so many seconds, and when its time is over."""

    def __init__(self, woken: asyncio.Event, seconds: float, every: float) -> None:
        self.is_over = False
        self._woken = woken
        self._left = seconds
        self._every = every
        self._rang = False
        self._set()

    def rang(self) -> bool:
        """Return whether it rang since it was last asked."""
        rang, self._rang = self._rang, False
        return rang

    def close(self) -> None:
        """Ring no more."""
        self._timer.cancel()

    def _set(self) -> None:
        seconds = min(self._left, self._every)
        self._left -= seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._ring)

    def _ring(self) -> None:
        self._rang = True
        self._woken.set()
        if self._left > 0:
            self._set()
        else:
            self.is_over = True


def _tells_initial(query: Mapping[str, str]) -> bool:
    """Return whether the watch begins with all that is there."""
    if "sendInitialEvents" not in query:
        return query.get("resourceVersion", "") in ("", "0")
    if query.get("resourceVersionMatch") != "NotOlderThan":
        why = "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise ClusterError(f'ListOptions.meta.k8s.io "" is invalid: {why}', status=422, reason="Invalid")
    return is_flag_set(query, "sendInitialEvents")


def _in_batches(documents: Sequence[Document]) -> Iterator[Sequence[Document]]:
    return (documents[start : start + AT_ONCE] for start in range(0, len(documents), AT_ONCE))


def _event(kind: bytes, written: bytes) -> bytes:
    return b'{"type":"%b","object":%b}' % (kind, written)


# As many watch an object go as may, it is encoded once: as it was last, under the version in which it went.
_deleted = lru_cache(maxsize=256)(Document.at)
