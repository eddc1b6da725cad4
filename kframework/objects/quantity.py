"""Quantities such as `500m`, `1.5Gi` or `1e3`, exact, with resource.Quantity's rules for reading and writing.

A quantity is a whole number of nanos (10^-9); anything finer is rounded away from zero when it is read, and a binary
quantity (`Ki` ... `Ei`) stops at 2^63 - 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

_NANO = 10**9
_MILLI = 10**6  # nanos in a milli unit
_MAX_INT64 = 2**63 - 1
_MAX_DIGITS = 4000  # far beyond anything real; keeps 1e999999999 from filling the memory

_SHAPE = re.compile(r"([+-]?)(0*)([0-9]*)(\.?)([0-9]*)([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = ("", *_BINARY)


class QuantityError(ValueError):
    """Raised for text that is no quantity."""


class Quantity:
    """An exact amount that remembers how it was written.

    `format` is `DecimalSI`, `BinarySI` or `DecimalExponent`. Two quantities are equal when their amounts are.
    """

    __slots__ = ("_text", "format", "nano")

    def __init__(self, nano: int, format: str = "DecimalSI", text: str | None = None) -> None:
        self.nano: int = nano
        self.format: str = format
        self._text = text

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read a quantity; raises QuantityError."""
        shape = _SHAPE.fullmatch(text)
        if not text or shape is None or len(text) > _MAX_DIGITS:
            raise QuantityError(f"{text[:40]!r} is not a quantity: write a number and a suffix, like 500m, 2 or 1.5Gi")
        sign, zeros, digits, _, decimals, suffix = shape.groups()
        base, exponent, format = _interpret(suffix, text)
        if exponent < -9 and not (zeros or digits or decimals):
            raise QuantityError(f"{text!r} is not a quantity: it has no digits")
        amount = _nanos(digits + decimals, len(decimals), base, exponent, text)
        if format == "BinarySI":
            amount = min(amount, _MAX_INT64 * _NANO)
            if 0 < amount < _NANO:
                format = "DecimalSI"
        kept = text if _is_kept_as_written(digits, decimals, base, exponent) else None
        return cls(-amount if sign == "-" else amount, format, kept)

    @property
    def sign(self) -> int:
        """Return -1, 0 or 1."""
        return (self.nano > 0) - (self.nano < 0)

    def value(self) -> int:
        """Round up to whole units."""
        return _rounded_up(self.nano, _NANO)

    def milli_value(self) -> int:
        """Round up to 1/1000 units."""
        return _rounded_up(self.nano, _MILLI)

    def cmp(self, other: Quantity) -> int:
        """Compare: -1, 0 or 1."""
        return (self.nano > other.nano) - (self.nano < other.nano)

    def add(self, other: Quantity) -> Quantity:
        """Add exactly; the format is this one's, or the other's when this is zero."""
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def sub(self, other: Quantity) -> Quantity:
        """Subtract exactly; the format is this one's, or the other's when this is zero."""
        return Quantity(self.nano - other.nano, self.format if self.nano else other.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __str__(self) -> str:
        """Write the canonical form."""
        if self._text is not None:
            return self._text
        if not self.nano:
            return "0"
        if self.format == "BinarySI" and abs(self.nano) >= 1024 * _NANO and self.nano % _NANO == 0:
            mantissa, power = _strip(self.nano // _NANO, 1024, len(_BINARY))
            return f"{mantissa}{_BINARY_SUFFIX[power]}"
        mantissa, power = _strip(self.nano, 1000, 9 if self.format != "DecimalExponent" else _MAX_DIGITS)
        exponent = 3 * power - 9
        if self.format != "DecimalExponent":
            return f"{mantissa}{_DECIMAL_SUFFIX[exponent]}"
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)


@lru_cache(maxsize=1 << 12)
def nano(raw: str | int | float) -> int:
    """Convert a quantity as written in an object to nanos, exactly; raises QuantityError."""
    return Quantity.parse(str(raw).strip()).nano


def milli(raw: str | int | float) -> int:
    """Convert a quantity to milli units (milli-CPU for `cpu`), rounded up."""
    return _rounded_up(nano(raw), _MILLI)


def value(raw: str | int | float) -> int:
    """Convert a quantity to whole units (bytes for `memory`), rounded up."""
    return _rounded_up(nano(raw), _NANO)


def parse_amounts(resources: Mapping[str, str | int | float]) -> dict[str, int]:
    """Convert the quantities of resources as schedulers count them: `cpu` in milli-CPU, others in whole units.

    All are rounded up. Raises QuantityError.
    """
    return {name: milli(raw) if name == "cpu" else value(raw) for name, raw in resources.items()}


def _interpret(suffix: str, text: str) -> tuple[int, int, str]:
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], "DecimalSI"
    if suffix in _BINARY:
        return 2, _BINARY[suffix], "BinarySI"
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None:
        known = ", ".join(filter(None, (*_DECIMAL, *_BINARY)))
        raise QuantityError(f"{text!r} is not a quantity: no suffix {suffix!r} (known: {known}, e<n>)")
    return 10, int(exponent[1]), "DecimalExponent"


def _nanos(digits: str, decimals: int, base: int, exponent: int, text: str) -> int:
    if len(digits) + exponent > _MAX_DIGITS:
        raise QuantityError(f"{text[:40]!r} is too large for a quantity")
    amount = int(digits or "0")
    if base == 2:
        amount, power = amount << exponent, 9 - decimals
    else:
        power = 9 - decimals + exponent
    if power >= 0:
        return int(amount * 10**power)
    return -int(-amount // 10 ** min(-power, _MAX_DIGITS + 1))


def _is_kept_as_written(digits: str, decimals: str, base: int, exponent: int) -> bool:
    """Return whether Kubernetes writes the text back unchanged instead of making it canonical.

    It does so where the text is short enough for its int64 path and looks canonical already: no trailing thousands,
    no leading zero behind the point, an exponent that is a multiple of three.
    """
    shown = (digits or "0") + decimals
    if base == 2:
        short = len(digits or "0") <= 14 - exponent * 3 // 10
        return short and not decimals and int(digits or "0") % 8 != 0
    scale = exponent - len(decimals)
    return len(shown) <= 18 and scale >= -9 and scale % 3 == 0 and not shown.endswith("000") and shown[0] != "0"


def _strip(amount: int, factor: int, most: int) -> tuple[int, int]:
    power = 0
    while power < most and amount % factor == 0:
        amount //= factor
        power += 1
    return amount, power


def _rounded_up(amount: int, unit: int) -> int:
    if amount >= 0:
        return -(-amount // unit)
    # Quantity's own arithmetic: a negative amount is truncated first, and one is added for what was cut off.
    whole = -(-amount // unit)
    return whole + 1 if amount % unit else whole
