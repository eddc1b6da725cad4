"""The documents of one kind: what is there now, what was there lately, and what led from one to the other.

A change is encoded once, when it is written, however many watch. Those who watch keep the version up to which they have
been told and nothing else, so a slow one costs no memory: it falls behind the history and learns that.
"""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from heapq import merge
from itertools import takewhile

import msgspec

from kframework.client import api_errors
from kframework.fake_api.wire.documents import Complete, Document, Draft
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import HISTORY, Change
from kframework.objects import ApiObject, Kind

#: Namespace and name.
Key = tuple[str, str]

_NOWHERE: Key = ("", "")


class Written(msgspec.Struct, frozen=True):
    """One write: the document before it (None: created) and after it (None: deleted), and the version it made."""

    version: int
    key: Key
    old: Document | None
    new: Document | None


#: Makes the documents of a kind.
Collect = Callable[[Kind[ApiObject], MemoryCluster], "Collection"]


class Collection:
    """The documents of a kind, by namespace and name; it follows the cluster from the moment it is made.

    `complete` adds to each what the cluster itself does not know of.
    """

    def __init__(self, kind: Kind[ApiObject], cluster: MemoryCluster, complete: Complete = lambda each: each) -> None:
        self.kind = kind
        self._cluster = cluster
        self._complete = complete
        written = cluster.take_written(kind.struct)
        self._current: dict[Key, Document] = {}
        for subject in cluster.objects(kind.struct):  # each as its writer wrote it
            key = subject.metadata.namespace, subject.metadata.name
            draft = written.get(key)
            self._current[key] = complete(Document.of(subject) if draft is None else Draft(*draft).then(subject))
        self._keys = sorted(self._current)
        self._history: deque[Written] = deque(maxlen=HISTORY)
        self._forgotten = cluster.version  # what happened up to this version cannot be told
        self._sleepers: dict[asyncio.Event, None] = {}
        cluster.subscribe([kind.struct], self._receive)

    @property
    def version(self) -> int:
        """The version of the cluster, and so of everything here."""
        return self._cluster.version

    def find(self, key: Key) -> Document | None:
        """Return a document, or None."""
        return self._current.get(key)

    def at(self, version: int, namespace: str = "", after: Key = _NOWHERE) -> Iterator[Document]:
        """Yield what there was at a version, by namespace and name; ClusterError 410 if that is forgotten.

        It starts behind the key `after`. Nothing may be written meanwhile.
        """
        if version < self._forgotten:
            raise api_errors.version_expired(version, self._forgotten)
        undone: dict[Key, Document | None] = {}  # what was there in the place of all that has been written since
        for written in reversed(self._history):
            if written.version <= version:
                break
            undone[written.key] = written.old
        start = max(after, (namespace, ""))
        deleted = sorted(key for key in undone if key > start and key not in self._current)
        places = range(bisect_right(self._keys, start), len(self._keys))
        for key in merge(map(self._keys.__getitem__, places), deleted):
            if namespace and key[0] != namespace:
                return
            document = undone[key] if key in undone else self._current[key]
            if document is not None:
                yield document

    def count(self, namespace: str, after: Key) -> int:
        """Return how many documents there are now behind a key, in a namespace or in all."""
        end = bisect_left(self._keys, (f"{namespace}\0", "")) if namespace else len(self._keys)
        return end - bisect_right(self._keys, max(after, (namespace, "")))

    def stored(self) -> Iterator[Document]:
        """Yield what the cluster has, in the order in which it was created."""
        for subject in self._cluster.objects(self.kind.struct):
            yield self._current[subject.metadata.namespace, subject.metadata.name]

    def renewed_every(self, namespace: str) -> float:
        """Return after how many seconds documents differ that nobody has written, in a namespace or in all."""
        return math.inf

    def renewed(self, namespace: str) -> Sequence[Document]:
        """Return those."""
        return ()

    def since(self, version: int) -> list[Written]:
        """Return what was written after a version; ClusterError 410 when part of it is forgotten.

        A version still to come is one of another server, and as good as forgotten.
        """
        if not self._forgotten <= version <= self.version:
            raise api_errors.version_expired(version, self._forgotten)
        news = list(takewhile(lambda written: written.version > version, reversed(self._history)))
        news.reverse()
        return news

    @contextmanager
    def waking(self, event: asyncio.Event) -> Iterator[None]:
        """Set the event at every write."""
        self._sleepers[event] = None
        try:
            yield
        finally:
            del self._sleepers[event]

    def write(self, draft: Draft) -> Document:
        """Store what the cluster has admitted or amended; return it as it is stored."""
        stored = self._cluster.write(draft.subject, written=draft.data)
        # It goes with this write if it was only waiting for that.
        return self._current.get((stored.metadata.namespace, stored.metadata.name)) or draft.then(stored)

    def _receive(self, change: Change) -> None:
        """Take down a write, be it a client's of the API or the cluster's own."""
        metadata = change.subject.metadata
        key = metadata.namespace, metadata.name
        old, new = self._current.get(key), None
        if change.new is not None:
            draft = change.written or ((old.subject, old.data) if old is not None else None)
            new = self._complete(Draft(*draft).then(change.new) if draft is not None else Document.of(change.new))
        self._take_down(Written(change.version, key, old, new))

    def _take_down(self, written: Written) -> None:
        key, new = written.key, written.new
        if len(self._history) == self._history.maxlen:
            self._forgotten = self._history[0].version
        self._history.append(written)
        if new is None:
            del self._current[key]
            del self._keys[bisect_left(self._keys, key)]
        else:
            if written.old is None:
                insort(self._keys, key)
            self._current[key] = new
        for event in self._sleepers:
            event.set()
