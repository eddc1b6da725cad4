"""What the two-variable comprehensions write: entries into the map that a loop fills."""

from __future__ import annotations

from typing import Any

from kframework.cel.errors import CelError
from kframework.cel.functions import function
from kframework.cel.values import key_of


def _insert(entries: dict[object, object], key: object, value: object) -> dict[object, object]:
    """Add an entry in place: nothing but the loop can see the map yet."""
    if key_of(key) in entries:
        raise CelError(f"insert failed: key {key} already exists")
    entries[key_of(key)] = value
    return entries


def _insert_all(entries: Any, added: dict[object, object]) -> dict[object, object]:
    found: dict[object, object] = entries
    for key, value in added.items():
        if key in found:
            raise CelError(f"insert failed: key {key} already exists")
        found[key] = value
    return found


OVERLOADS = [
    *function("cel.@mapInsert", "map(K, V), K, V -> map(K, V)", apply=_insert),
    *function("cel.@mapInsert", "map(K, V), map(K, V) -> map(K, V)", apply=_insert_all),
]
