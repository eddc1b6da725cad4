"""Stores of the kinds that are neither pods nor nodes: namespaces, claims, budgets, and what plugins declare."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from kframework.objects import ObjectMeta

__all__ = ["ObjectStore"]

T = TypeVar("T")


class ObjectStore(Generic[T]):
    """The objects of one kind, by namespace and name (namespace "" for kinds without)."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str], T] = {}
        self._callbacks: list[Callable[[T | None, T | None], None]] = []

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return the object of this name, or None."""
        return self._objects.get((namespace, name))

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def put(self, metadata: ObjectMeta, obj: T) -> T | None:
        """Store an object and return the one before it."""
        key = (metadata.namespace, metadata.name)
        old = self._objects.get(key)
        self._objects[key] = obj
        self._tell(old, obj)
        return old

    def remove(self, metadata: ObjectMeta) -> T | None:
        """Drop an object and return it, or None if it was not there."""
        old = self._objects.pop((metadata.namespace, metadata.name), None)
        if old is not None:
            self._tell(old, None)
        return old

    def on_change(self, callback: Callable[[T | None, T | None], None]) -> None:
        """Call back with (old, new) on every change."""
        self._callbacks.append(callback)

    def _tell(self, old: T | None, new: T | None) -> None:
        for callback in self._callbacks:
            callback(old, new)
