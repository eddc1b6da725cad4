"""Stores of kinds other than pods and nodes: namespaces, claims, budgets, and kinds that plugins declare."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Generic, Protocol, TypeVar, cast

from kframework.errors import KFrameworkError
from kframework.objects import ApiObject, ObjectMeta
from kframework.state.undo_log import UndoLog

T = TypeVar("T")
Index = TypeVar("Index")
Kind = TypeVar("Kind", bound=ApiObject)


class AssumptionError(KFrameworkError):
    """Raised when an object to be assumed was derived from another version than the store has."""


class ObjectStore(Generic[T]):
    """The objects of one kind, by namespace and name (namespace "" for cluster-scoped kinds).

    An assumed version hides the API server's version until that object changes there (kube-scheduler's AssumeCache).
    Reads return the assumed version; use `latest` for the API server's.
    """

    def __init__(self, undo_log: UndoLog | None = None) -> None:
        #: What attempts change; indexes of the store record their own changes here as well.
        self.undo_log: UndoLog = UndoLog() if undo_log is None else undo_log
        self._objects: dict[tuple[str, str], T] = {}
        #: The assumed objects, with the resource version they were derived from.
        self._assumed: dict[tuple[str, str], tuple[str, T]] = {}
        self._versions: dict[tuple[str, str], str] = {}
        self._callbacks: list[Callable[[T | None, T | None], None]] = []
        self._indexes: dict[Hashable, object] = {}

    def get(self, name: str, namespace: str = "") -> T | None:
        return self._current((namespace, name))

    def latest(self, name: str, namespace: str = "") -> T | None:
        """Return the API server's version of an object, whatever is assumed, or None."""
        return self._objects.get((namespace, name))

    def __iter__(self) -> Iterator[T]:
        if not self._assumed:
            return iter(self._objects.values())
        return (self._assumed[key][1] if key in self._assumed else obj for key, obj in self._objects.items())

    def __len__(self) -> int:
        return len(self._objects)

    def index(self, build: Callable[[ObjectStore[T]], Index]) -> Index:
        """Return the index that `build` builds of this store: it keeps itself current and is shared by all callers."""
        indexes = cast("dict[Hashable, Index]", self._indexes)
        if build not in indexes:
            indexes[build] = build(self)
        return indexes[build]

    # -- the cluster's versions ----------------------------------------------------------------------------------------

    def put(self, metadata: ObjectMeta, obj: T) -> T | None:
        """Store an object and return the API server's previous version; a change ends the assumption."""
        key = (metadata.namespace, metadata.name)
        old = self._objects.get(key)
        before, now = old, obj
        if key in self._assumed:
            before = self._assumed[key][1]
            if old == obj:
                now = before
            else:
                del self._assumed[key]
        self._objects[key] = obj
        self._versions[key] = metadata.resource_version
        self._notify(before, now)
        return old

    def remove(self, metadata: ObjectMeta) -> T | None:
        """Drop an object and return it, or None if it was not there."""
        key = (metadata.namespace, metadata.name)
        before = self._current(key)
        self._assumed.pop(key, None)
        self._versions.pop(key, None)
        old = self._objects.pop(key, None)
        if old is not None:
            self._notify(before, None)
        return old

    # -- what the scheduler assumes: only the cycle and the inbox do ---------------------------------------------------

    def assume(self, metadata: ObjectMeta, obj: T) -> None:
        """Assume this version of an object; AssumptionError if it was not derived from the version in the cluster."""
        key = (metadata.namespace, metadata.name)
        stored = self._versions.get(key)
        if stored != metadata.resource_version:
            name = "/".join(filter(None, key))
            version = metadata.resource_version
            raise AssumptionError(f'"{name}" is out of sync (stored: {stored}, assume: {version})')
        self._replace_assumed(key, (metadata.resource_version, obj))

    def restore(self, metadata: ObjectMeta) -> None:
        """Drop the assumed version, unless it was derived from another version than this one."""
        key = (metadata.namespace, metadata.name)
        assumed = self._assumed.get(key)
        if assumed is not None and assumed[0] == metadata.resource_version:
            self._replace_assumed(key, None)

    def _replace_assumed(self, key: tuple[str, str], new: tuple[str, T] | None) -> None:
        old, before = self._assumed.get(key), self._current(key)
        if new is None:
            del self._assumed[key]
        else:
            self._assumed[key] = new
        self._notify(before, self._current(key))
        if self.undo_log.is_open:
            self.undo_log.record(partial(self._replace_assumed, key, old), partial(self._replace_assumed, key, new))

    # -- callbacks -----------------------------------------------------------------------------------------------------

    def on_change(self, callback: Callable[[T | None, T | None], None]) -> None:
        """Call back with (old, new), assumed versions if there are any, on every change."""
        self._callbacks.append(callback)

    def stop_calling(self, callback: Callable[[T | None, T | None], None]) -> None:
        """Undo one `on_change` of this callback."""
        self._callbacks.remove(callback)

    def follow(self, callback: Callable[[T | None, T | None], None]) -> None:
        """Call back with (None, object) for each object that is there, and on every change."""
        for obj in self:
            callback(None, obj)
        self.on_change(callback)

    def _current(self, key: tuple[str, str]) -> T | None:
        return self._assumed[key][1] if key in self._assumed else self._objects.get(key)

    def _notify(self, old: T | None, new: T | None) -> None:
        for callback in self._callbacks:
            callback(old, new)


class Stores(Protocol):
    """A provider of a store for each kind."""

    def objects(self, kind: type[Kind]) -> ObjectStore[Kind]: ...
