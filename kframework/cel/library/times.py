"""Durations and timestamps: as text, as numbers, and their parts in a time zone."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from zoneinfo import ZoneInfo

from kframework.cel.errors import CelError
from kframework.cel.functions import method
from kframework.cel.values import INT_MAX, INT_MIN, Duration, Timestamp

SECOND = 10**9
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MIN_SECONDS, _MAX_SECONDS = -62_135_596_800, 253_402_300_799  # the years 1 and 9999

_MINUTE, _HOUR = 60 * SECOND, 3600 * SECOND
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": SECOND, "m": _MINUTE, "h": _HOUR}
_DURATION = re.compile(r"[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_PART = re.compile(r"(\d*)\.?(\d*)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):\d\d:\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)


def duration(nanos: int) -> Duration:
    """Return a duration; raises CelError for one that 64 bits do not hold."""
    if INT_MIN <= nanos <= INT_MAX:
        return Duration(nanos)
    raise CelError("duration overflow")


def timestamp(nanos: int, offset: int = 0) -> Timestamp:
    """Return a timestamp, in a zone so many seconds before UTC's; raises CelError outside of the years 1 to 9999."""
    if _MIN_SECONDS <= nanos // SECOND <= _MAX_SECONDS:
        return Timestamp(nanos, offset)
    raise CelError("timestamp overflow")


def read_duration(text: str) -> Duration:
    """Read a duration such as `1h30m` or `-1.5s`; raises CelError."""
    if _DURATION.fullmatch(text) is None:
        raise CelError("type conversion error from 'string' to 'google.protobuf.Duration'")
    nanos = 0
    for whole, fraction, unit in _PART.findall(text):
        nanos += int(whole[:20] or "0") * _UNITS[unit]
        nanos += int(fraction[:20] or "0") * _UNITS[unit] // 10 ** len(fraction[:20])
    return duration(-nanos if text.startswith("-") else nanos)


def read_timestamp(text: str) -> Timestamp:
    """Read a timestamp of RFC 3339; raises CelError."""
    found = _RFC3339.fullmatch(text)
    wrong = CelError("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    if found is None:
        raise wrong
    moment, fraction, sign, hours, minutes = found.groups()
    try:
        at = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    except ValueError:
        raise wrong from None
    if int(hours or 0) > 24 or int(minutes or 0) > 59:
        raise wrong
    seconds = (at - _EPOCH) // timedelta(seconds=1)
    offset = int(hours or 0) * 3600 + int(minutes or 0) * 60
    offset = -offset if sign == "-" else offset
    return timestamp((seconds - offset) * SECOND + int((fraction or "")[:9].ljust(9, "0")), offset)


def write_duration(value: Duration) -> str:
    """Write a duration in seconds, as in `1.5s`: as many digits as a double keeps of them."""
    seconds, rest = divmod(abs(value.nanos), SECOND)
    return f"{plain((seconds + rest / 1e9) * (-1 if value.nanos < 0 else 1))}s"


def plain(value: float) -> str:
    """Write a double without an exponent, in the fewest digits that tell it from others."""
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


def write_timestamp(value: Timestamp) -> str:
    """Write a timestamp in RFC 3339."""
    seconds, rest = divmod(value.nanos, SECOND)
    moment = (_EPOCH + timedelta(seconds=seconds + value.offset)).replace(tzinfo=None).isoformat()
    fraction = f"{rest:09}".rstrip("0")
    hours, minutes = divmod(abs(value.offset) // 60, 60)
    zone = f"{'-' if value.offset < 0 else '+'}{hours:02}:{minutes:02}" if value.offset else "Z"
    return f"{moment}{'.' if fraction else ''}{fraction}{zone}"


def _part(read: Callable[[datetime], int]) -> Callable[..., int]:
    def apply(value: Timestamp, zone: str = "UTC") -> int:
        moment = _EPOCH + timedelta(microseconds=value.nanos // 1000)
        try:
            return read(moment.astimezone(_zone(zone)))
        except OverflowError:
            raise CelError("timestamp overflow") from None

    return apply


def _zone(name: str) -> tzinfo:
    """Return a time zone by its name, or by its offset as in `-08:30`; raises CelError."""
    hours, colon, minutes = name.partition(":")
    try:
        if not colon:
            return UTC if name in ("", "UTC") else ZoneInfo(name)
        offset = int(hours) * 60 + (-int(minutes) if name.startswith("-") else int(minutes))
        return timezone(timedelta(minutes=offset))
    except (ValueError, OSError, KeyError):
        raise CelError(f"unknown time zone {name}") from None


def _whole(unit: int) -> Callable[[Duration], int]:
    return lambda value: abs(value.nanos) // unit * (-1 if value.nanos < 0 else 1)


_PARTS: dict[str, Callable[[datetime], int]] = {
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
_WHOLES = {"getHours": _HOUR, "getMinutes": _MINUTE, "getSeconds": SECOND, "getMilliseconds": 10**6}

OVERLOADS = [
    overload
    for name, read in _PARTS.items()
    for overload in method(name, "timestamp -> int", "timestamp, string -> int", apply=_part(read))
]
OVERLOADS += [
    overload for name, unit in _WHOLES.items() for overload in method(name, "duration -> int", apply=_whole(unit))
]
