"""Durations as Kubernetes writes them: the text of Go's `time.Duration` ("15s", "1m30s")."""

from __future__ import annotations

import re
from fractions import Fraction

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PART = re.compile(r"(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)(?P<unit>[^0-9.]*)")
_LARGEST = 2**63 - 1

#: The syntax of a duration, regardless of its length.
_PATTERN = rf"^[+-]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)({'|'.join(_UNITS)}))+)$"


class Duration(float):
    """A span of time in seconds which prints as Go does: `1m30s`, `10m0s`, `1.5ms`, `0s`."""

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Parse Go's notation; a ValueError explains invalid text in Go's words."""
        sign = -1 if text.startswith("-") else 1
        digits = text.removeprefix("-") if sign < 0 else text.removeprefix("+")
        return cls(sign * _nanoseconds(digits, text) / 10**9)

    def __str__(self) -> str:
        nanoseconds = round(Fraction(float(self)) * 10**9)
        if nanoseconds == 0:
            return "0s"
        sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
        if rest < _UNITS["s"]:
            unit = next(unit for unit in ("ms", "µs", "ns") if rest >= _UNITS[unit])
            return sign + _decimal(rest, _UNITS[unit]) + unit
        minutes, rest = divmod(rest, _UNITS["m"])
        hours, minutes = divmod(minutes, 60)
        seconds = _decimal(rest, _UNITS["s"]) + "s"
        if hours:
            return f"{sign}{hours}h{minutes}m{seconds}"
        return f"{sign}{minutes}m{seconds}" if minutes else sign + seconds

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Accept Go's text from a file, and a Duration from code."""
        return core_schema.no_info_plain_validator_function(
            cls._validate, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "pattern": _PATTERN}

    @classmethod
    def _validate(cls, value: object) -> Duration:
        if isinstance(value, Duration):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        raise ValueError('expected a duration in quotes, such as "1m30s"')


def _nanoseconds(digits: str, text: str) -> int:
    if digits == "0":
        return 0
    total, position = Fraction(0), 0
    while position < len(digits) or not digits:
        part = _PART.match(digits, position)
        if part is None:
            raise ValueError(f'time: invalid duration "{text}"')
        if not part["unit"]:
            raise ValueError(f'time: missing unit in duration "{text}"')
        if part["unit"] not in _UNITS:
            raise ValueError(f'time: unknown unit "{part["unit"]}" in duration "{text}"')
        total += Fraction(part["number"]) * _UNITS[part["unit"]]
        position = part.end()
    if total > _LARGEST:
        raise ValueError(f'time: invalid duration "{text}"')
    return int(total)


def _decimal(nanoseconds: int, unit: int) -> str:
    whole, rest = divmod(nanoseconds, unit)
    fraction = str(rest + unit)[1:].rstrip("0")
    return f"{whole}.{fraction}" if fraction else str(whole)
