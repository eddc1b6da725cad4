"""What calls cost, in cel-go's units and Kubernetes' own: so that a selector ends in the same error here and there.

A cost is found from the arguments alone, before the call is carried out: what would cost too much is never begun.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, Final

from kframework.cel.functions import Cost
from kframework.cel.values import NONE, Opaque, Optional

#: What one evaluation may cost (`CELSelectorExpressionMaxCost`).
LIMIT: Final = 1_000_000

#: How many elements and characters an evaluation may go through at no cost: upstream shares lists where they are copied
#: here, and counts nothing for some of what it goes through.
MOST_HANDLED: Final = LIMIT

TRAVERSAL = 0.1  # a character of a string that is gone through
_PATTERN = 0.25  # a character of a regular expression
_LIST = 10  # a list that is made


def size(value: Any) -> int:
    """Return the size of a value that has one, 1 for any other."""
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    if isinstance(value, Optional) and value is not NONE:
        return size(value.value)
    return getattr(value, "size", 1) if isinstance(value, Opaque) else 1


def traversal(value: object, *others: object) -> int:
    """Go through a string once."""
    return ceil(size(value) * TRAVERSAL)


def both(left: object, right: object) -> int:
    """Go through two strings."""
    return ceil((size(left) + size(right)) * TRAVERSAL)


def comparison(left: object, right: object) -> int:
    """Go through the shorter of two."""
    return 1 if isinstance(left, Opaque) else ceil(min(size(left), size(right)) * TRAVERSAL)


def ordering(left: object, right: object) -> int:
    """Go through the shorter of two strings to see which is less."""
    return ceil(min(size(left), size(right)) * TRAVERSAL)


def contains(text: object, part: object) -> int:
    """Look for a string in another."""
    return ceil(size(text) * TRAVERSAL) * ceil(size(part) * TRAVERSAL)


def matches(text: object, pattern: object, *others: object) -> int:
    """Match a regular expression."""
    return ceil((1 + size(text)) * TRAVERSAL) * ceil(size(pattern) * _PATTERN)


def membership(value: object, items: object) -> int:
    """Look at every element of a list."""
    return size(items)


def elements(value: Any, *others: object) -> int:
    """Go through a value: the entries of lists and maps, and the bytes of strings."""
    if isinstance(value, (str, bytes)):
        return int(len(value.encode() if isinstance(value, str) else value) * TRAVERSAL)
    if isinstance(value, list):
        return sum(map(elements, value))
    if isinstance(value, dict):
        return sum(elements(key) + elements(entry) for key, entry in value.items())
    return 1


def joined(items: list[object], separator: str = "") -> int:
    """Make a string of many."""
    whole = sum(map(size, items)) + len(separator) * max(len(items) - 1, 0)
    return ceil(whole * 2 * TRAVERSAL)


def made_list(length: int) -> int:
    """Make a list."""
    return max(length, 0) + 1 + _LIST


def same_length(items: object) -> int:
    """Make a list as long as another."""
    return made_list(size(items))


def flattened(items: object, depth: int = 1) -> int:
    """Make a list of the lists within a list."""
    return made_list(size(items) * max(depth, 0))


def sorted_by(*lists: list[object]) -> int:
    """Compare each element of a list with each, and make a list: the last is the one that is compared."""
    keys = lists[-1]
    factor = 2 + (TRAVERSAL if keys and isinstance(keys[0], (str, bytes)) else 0)
    return made_list(int(len(keys) ** 2 * factor))


def sets(left: object, right: object) -> int:
    """Look each element of one list up in another."""
    return 1 + size(left) * size(right)


def both_sets(left: object, right: object) -> int:
    """Look the elements of either list up in the other."""
    return 1 + 2 * size(left) * size(right)


def one(*arguments: object) -> int:
    """Charge for the call alone."""
    return 1


def _contains_ip(block: object, address: object) -> int:
    parsed = ceil(size(address) * TRAVERSAL) if isinstance(address, str) else 0
    return ceil(2 * size(block) * TRAVERSAL) + parsed


def _validated(format: Any, text: object) -> int:
    return ceil((1 + size(text)) * TRAVERSAL) * ceil(int(format.longest_pattern) * _PATTERN)


def _selector(builder: object, text: object = "") -> int:
    length = size(text)
    return ceil(length * TRAVERSAL) + ceil(ceil(length * 0.5) * 50) + _LIST


#: Kubernetes counts by the name of a function, whatever it is called with.
BY_FUNCTION: Mapping[str, Cost] = {
    "check": lambda *arguments: 350_000,
    "fieldSelector": _selector,
    "labelSelector": _selector,
    "containsIP": _contains_ip,
    "containsCIDR": lambda block, other: _contains_ip(block, other) + ceil(size(block) * TRAVERSAL) + 1,
    "validate": _validated,
    "ip": lambda value: traversal(value) if isinstance(value, str) else 1,
    "join": joined,
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), elements),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "isIP", "isCIDR"), traversal),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), traversal),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), lambda text, *others: ceil(size(text) * 2 * TRAVERSAL)),
    **dict.fromkeys(("find", "findAll"), matches),
}
