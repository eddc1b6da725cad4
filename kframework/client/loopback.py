"""What stays on this machine: whom a listener of its own answers, and where what is not encrypted may go.

Who listens for this machine alone answers only to names of this machine. Otherwise a page in a browser could ask
everything here by giving its own name our address (DNS rebinding).
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

#: Why credentials are kept back where `keeps_secrets` does not hold.
PLAIN_HTTP = "credentials are not sent over plain HTTP, where anybody on the way can read them; write https://"

#: What others are told, with status 421.
MISDIRECTED = "this port is for this machine alone: ask it as localhost"


def is_meant_for_us(bind_address: str, host: str) -> bool:
    """Return whether a request with this Host header may be answered by who listens at this address."""
    return not is_loopback(bind_address) or is_loopback(_name(host))


def keeps_secrets(url: str, proxy: str | None = None) -> bool:
    """Return whether what is sent to this URL is encrypted, or stays on this machine."""
    encrypted = url.lower().startswith("https://")
    return encrypted or all(is_loopback(host_of(way)) for way in (url, proxy) if way)


def names_a_user(url: str) -> bool:
    """Return whether somebody's credentials stand in this URL."""
    return "@" in url.partition("://")[2].partition("/")[0]


def host_of(url: str) -> str:
    """Return the name or the address in a URL, without the port; empty where there is none."""
    return _name(url.rpartition("://")[2])


def is_loopback(host: str) -> bool:
    """Return whether a name or an address, without a port, is this machine for itself."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
