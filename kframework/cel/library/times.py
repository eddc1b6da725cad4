"""Durations and timestamps: parsing, formatting, and their parts in a time zone."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from zoneinfo import ZoneInfo

from kframework.cel.errors import CelError
from kframework.cel.functions import method
from kframework.cel.values import INT_MAX, INT_MIN, CelDuration, Timestamp

SECOND = 10**9
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MIN_SECONDS, _MAX_SECONDS = -62_135_596_800, 253_402_300_799  # the years 1 and 9999

_MINUTE, _HOUR = 60 * SECOND, 3600 * SECOND
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": SECOND, "m": _MINUTE, "h": _HOUR}
_DURATION = re.compile(r"[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_PART = re.compile(r"(\d*)\.?(\d*)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)


def checked_duration(nanos: int) -> CelDuration:
    """Return a duration; raises CelError if it exceeds 64 bits."""
    if INT_MIN <= nanos <= INT_MAX:
        return CelDuration(nanos)
    raise CelError("duration overflow")


def checked_timestamp(nanos: int, offset: int = 0) -> Timestamp:
    """Return a timestamp in a zone `offset` seconds ahead of UTC; raises CelError outside of the years 1 to 9999."""
    if _MIN_SECONDS <= nanos // SECOND <= _MAX_SECONDS:
        return Timestamp(nanos, offset)
    raise CelError("timestamp overflow")


def parse_duration(text: str) -> CelDuration:
    """Parse a duration such as `1h30m` or `-1.5s`; raises CelError."""
    if _DURATION.fullmatch(text) is None:
        raise CelError("type conversion error from 'string' to 'google.protobuf.Duration'")
    nanos = 0
    for whole, fraction, unit in _PART.findall(text):
        nanos += int(whole[:20] or "0") * _UNITS[unit]
        nanos += int(fraction[:20] or "0") * _UNITS[unit] // 10 ** len(fraction[:20])
    return checked_duration(-nanos if text.startswith("-") else nanos)


def parse_timestamp(text: str) -> Timestamp:
    """Parse an RFC 3339 timestamp; raises CelError."""
    match = _RFC3339.fullmatch(text)
    error = CelError("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    if match is None:
        raise error
    moment, fraction, sign, hours, minutes = match.groups()
    try:
        at = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    except ValueError:
        raise error from None
    if int(hours or 0) > 24 or int(minutes or 0) > 59:
        raise error
    seconds = (at - _EPOCH) // timedelta(seconds=1)
    offset = int(hours or 0) * 3600 + int(minutes or 0) * 60
    offset = -offset if sign == "-" else offset
    return checked_timestamp((seconds - offset) * SECOND + int((fraction or "")[:9].ljust(9, "0")), offset)


def format_duration(value: CelDuration) -> str:
    """Format a duration in seconds, such as `1.5s`, with the precision of a double."""
    seconds, rest = divmod(abs(value.nanos), SECOND)
    return f"{format_plain((seconds + rest / 1e9) * (-1 if value.nanos < 0 else 1))}s"


def format_plain(value: float) -> str:
    """Format a double without an exponent, with the fewest unambiguous digits."""
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


def format_timestamp(value: Timestamp) -> str:
    seconds, rest = divmod(value.nanos, SECOND)
    moment = (_EPOCH + timedelta(seconds=seconds + value.offset)).replace(tzinfo=None).isoformat()
    fraction = f"{rest:09}".rstrip("0")
    hours, minutes = divmod(abs(value.offset) // 60, 60)
    zone = f"{'-' if value.offset < 0 else '+'}{hours:02}:{minutes:02}" if value.offset else "Z"
    return f"{moment}{'.' if fraction else ''}{fraction}{zone}"


def _timestamp_part(read: Callable[[datetime], int]) -> Callable[..., int]:
    def apply(value: Timestamp, zone: str = "UTC") -> int:
        moment = _EPOCH + timedelta(microseconds=value.nanos // 1000)
        try:
            return read(moment.astimezone(_zone(zone)))
        except OverflowError:
            raise CelError("timestamp overflow") from None

    return apply


def _zone(name: str) -> tzinfo:
    """Return a time zone by name or by an offset such as `-08:30`; raises CelError."""
    hours, colon, minutes = name.partition(":")
    try:
        if not colon:
            return UTC if name in ("", "UTC") else ZoneInfo(name)
        offset = int(hours) * 60 + (-int(minutes) if name.startswith("-") else int(minutes))
        return timezone(timedelta(minutes=offset))
    except (ValueError, OSError, KeyError):
        raise CelError(f"unknown time zone {name}") from None


def _duration_part(unit: int) -> Callable[[CelDuration], int]:
    return lambda value: abs(value.nanos) // unit * (-1 if value.nanos < 0 else 1)


_TIMESTAMP_PARTS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda at: at.year,
    "getMonth": lambda at: at.month - 1,
    "getDayOfYear": lambda at: at.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda at: at.day - 1,
    "getDate": lambda at: at.day,
    "getDayOfWeek": lambda at: at.isoweekday() % 7,
    "getHours": lambda at: at.hour,
    "getMinutes": lambda at: at.minute,
    "getSeconds": lambda at: at.second,
    "getMilliseconds": lambda at: at.microsecond // 1000,
}
_DURATION_PARTS = {"getHours": _HOUR, "getMinutes": _MINUTE, "getSeconds": SECOND, "getMilliseconds": 10**6}

OVERLOADS = [
    overload
    for name, read in _TIMESTAMP_PARTS.items()
    for overload in method(name, "timestamp -> int", "timestamp, string -> int", apply=_timestamp_part(read))
]
OVERLOADS += [
    overload
    for name, unit in _DURATION_PARTS.items()
    for overload in method(name, "duration -> int", apply=_duration_part(unit))
]
