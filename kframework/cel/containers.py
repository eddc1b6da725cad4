"""Fields and elements: what `x.f`, `x[k]`, `x.?f` and `has(x.f)` give at run time."""

from __future__ import annotations

from typing import Any

from kframework.cel.errors import CelError
from kframework.cel.values import NONE, DomainMap, Optional, key_of, position_of


def item(container: Any, key: object) -> object:
    """Return what a container has at a key; raises CelError where there is nothing.

    On an optional it is what the value within has there, again as an optional.
    """
    if isinstance(container, Optional):
        return optional_item(container, key)
    if isinstance(container, dict):
        try:
            return container[key if type(key) is str else key_of(key)]
        except KeyError:
            raise no_such_key(key) from None
    if isinstance(container, list):
        position = position_of(key)
        if 0 <= position < len(container):
            return container[position]
        raise CelError(f"index out of bounds: {key}")
    raise no_such_key(key)


def optional_item(container: object, key: object) -> Optional:
    """Return what a container has at a key as an optional; raises CelError for a list with a key that is no index."""
    if isinstance(container, Optional):
        if container is NONE:
            return NONE
        container = container.value
    return Optional(item(container, key)) if has_item(container, key) else NONE


def has_item(container: Any, key: object) -> bool:
    """Return whether a container has something at a key; of a domain's map that is always so."""
    if isinstance(container, Optional):
        return container is not NONE and has_item(container.value, key)
    if isinstance(container, DomainMap):
        return True
    if isinstance(container, dict):
        return key_of(key) in container
    return isinstance(container, list) and 0 <= position_of(key) < len(container)


def no_such_key(key: object) -> CelError:
    """Return the error of a map without the key."""
    return CelError(f"no such key: {key}")
