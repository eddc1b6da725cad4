"""Loopback addresses: which Host headers a local listener accepts, and where unencrypted secrets may be sent.

A loopback listener answers only to this machine's names. Otherwise a page in a browser could reach it by resolving its
own name to our address (DNS rebinding).
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

#: Why credentials are withheld if `is_confidential` is false.
PLAIN_HTTP = "refusing to send credentials over plain HTTP; use https://"

#: Answer to other Host headers, with status 421.
MISDIRECTED = "this port serves this machine only: use localhost"


def is_host_allowed(bind_address: str, host: str) -> bool:
    """Return whether a listener at this address may answer a request with this Host header."""
    return not is_loopback(bind_address) or is_loopback(_hostname(host))


def is_confidential(url: str, proxy: str | None = None) -> bool:
    """Return whether data sent to this URL is encrypted or stays on this machine."""
    encrypted = url.lower().startswith("https://")
    return encrypted or all(is_loopback(host_of(way)) for way in (url, proxy) if way)


def has_credentials(url: str) -> bool:
    return "@" in url.partition("://")[2].partition("/")[0]


def host_of(url: str) -> str:
    """Return the host name or address of a URL, without the port; empty if it has none."""
    return _hostname(url.rpartition("://")[2])


def is_loopback(host: str) -> bool:
    """Return whether a host name or address, without a port, is this machine's loopback."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
