"""Functions on lists and maps: cel-go's extensions of lists (version 3), sets and maps, and Kubernetes' own.

A set is a list regardless of order and duplicates. Comprehensions with two variables insert entries into a map.
"""

from __future__ import annotations

from functools import cmp_to_key, reduce
from itertools import chain, pairwise
from typing import Any

from kframework.cel import costs
from kframework.cel.errors import CelError
from kframework.cel.functions import function, generic_method, method, signatures_for
from kframework.cel.library.standard import add
from kframework.cel.values import CelDuration, Uint, compare, is_element, is_same, no_such_overload, to_key, type_name

_ORDERED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")


def _slice(items: list[object], start: int, end: int) -> list[object]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(items) < end:
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flatten(items: object, depth: object = 1) -> list[object]:
    if not isinstance(items, list) or not isinstance(depth, int):
        raise no_such_overload("flatten", (items, depth))
    if depth < 0:
        raise CelError("level must be non-negative")
    flat: list[object] = []
    for item in items:
        flat += _flatten(item, depth - 1) if isinstance(item, list) and depth else [item]
    return flat


def _sort_by(items: Any, keys: Any) -> list[object]:
    if not isinstance(items, list) or not isinstance(keys, list):
        raise no_such_overload("sort", (items, keys))
    if len(items) != len(keys):
        raise CelError("@sortByAssociatedKeys() expected a list of the same size as the associated keys list")
    if len({type_name(key) for key in keys}) > 1:
        raise CelError("list elements must have the same type")
    order = cmp_to_key(compare)
    return [items[index] for index in sorted(range(len(items)), key=lambda index: order(keys[index]))]


def _distinct(items: list[object]) -> list[object]:
    distinct: list[object] = []
    for item in items:
        if not is_element(item, distinct):
            distinct.append(item)
    return distinct


def _is_sorted(items: list[object]) -> bool:
    return all(compare(before, after) <= 0 for before, after in pairwise(items))


def _extremum(name: str, sign: int) -> Any:
    def find(items: list[object]) -> object:
        if not items:
            raise CelError(f"{name} called on empty list")
        extremum = items[0]
        for item in items[1:]:
            if compare(item, extremum) == sign:
                extremum = item
        return extremum

    return find


def _index_of(items: list[object], wanted: object) -> int:
    return next((index for index, item in enumerate(items) if is_same(item, wanted)), -1)


def _last_index_of(items: list[object], wanted: object) -> int:
    return next((index for index in reversed(range(len(items))) if is_same(items[index], wanted)), -1)


def _contains(items: list[object], others: list[object]) -> bool:
    return all(is_element(other, items) for other in others)


def _equivalent(items: list[object], others: list[object]) -> bool:
    return _contains(items, others) and _contains(others, items)


def _intersects(items: list[object], others: list[object]) -> bool:
    return any(is_element(item, others) for item in items)


def _insert(entries: dict[object, object], key: object, value: object) -> dict[object, object]:
    """Insert an entry in place: only the loop can access the map yet."""
    if to_key(key) in entries:
        raise CelError(f"insert failed: key {key} already exists")
    entries[to_key(key)] = value
    return entries


def _insert_all(entries: Any, added: dict[object, object]) -> dict[object, object]:
    merged: dict[object, object] = entries
    for key, value in added.items():
        if key in merged:
            raise CelError(f"insert failed: key {key} already exists")
        merged[key] = value
    return merged


OVERLOADS = [
    *method(
        "slice",
        "list(A), int, int -> list(A)",
        apply=_slice,
        cost=lambda items, start, end: costs.list_creation(min(end, len(items)) - start),
    ),
    *generic_method("flatten", "list(list(A)) -> list(A)", apply=_flatten, cost=costs.flattening),
    *generic_method("flatten", "list(dyn), int -> list(dyn)", apply=_flatten, cost=costs.flattening),
    *generic_method(
        "sort",
        *signatures_for(_ORDERED, "list(T) -> list(T)"),
        apply=lambda items: _sort_by(items, items),
        cost=costs.sorting,
    ),
    *generic_method(
        "@sortByAssociatedKeys",
        *signatures_for(_ORDERED, "list(A), list(T) -> list(A)"),
        apply=_sort_by,
        cost=costs.sorting,
    ),
    *function("lists.range", "int -> list(int)", apply=lambda count: list(range(count)), cost=costs.list_creation),
    *method("reverse", "list(A) -> list(A)", apply=lambda items: items[::-1], cost=costs.copied_list),
    *method("distinct", "list(A) -> list(A)", apply=_distinct, cost=costs.sorting),
    *method("isSorted", *signatures_for(_ORDERED, "list(T) -> bool"), apply=_is_sorted),
    *chain.from_iterable(
        method("sum", f"list({name}) -> {name}", apply=lambda items, zero=zero: reduce(add, items, zero))
        for name, zero in (("int", 0), ("uint", Uint(0)), ("double", 0.0), ("duration", CelDuration(0)))
    ),
    *method("max", *signatures_for(_ORDERED, "list(T) -> T"), apply=_extremum("max", 1)),
    *method("min", *signatures_for(_ORDERED, "list(T) -> T"), apply=_extremum("min", -1)),
    *method("indexOf", "list(A), A -> int", apply=_index_of),
    *method("lastIndexOf", "list(A), A -> int", apply=_last_index_of),
    *function("sets.contains", "list(A), list(A) -> bool", apply=_contains, cost=costs.set_lookup),
    *function("sets.equivalent", "list(A), list(A) -> bool", apply=_equivalent, cost=costs.mutual_lookup),
    *function("sets.intersects", "list(A), list(A) -> bool", apply=_intersects, cost=costs.set_lookup),
    *function("cel.@mapInsert", "map(K, V), K, V -> map(K, V)", apply=_insert),
    *function("cel.@mapInsert", "map(K, V), map(K, V) -> map(K, V)", apply=_insert_all),
]
