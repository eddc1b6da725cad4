"""The objects of one kind, and those who receive their changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple

import msgspec

from kframework.objects import ApiObject, Kind, ObjectMeta
from kframework.objects.kinds import T


class Draft(NamedTuple):
    """An object and its JSON before it is stored; the JSON may have more fields, the stored object more defaults."""

    subject: ApiObject
    data: dict[str, object]


class Change(msgspec.Struct, frozen=True, gc=False):
    """One write: the object before it (None: created) and after it (None: deleted), and the version it made.

    `draft` is the object with its whole document, if the writer passed it. `binds` is set if a pod was bound,
    `is_of_status` if a pod's status changed; nothing else of it has changed then.
    """

    version: int
    old: ApiObject | None
    new: ApiObject | None
    draft: Draft | None = None
    binds: bool = False
    is_of_status: bool = False

    @property
    def subject(self) -> ApiObject:
        subject = self.new or self.old
        assert subject is not None
        return subject


#: A subscriber's callback for changes. It is called during the write, so it must not write itself.
ChangeHandler = Callable[[Change], None]


class KindStore(Generic[T]):
    """The objects of a kind by (namespace, name), in the order of their creation."""

    def __init__(self, kind: Kind[T]) -> None:
        self.kind = kind
        self.namespaced: bool = kind.namespaced
        self.objects: dict[tuple[str, str], T] = {}
        #: Drafts that were passed before they were first requested.
        self._drafts: dict[tuple[str, str], Draft] | None = {}
        #: The callbacks that receive changes.
        self.subscribers: tuple[ChangeHandler, ...] = ()

    def key(self, metadata: ObjectMeta) -> tuple[str, str]:
        """Return the key of an object; no namespace means `default`, unless the kind is cluster-scoped."""
        return (metadata.namespace or "default") if self.kind.namespaced else "", metadata.name

    def write(self, key: tuple[str, str], new: T | None, version: int, draft: Draft | None = None) -> None:
        """Replace the object with this key, or delete it (None), and notify the subscribers."""
        change = Change(version, self.objects.get(key), new, draft)
        if self._drafts is not None:
            if draft is not None:
                self._drafts[key] = draft
            elif new is None and self._drafts:
                self._drafts.pop(key, None)
        if new is None:
            del self.objects[key]
        else:
            self.objects[key] = new
        for receive in self.subscribers:
            receive(change)

    def write_all(self, changes: Sequence[Change]) -> None:
        """Replace objects of known namespaces, none of them with a whole document, and notify the subscribers."""
        objects: dict[tuple[str, str], ApiObject] = self.objects  # type: ignore[assignment]  # a cast is a call more
        for change in changes:
            if (new := change.new) is not None:
                metadata = new.metadata
                objects[metadata.namespace, metadata.name] = new
        for receive in self.subscribers:
            for change in changes:
                receive(change)

    def take_drafts(self) -> dict[tuple[str, str], Draft]:
        """Return and forget the drafts passed until now; from now on only changes carry them."""
        drafts, self._drafts = self._drafts, None
        return drafts or {}

    def subscribe(self, receive: ChangeHandler) -> None:
        self.subscribers = (*self.subscribers, receive)

    def unsubscribe(self, receive: ChangeHandler) -> None:
        self.subscribers = tuple(other for other in self.subscribers if other is not receive)
