"""Conversions between CEL's types: `int("12")`, `string(1.5)`, `bool("true")`."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from kframework.cel import costs
from kframework.cel.errors import CelError
from kframework.cel.functions import function
from kframework.cel.library.times import (
    SECOND,
    checked_duration,
    checked_timestamp,
    format_duration,
    format_plain,
    format_timestamp,
    parse_duration,
    parse_timestamp,
)
from kframework.cel.values import Uint, check_int64, check_uint64

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INTEGER = re.compile(r"[+-]?\d{1,1000}", re.ASCII)
_UNSIGNED = re.compile(r"\d{1,1000}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+", re.ASCII)
_NAMED = re.compile(r"[+-]?(?:inf|infinity)|nan", re.ASCII | re.IGNORECASE)


def _conversion_error(target: str) -> CelError:
    return CelError(f"type conversion error from 'string' to '{target}'")


def _parse_bool(text: str) -> bool:
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise _conversion_error("bool")


def _parse_int(text: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise _conversion_error("int")
    return check_int64(int(text))


def _parse_uint(text: str) -> Uint:
    if _UNSIGNED.fullmatch(text) is None:
        raise _conversion_error("uint")
    return check_uint64(int(text))


def parse_double(text: str) -> float:
    if _NAMED.fullmatch(text):
        return float(text)
    is_decimal = _DECIMAL.fullmatch(text) is not None
    if not is_decimal and _HEXADECIMAL.fullmatch(text) is None:
        raise _conversion_error("double")
    try:
        value = float(text) if is_decimal else float.fromhex(text)
    except OverflowError:
        raise _conversion_error("double") from None
    if math.isinf(value):
        raise _conversion_error("double")
    return value


def _truncate(value: float, low: float, high: float) -> int:
    if not low < value < high:  # also false for NaN
        raise CelError("integer overflow")
    return int(value)


def format_double(value: float) -> str:
    """Format a double with the fewest unambiguous digits, and an exponent where Go's `%g` has one."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    exact = Decimal(repr(value))
    if -4 <= exact.adjusted() < 6:
        return format_plain(value)
    first, *rest = map(str, exact.normalize().as_tuple().digits)
    digits = f"{first}.{''.join(rest)}" if rest else first
    return f"{'-' if value < 0 else ''}{digits}e{'-' if exact.adjusted() < 0 else '+'}{abs(exact.adjusted()):02}"


def decode_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


OVERLOADS = [
    *function("bool", "bool -> bool", apply=lambda value: value),
    *function("bool", "string -> bool", apply=_parse_bool),
    *function("bytes", "bytes -> bytes", apply=lambda value: value),
    *function("bytes", "string -> bytes", apply=lambda text: text.encode(), cost=costs.traversal),
    *function("double", "double -> double", "int -> double", "uint -> double", apply=float),
    *function("double", "string -> double", apply=parse_double),
    *function("duration", "duration -> duration", apply=lambda value: value),
    *function("duration", "int -> duration", apply=checked_duration),
    *function("duration", "string -> duration", apply=parse_duration),
    *function("int", "int -> int", apply=lambda value: value),
    *function("int", "double -> int", apply=lambda value: _truncate(value, -(2.0**63), 2.0**63)),
    *function("int", "duration -> int", apply=lambda value: value.nanos),
    *function("int", "string -> int", apply=_parse_int),
    *function("int", "timestamp -> int", apply=lambda value: value.nanos // SECOND),
    *function("int", "uint -> int", apply=lambda value: check_int64(int(value))),
    *function("string", "string -> string", apply=lambda value: value),
    *function("string", "bool -> string", apply=lambda value: "true" if value else "false"),
    *function("string", "bytes -> string", apply=decode_text, cost=costs.traversal),
    *function("string", "double -> string", apply=format_double),
    *function("string", "duration -> string", apply=format_duration),
    *function("string", "int -> string", "uint -> string", apply=lambda value: str(int(value))),
    *function("string", "timestamp -> string", apply=format_timestamp),
    *function("timestamp", "timestamp -> timestamp", apply=lambda value: value),
    *function("timestamp", "int -> timestamp", apply=lambda value: checked_timestamp(value * SECOND)),
    *function("timestamp", "string -> timestamp", apply=parse_timestamp),
    *function("uint", "uint -> uint", apply=lambda value: value),
    *function("uint", "double -> uint", apply=lambda value: Uint(_truncate(value, -0.5, 2.0**64))),
    *function("uint", "int -> uint", apply=check_uint64),
    *function("uint", "string -> uint", apply=_parse_uint),
]
