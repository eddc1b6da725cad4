"""cel-go's extension of sets: lists whose order and repetitions do not count."""

from __future__ import annotations

from kframework.cel import costs
from kframework.cel.functions import function
from kframework.cel.values import is_among


def _contains(items: list[object], others: list[object]) -> bool:
    return all(is_among(other, items) for other in others)


def _equivalent(items: list[object], others: list[object]) -> bool:
    return _contains(items, others) and _contains(others, items)


def _intersects(items: list[object], others: list[object]) -> bool:
    return any(is_among(item, others) for item in items)


OVERLOADS = [
    *function("sets.contains", "list(A), list(A) -> bool", apply=_contains, cost=costs.sets),
    *function("sets.equivalent", "list(A), list(A) -> bool", apply=_equivalent, cost=costs.both_sets),
    *function("sets.intersects", "list(A), list(A) -> bool", apply=_intersects, cost=costs.sets),
]
