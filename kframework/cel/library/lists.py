"""Functions on lists and maps: cel-go's extensions of lists (version 3), sets and maps, and Kubernetes' own.

A set is a list whose order and repetitions do not count. Comprehensions with two variables write entries into a map.
"""

from __future__ import annotations

from functools import cmp_to_key, reduce
from itertools import chain, pairwise
from typing import Any

from kframework.cel import costs
from kframework.cel.errors import CelError
from kframework.cel.functions import for_each, function, generic_method, method
from kframework.cel.library.standard import add
from kframework.cel.values import Duration, Uint, compare, equal, is_among, key_of, no_such_overload, type_name

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


def _sort(items: Any) -> list[object]:
    return _sort_by(items, items)


def _sort_by(items: Any, keys: Any) -> list[object]:
    if not isinstance(items, list) or not isinstance(keys, list):
        raise no_such_overload("sort", (items, keys))
    if len(items) != len(keys):
        raise CelError("@sortByAssociatedKeys() expected a list of the same size as the associated keys list")
    if len({type_name(key) for key in keys}) > 1:
        raise CelError("list elements must have the same type")
    order = cmp_to_key(compare)
    return [items[place] for place in sorted(range(len(items)), key=lambda place: order(keys[place]))]


def _distinct(items: list[object]) -> list[object]:
    found: list[object] = []
    for item in items:
        if not any(_is_equal(item, other) for other in found):
            found.append(item)
    return found


def _is_equal(left: object, right: object) -> bool:
    try:
        return equal(left, right)
    except CelError:
        return False


def _is_sorted(items: list[object]) -> bool:
    return all(compare(before, after) <= 0 for before, after in pairwise(items))


def _extreme(name: str, sign: int) -> Any:
    def find(items: list[object]) -> object:
        if not items:
            raise CelError(f"{name} called on empty list")
        found = items[0]
        for item in items[1:]:
            if compare(item, found) == sign:
                found = item
        return found

    return find


def _index_of(items: list[object], wanted: object) -> int:
    return next((place for place, item in enumerate(items) if _is_equal(item, wanted)), -1)


def _last_index_of(items: list[object], wanted: object) -> int:
    return next((place for place in reversed(range(len(items))) if _is_equal(items[place], wanted)), -1)


def _contains(items: list[object], others: list[object]) -> bool:
    return all(is_among(other, items) for other in others)


def _equivalent(items: list[object], others: list[object]) -> bool:
    return _contains(items, others) and _contains(others, items)


def _intersects(items: list[object], others: list[object]) -> bool:
    return any(is_among(item, others) for item in items)


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
    *method(
        "slice",
        "list(A), int, int -> list(A)",
        apply=_slice,
        cost=lambda items, start, end: costs.made_list(min(end, len(items)) - start),
    ),
    *generic_method("flatten", "list(list(A)) -> list(A)", apply=_flatten, cost=costs.flattened),
    *generic_method("flatten", "list(dyn), int -> list(dyn)", apply=_flatten, cost=costs.flattened),
    *generic_method("sort", *for_each(_ORDERED, "list(T) -> list(T)"), apply=_sort, cost=costs.sorted_by),
    *generic_method(
        "@sortByAssociatedKeys",
        *for_each(_ORDERED, "list(A), list(T) -> list(A)"),
        apply=_sort_by,
        cost=costs.sorted_by,
    ),
    *function("lists.range", "int -> list(int)", apply=lambda count: list(range(count)), cost=costs.made_list),
    *method("reverse", "list(A) -> list(A)", apply=lambda items: items[::-1], cost=costs.same_length),
    *method("distinct", "list(A) -> list(A)", apply=_distinct, cost=costs.sorted_by),
    *method("isSorted", *for_each(_ORDERED, "list(T) -> bool"), apply=_is_sorted),
    *chain.from_iterable(
        method("sum", f"list({name}) -> {name}", apply=lambda items, zero=zero: reduce(add, items, zero))
        for name, zero in (("int", 0), ("uint", Uint(0)), ("double", 0.0), ("duration", Duration(0)))
    ),
    *method("max", *for_each(_ORDERED, "list(T) -> T"), apply=_extreme("max", 1)),
    *method("min", *for_each(_ORDERED, "list(T) -> T"), apply=_extreme("min", -1)),
    *method("indexOf", "list(A), A -> int", apply=_index_of),
    *method("lastIndexOf", "list(A), A -> int", apply=_last_index_of),
    *function("sets.contains", "list(A), list(A) -> bool", apply=_contains, cost=costs.sets),
    *function("sets.equivalent", "list(A), list(A) -> bool", apply=_equivalent, cost=costs.both_sets),
    *function("sets.intersects", "list(A), list(A) -> bool", apply=_intersects, cost=costs.sets),
    *function("cel.@mapInsert", "map(K, V), K, V -> map(K, V)", apply=_insert),
    *function("cel.@mapInsert", "map(K, V), map(K, V) -> map(K, V)", apply=_insert_all),
]
