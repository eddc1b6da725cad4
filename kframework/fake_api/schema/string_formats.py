"""The formats of texts that schemas of custom resources may ask for; an unknown one is no format."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from urllib.parse import urlsplit
from uuid import UUID

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DURATION = re.compile(r"0|([+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+|\d+ ?(d|w|days?|weeks?)", re.ASCII)
_HOSTNAME = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\.?"
)
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_MAC = re.compile(r"[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}")


def is_valid(name: str, text: str) -> bool:
    """Return whether a text is of a format."""
    check = _CHECKS.get(name)
    return check is None or check(text)


def _reads(read: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError from error


def _time(text: str) -> bool:
    return _TIME.fullmatch(text) is not None and _reads(date.fromisoformat)(text[:10])


_CHECKS: dict[str, Callable[[str], bool]] = {
    "byte": _reads(_decoded),
    "cidr": _reads(lambda text: ipaddress.ip_network(text, strict=False)),
    "date": _reads(date.fromisoformat),
    "date-time": _time,
    "datetime": _time,
    "duration": _matches(_DURATION),
    "email": _matches(_EMAIL),
    "hostname": _matches(_HOSTNAME),
    "ipv4": _reads(ipaddress.IPv4Address),
    "ipv6": _reads(ipaddress.IPv6Address),
    "mac": _matches(_MAC),
    "uri": lambda text: _reads(urlsplit)(text) and bool(urlsplit(text).scheme or text.startswith("/")),
    "uuid": _reads(UUID),
}
