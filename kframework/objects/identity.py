"""Results cached by the identity of their arguments, as thousands of pods share equal parts as one object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, TypeVarTuple
from weakref import ref

Ts = TypeVarTuple("Ts")
R = TypeVar("R")
K = TypeVar("K")
V = TypeVar("V")

#: The maximum number of cached results; then the cache is cleared.
_SIZE = 1024


def cached_by_identity(compute: Callable[[*Ts], R]) -> Callable[[*Ts], R]:
    """Cache a function's results by the identity of its arguments, which must not be changed."""
    known: dict[tuple[int, ...], tuple[tuple[*Ts], R]] = {}

    def lookup(*arguments: *Ts) -> R:
        key = tuple(map(id, arguments))
        found = known.get(key)
        if found is None:
            if len(known) >= _SIZE:
                known.clear()
            # The arguments are kept, so that no other object is ever at their place.
            found = known[key] = (arguments, compute(*arguments))
        return found[1]

    return lookup


class IdentityDict(Generic[K, V]):
    """Values by the identity of their keys; a value is kept while something else references it."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[K, ref[V]]] = {}

    def get(self, key: K) -> V | None:
        known = self._known.get(id(key))
        return None if known is None else known[1]()

    def put(self, key: K, value: V) -> None:
        if len(self._known) >= _SIZE:
            self._known.clear()
        self._known[id(key)] = key, ref(value)
