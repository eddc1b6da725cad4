"""Of the device's own library: `includes`, which asks an attribute for a value whether it is a list or not."""

from __future__ import annotations

from kframework.cel.errors import CelError
from kframework.cel.functions import generic_method
from kframework.cel.values import is_among

MOST_VALUES = 48  # ResourceSliceMaxAttributeValuesPerDevice


def _includes(target: object, value: object) -> bool:
    if not isinstance(target, list):
        return is_among(value, [target])
    if is_among(value, target[:MOST_VALUES]):
        return True
    if len(target) > MOST_VALUES:
        raise CelError(f"'includes' function cannot be applied to lists longer than {MOST_VALUES} values")
    return False


OVERLOADS = generic_method("includes", "dyn, dyn -> bool", apply=_includes)
