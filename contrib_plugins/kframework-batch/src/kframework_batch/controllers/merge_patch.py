"""JSON merge patches (RFC 7386): the smallest one that makes one object of another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from kframework.objects import ApiStruct


def merge_patch(old: ApiStruct, new: ApiStruct) -> dict[str, object]:
    """Return the patch that makes the new of the old, {} if they are equal."""
    return _difference(msgspec.to_builtins(old), msgspec.to_builtins(new))


def _difference(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, object]:
    patch: dict[str, object] = {key: None for key in old if key not in new}
    for key, value in new.items():
        was = old.get(key)
        if isinstance(value, Mapping) and isinstance(was, Mapping):
            inner = _difference(cast("Mapping[str, object]", was), cast("Mapping[str, object]", value))
            if inner:
                patch[key] = inner
        elif was != value:
            patch[key] = value
    return patch
