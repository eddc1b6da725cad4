"""Kubernetes' library of quantities, also used to parse capacities.

resource.Quantity stores an amount as an int64 with a decimal scale if possible, and treats only that form as an
integer: `1.5Gi` and `1000m` are none. So a quantity here keeps that form with its exact amount.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from kframework.cel.errors import CelError
from kframework.cel.functions import can_parse, function, method
from kframework.cel.values import INT_MAX, INT_MIN, Opaque, order
from kframework.objects import quantity as objects

_PARTS = re.compile(r"([+-]?)0*([0-9]*)\.?([0-9]*)([^0-9.]*[-+]?[0-9]*)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_FORMAT_PROBLEM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

#: An int64 and the power of ten to multiply it with.
Scaled = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CelQuantity(Opaque):
    """An exact amount in nanos, and its `scaled` form if it has one."""

    nano: int
    scaled: Scaled | None = field(compare=False)
    type_name = "kubernetes.Quantity"

    @classmethod
    def parse(cls, text: str) -> CelQuantity:
        try:
            nano = objects.Quantity.parse(text).nano
        except objects.QuantityError:
            raise CelError(_FORMAT_PROBLEM) from None
        return cls(nano, _parse_scaled(text))

    def as_integer(self) -> int | None:
        """Return the amount as an int, None if resource.Quantity does not treat it as an integer."""
        if self.scaled is None or self.scaled[1] < 0:
            return None
        whole, scale = self.scaled
        return _int64(whole * 10**scale)


def _parse_scaled(text: str) -> Scaled | None:
    match = _PARTS.fullmatch(text)
    if match is None:
        return None
    sign, whole, fraction, suffix = match.groups()
    digits = (whole or "0") + fraction
    if suffix in _BINARY:
        exponent, scale = _BINARY[suffix], 0
        if fraction or len(whole or "0") > 14 - exponent * 3 // 10:
            return None
        number = _int64(int(digits) << exponent)
    else:
        scale = (_DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])) - len(fraction)
        if len(digits) > 18 or scale < -9:
            return None
        number = int(digits)
    return None if number is None else (-number if sign == "-" else number, scale)


def _int64(number: int) -> int | None:
    return number if INT_MIN <= number <= INT_MAX else None


def _add(left: CelQuantity, right: CelQuantity) -> CelQuantity:
    return CelQuantity(left.nano + right.nano, _add_scaled(left.scaled, right.scaled))


def _sub(left: CelQuantity, right: CelQuantity) -> CelQuantity:
    negated = (-right.scaled[0], right.scaled[1]) if right.scaled is not None else None
    return CelQuantity(left.nano - right.nano, _add_scaled(left.scaled, negated))


def _add_scaled(left: Scaled | None, right: Scaled | None) -> Scaled | None:
    """Return the scaled sum, at the smaller of the two scales; None if it exceeds 64 bits."""
    if left is None or right is None:
        return None
    if not right[0]:
        return left
    if not left[0]:
        return right
    scale = min(left[1], right[1])
    parts = [_int64(number * 10 ** (exponent - scale)) for number, exponent in (left, right)]
    if parts[0] is None or parts[1] is None:
        return None
    total = _int64(parts[0] + parts[1])
    return (total, scale) if total is not None else None


def _as_integer(quantity: CelQuantity) -> int:
    number = quantity.as_integer()
    if number is None:
        raise CelError("cannot convert value to integer")
    return number


_Operation = Callable[[CelQuantity, CelQuantity], CelQuantity]


def _with_int(operation: _Operation) -> Callable[[CelQuantity, int], CelQuantity]:
    return lambda quantity, number: operation(quantity, CelQuantity(number * 10**9, (number, 0)))


_QUANTITY = "kubernetes.Quantity"
_QUANTITIES = "kubernetes.Quantity, kubernetes.Quantity"

OVERLOADS = [
    *function("quantity", f"string -> {_QUANTITY}", apply=CelQuantity.parse),
    *function("isQuantity", "string -> bool", apply=can_parse(CelQuantity.parse)),
    *function("sign", f"{_QUANTITY} -> int", apply=lambda value: order(value.nano, 0)),
    *method("isGreaterThan", f"{_QUANTITIES} -> bool", apply=lambda left, right: left.nano > right.nano),
    *method("isLessThan", f"{_QUANTITIES} -> bool", apply=lambda left, right: left.nano < right.nano),
    *method("compareTo", f"{_QUANTITIES} -> int", apply=lambda left, right: order(left.nano, right.nano)),
    *method("asApproximateFloat", f"{_QUANTITY} -> double", apply=lambda value: value.nano / 10**9),
    *method("asInteger", f"{_QUANTITY} -> int", apply=_as_integer),
    *method("isInteger", f"{_QUANTITY} -> bool", apply=lambda value: value.as_integer() is not None),
    *method("add", f"{_QUANTITIES} -> {_QUANTITY}", apply=_add),
    *method("add", f"{_QUANTITY}, int -> {_QUANTITY}", apply=_with_int(_add)),
    *method("sub", f"{_QUANTITIES} -> {_QUANTITY}", apply=_sub),
    *method("sub", f"{_QUANTITY}, int -> {_QUANTITY}", apply=_with_int(_sub)),
]
