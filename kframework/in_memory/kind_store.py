"""The objects of one kind, with the changes that led to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, cast

import msgspec

from kframework.client import api_errors
from kframework.objects import ApiObject, Kind, ObjectMeta
from kframework.objects.kinds import T

#: The number of changes of a kind that are kept for resuming a watch.
HISTORY = 10_000


class Said(NamedTuple):
    """An object as its client wrote it, perhaps with more than its struct holds; `data` is its JSON as plain data.

    The data are those of `subject`. The stored object may differ from it in the defaults set by admission.
    """

    subject: ApiObject
    data: dict[str, object]


class Change(msgspec.Struct, frozen=True, gc=False):
    """One write: the object before it (None: created) and after it (None: deleted), and the version it made.

    `written` is the whole document, if the writer passed it. `binds` is set if a pod was bound, `is_of_status` if a
    pod's status changed; nothing else of it has changed then.
    """

    version: int
    old: ApiObject | None
    new: ApiObject | None
    written: Said | None = None
    binds: bool = False
    is_of_status: bool = False

    @property
    def subject(self) -> ApiObject:
        """The object as it is, or as it was last."""
        subject = self.new or self.old
        assert subject is not None
        return subject


#: A subscriber's callback for changes. It is called during the write, so it must not write itself.
Receive = Callable[[Change], None]


class KindStore(Generic[T]):
    """The objects of a kind by (namespace, name), in the order of their creation."""

    def __init__(self, kind: Kind[T]) -> None:
        self.kind = kind
        self.objects: dict[tuple[str, str], T] = {}
        #: Documents that were passed before they were first requested.
        self._written: dict[tuple[str, str], Said] | None = {}
        self._history: deque[Change] = deque(maxlen=HISTORY)
        self._forgotten = 0  # the version of the last change that fell out of the history
        #: The callbacks that receive changes.
        self.subscribers: tuple[Receive, ...] = ()

    def key(self, metadata: ObjectMeta) -> tuple[str, str]:
        """Return where an object with this metadata belongs."""
        return self.place(metadata.namespace, metadata.name)

    def place(self, namespace: str, name: str) -> tuple[str, str]:
        """Return where an object belongs; no namespace means `default`, unless the kind has none."""
        return (namespace or "default") if self.kind.namespaced else "", name

    def write(self, key: tuple[str, str], new: T | None, version: int, written: Said | None = None) -> None:
        """Replace the object with this key, or delete it (None), and notify the subscribers."""
        change = Change(version, self.objects.get(key), new, written)
        if self._written is not None:
            if written is not None:
                self._written[key] = written
            elif new is None and self._written:
                self._written.pop(key, None)
        if new is None:
            del self.objects[key]
        else:
            self.objects[key] = new
        if len(self._history) == HISTORY:
            self._forgotten = self._history[0].version
        # Whole documents are for current subscribers only: to keep ten thousand of them would take much memory.
        self._history.append(change if written is None else Change(version, change.old, new))
        for receive in self.subscribers:
            receive(change)

    def write_all(self, changes: Sequence[Change]) -> None:
        """Replace objects, none of them with a whole document, and notify the subscribers.

        Their namespaces are set, as those of all stored objects.
        """
        objects = cast("dict[tuple[str, str], ApiObject]", self.objects)
        for change in changes:
            if (new := change.new) is not None:
                metadata = new.metadata
                objects[metadata.namespace, metadata.name] = new
        before = len(self._history)
        forgotten = before + len(changes) - HISTORY
        if forgotten > 0:
            last = self._history[forgotten - 1] if forgotten <= before else changes[forgotten - before - 1]
            self._forgotten = last.version
        self._history.extend(changes)
        for receive in self.subscribers:
            for change in changes:
                receive(change)

    def take_written(self) -> dict[tuple[str, str], Said]:
        """Return the documents that were handed over until now, once; from now on changes alone carry them."""
        written, self._written = self._written, None
        return written or {}

    def changes(self, since: int) -> list[Change]:
        """Return the changes after a version; ClusterError 410 if some are no longer kept."""
        if since < self._forgotten:
            raise api_errors.version_expired(since, self._forgotten)
        return [change for change in self._history if change.version > since]

    def subscribe(self, receive: Receive) -> None:
        """Notify this subscriber of every change from now on."""
        self.subscribers = (*self.subscribers, receive)

    def unsubscribe(self, receive: Receive) -> None:
        """Stop notifying this subscriber."""
        self.subscribers = tuple(other for other in self.subscribers if other is not receive)
