"""Who listens for this machine alone answers only to names of this machine.

Otherwise a page in a browser could ask everything here by giving its own name our address (DNS rebinding).
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

#: What others are told, with status 421.
MISDIRECTED = "this port is for this machine alone: ask it as localhost"


def is_meant_for_us(bind_address: str, host: str) -> bool:
    """Return whether a request with this Host header may be answered by who listens at this address."""
    return not is_loopback(bind_address) or is_loopback(_name(host))


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
