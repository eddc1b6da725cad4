"""The documents of one kind: the current ones, and the recent changes.

A change is encoded once when it is written, for any number of watches. A watch keeps only the version that it has sent,
so a slow one costs no memory: it falls behind the history and gets an error.
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
from kframework.fake_api.wire.documents import ApiDocument, Completer
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change, Draft
from kframework.objects import ApiObject, Kind

#: The number of changes of a kind that are kept for resuming watches.
HISTORY = 10_000

Key = tuple[str, str]

_FIRST_KEY: Key = ("", "")


class DocumentChange(msgspec.Struct, frozen=True):
    """A change of a document: before (None: created), after (None: deleted), and its version."""

    version: int
    key: Key
    old: ApiDocument | None
    new: ApiDocument | None


def _creation(key: Key, document: ApiDocument) -> DocumentChange:
    return DocumentChange(int(document.subject.metadata.resource_version), key, None, document)


CollectionFactory = Callable[[Kind[ApiObject], MemoryCluster], "Collection"]


class Collection:
    """The documents of a kind, by namespace and name, following the cluster from now on.

    `complete` adds to each document what the cluster does not store.
    """

    def __init__(self, kind: Kind[ApiObject], cluster: MemoryCluster, complete: Completer = lambda each: each) -> None:
        self.kind = kind
        self._cluster = cluster
        self._complete = complete
        drafts = cluster.take_drafts(kind.struct)
        self._current: dict[Key, ApiDocument] = {}
        for subject in cluster.objects(kind.struct):
            key = subject.metadata.namespace, subject.metadata.name
            self._current[key] = self._document(drafts.get(key), subject)
        self._keys = sorted(self._current)
        self._history: deque[DocumentChange] = deque(maxlen=HISTORY)
        self._expired = cluster.version  # changes up to this version are not known
        if cluster.version < cluster.initial_versions.stop:
            initial = [_creation(key, document) for key, document in self._current.items()]
            self._history += initial
            self._expired = (
                initial[-HISTORY - 1].version if len(initial) > HISTORY else cluster.initial_versions.start - 1
            )
        self._listeners: dict[asyncio.Event, None] = {}
        cluster.subscribe([kind.struct], self._receive)

    @property
    def version(self) -> int:
        return self._cluster.version

    def find(self, key: Key) -> ApiDocument | None:
        return self._current.get(key)

    def documents_at(self, version: int, namespace: str = "", after: Key = _FIRST_KEY) -> Iterator[ApiDocument]:
        """Yield the documents of a version, by namespace and name; ClusterError 410 if it has expired.

        Starts after the key `after`. Nothing may be written during the iteration.
        """
        if version < self._expired:
            raise api_errors.version_expired(version, self._expired)
        undone: dict[Key, ApiDocument | None] = {}  # the documents of that version that have changed since
        for change in reversed(self._history):
            if change.version <= version:
                break
            undone[change.key] = change.old
        start = max(after, (namespace, ""))
        deleted = sorted(key for key in undone if key > start and key not in self._current)
        indexes = range(bisect_right(self._keys, start), len(self._keys))
        for key in merge(map(self._keys.__getitem__, indexes), deleted):
            if namespace and key[0] != namespace:
                return
            document = undone[key] if key in undone else self._current[key]
            if document is not None:
                yield document

    def count(self, namespace: str, after: Key) -> int:
        end = bisect_left(self._keys, (f"{namespace}\0", "")) if namespace else len(self._keys)
        return end - bisect_right(self._keys, max(after, (namespace, "")))

    def stored_documents(self) -> Iterator[ApiDocument]:
        for subject in self._cluster.objects(self.kind.struct):
            yield self._current[subject.metadata.namespace, subject.metadata.name]

    def renewal_interval(self, namespace: str) -> float:
        """Return after how many seconds unwritten documents change, in a namespace or in all."""
        return math.inf

    def renewed_documents(self, namespace: str) -> Sequence[ApiDocument]:
        return ()

    def changes_since(self, version: int) -> list[DocumentChange]:
        """Return the changes after a version; ClusterError 410 if some have expired.

        A future version belongs to another server, and counts as expired.
        """
        if not self._expired <= version <= self.version:
            raise api_errors.version_expired(version, self._expired)
        changes = list(takewhile(lambda change: change.version > version, reversed(self._history)))
        changes.reverse()
        return changes

    @contextmanager
    def wake_on_change(self, event: asyncio.Event) -> Iterator[None]:
        self._listeners[event] = None
        try:
            yield
        finally:
            del self._listeners[event]

    def write(self, draft: Draft) -> ApiDocument:
        stored = self._cluster.write(draft.subject, draft)
        # An object that was only waiting for this write is deleted by it.
        key = stored.metadata.namespace, stored.metadata.name
        return self._current.get(key) or ApiDocument.from_draft(draft, stored)

    def _document(self, draft: Draft | None, subject: ApiObject) -> ApiDocument:
        if draft is None:
            return self._complete(ApiDocument.from_struct(subject))
        return self._complete(ApiDocument.from_draft(draft, subject))

    def _receive(self, change: Change) -> None:
        metadata = change.subject.metadata
        key = metadata.namespace, metadata.name
        old, new = self._current.get(key), None
        if change.new is not None:
            draft = change.draft or (Draft(old.subject, old.data) if old is not None else None)
            new = self._document(draft, change.new)
        self._record(DocumentChange(change.version, key, old, new))

    def _record(self, change: DocumentChange) -> None:
        key, new = change.key, change.new
        if len(self._history) == self._history.maxlen:
            self._expired = self._history[0].version
        self._history.append(change)
        if new is None:
            del self._current[key]
            del self._keys[bisect_left(self._keys, key)]
        else:
            if change.old is None:
                insort(self._keys, key)
            self._current[key] = new
        for event in self._listeners:
            event.set()
