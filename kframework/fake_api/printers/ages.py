"""How long something has been, in the few letters that kubectl prints."""

from __future__ import annotations

from kframework.clock import seconds_of
from kframework.fake_api.wire.plain_data import text

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def age(document: object, now: float) -> str:
    """Say how old an object is."""
    return since(text(document, "metadata.creationTimestamp"), now)


def since(timestamp: str, now: float) -> str:
    """Say how long ago an RFC 3339 timestamp was, `<unknown>` if there is none."""
    if not timestamp:
        return "<unknown>"
    try:
        return human_duration(now - seconds_of(timestamp))
    except ValueError:
        return "<invalid>"


def human_duration(seconds: float) -> str:
    """Write a duration with two or three digits; clocks that differ by less than two seconds are forgiven."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * _MINUTE:
        return _in_two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _in_two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _in_two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _in_two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _in_two(seconds: int, unit: int, name: str, part: int, part_name: str) -> str:
    """Write a duration in units and what is left of it in parts, if anything is."""
    units, rest = divmod(seconds, unit)
    parts = rest // part
    return f"{units}{name}{parts}{part_name}" if parts else f"{units}{name}"
