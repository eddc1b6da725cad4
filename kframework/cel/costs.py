"""Costs of calls, in the units of cel-go and Kubernetes, so that a selector fails with the same error in both.

A cost depends on the arguments only and is charged before the call, so an expensive call never starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, Final

from kframework.cel.functions import Cost
from kframework.cel.values import NONE, Opaque, Optional

#: Limit of one evaluation (`CELSelectorExpressionMaxCost`).
COST_LIMIT: Final = 1_000_000

#: Limit of elements and characters that one evaluation processes without cost: upstream shares lists that are copied
#: here, and does not charge for some traversals.
MAX_HANDLED: Final = COST_LIMIT

TRAVERSAL_FACTOR = 0.1  # per character of a string
_PATTERN_FACTOR = 0.25  # per character of a regular expression
_LIST_COST = 10  # per created list


def size(value: Any) -> int:
    """Return the size of a value, 1 if it has none."""
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    if isinstance(value, Optional) and value is not NONE:
        return size(value.value)
    return getattr(value, "size", 1) if isinstance(value, Opaque) else 1


def traversal(value: object, *others: object) -> int:
    return ceil(size(value) * TRAVERSAL_FACTOR)


def two_traversals(left: object, right: object) -> int:
    return ceil((size(left) + size(right)) * TRAVERSAL_FACTOR)


def comparison(left: object, right: object) -> int:
    """Return the cost of comparing two values: the shorter one is read."""
    return 1 if isinstance(left, Opaque) else ceil(min(size(left), size(right)) * TRAVERSAL_FACTOR)


def ordering(left: object, right: object) -> int:
    """Return the cost of ordering two strings: the shorter one is read."""
    return ceil(min(size(left), size(right)) * TRAVERSAL_FACTOR)


def contains(text: object, part: object) -> int:
    return ceil(size(text) * TRAVERSAL_FACTOR) * ceil(size(part) * TRAVERSAL_FACTOR)


def matches(text: object, pattern: object, *others: object) -> int:
    return ceil((1 + size(text)) * TRAVERSAL_FACTOR) * ceil(size(pattern) * _PATTERN_FACTOR)


def membership(value: object, items: object) -> int:
    return size(items)


def elements(value: Any, *others: object) -> int:
    """Return the number of entries in lists and maps, and a tenth of the bytes of strings."""
    if isinstance(value, (str, bytes)):
        return int(len(value.encode() if isinstance(value, str) else value) * TRAVERSAL_FACTOR)
    if isinstance(value, list):
        return sum(map(elements, value))
    if isinstance(value, dict):
        return sum(elements(key) + elements(entry) for key, entry in value.items())
    return 1


def joining(items: list[object], separator: str = "") -> int:
    whole = sum(map(size, items)) + len(separator) * max(len(items) - 1, 0)
    return ceil(whole * 2 * TRAVERSAL_FACTOR)


def list_creation(length: int) -> int:
    return max(length, 0) + 1 + _LIST_COST


def copied_list(items: object) -> int:
    return list_creation(size(items))


def flattening(items: object, depth: int = 1) -> int:
    return list_creation(size(items) * max(depth, 0))


def sorting(*lists: list[object]) -> int:
    """Return the cost of comparing all pairs in the last list, and creating a list."""
    keys = lists[-1]
    factor = 2 + (TRAVERSAL_FACTOR if keys and isinstance(keys[0], (str, bytes)) else 0)
    return list_creation(int(len(keys) ** 2 * factor))


def set_lookup(left: object, right: object) -> int:
    return 1 + size(left) * size(right)


def mutual_lookup(left: object, right: object) -> int:
    return 1 + 2 * size(left) * size(right)


def constant(*arguments: object) -> int:
    return 1


def _contains_ip(block: object, address: object) -> int:
    parsed = ceil(size(address) * TRAVERSAL_FACTOR) if isinstance(address, str) else 0
    return ceil(2 * size(block) * TRAVERSAL_FACTOR) + parsed


def _validation(format: Any, text: object) -> int:
    return ceil((1 + size(text)) * TRAVERSAL_FACTOR) * ceil(int(format.longest_pattern) * _PATTERN_FACTOR)


def _selector(builder: object, text: object = "") -> int:
    length = size(text)
    return ceil(length * TRAVERSAL_FACTOR) + ceil(ceil(length * 0.5) * 50) + _LIST_COST


#: Kubernetes charges by function name, whatever the arguments.
BY_FUNCTION: Mapping[str, Cost] = {
    "check": lambda *arguments: 350_000,
    "fieldSelector": _selector,
    "labelSelector": _selector,
    "containsIP": _contains_ip,
    "containsCIDR": lambda block, other: _contains_ip(block, other) + ceil(size(block) * TRAVERSAL_FACTOR) + 1,
    "validate": _validation,
    "ip": lambda value: traversal(value) if isinstance(value, str) else 1,
    "join": joining,
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), elements),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "isIP", "isCIDR"), traversal),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), traversal),
    **dict.fromkeys(
        ("replace", "split", "ip.isCanonical"), lambda text, *others: ceil(size(text) * 2 * TRAVERSAL_FACTOR)
    ),
    **dict.fromkeys(("find", "findAll"), matches),
}
