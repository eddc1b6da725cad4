"""Kubernetes' library of IP addresses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from kframework.cel.errors import CelError
from kframework.cel.functions import can_parse, function, method
from kframework.cel.values import Opaque

Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Ip(Opaque):
    """An address as a value."""

    address: Address
    type_name = "net.IP"

    @property
    def size(self) -> int:
        """Bytes of the address."""
        return len(self.address.packed)


def parse_address(text: str) -> Address:
    """Parse an address; raises CelError, also for a zone or an IPv4-mapped IPv6 address."""
    try:
        address: Address = IPv6Address(text) if ":" in text else IPv4Address(text)
    except AddressValueError as error:
        raise CelError(f'IP Address "{text}" parse error during conversion from string: {error}') from None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise CelError(f'IP address "{text}" with zone value is not allowed')
        if address.ipv4_mapped is not None:
            raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def _is_link_local_multicast(address: Address) -> bool:
    packed = address.packed
    return packed[:3] == b"\xe0\x00\x00" if address.version == 4 else packed[0] == 0xFF and packed[1] & 0x0F == 2


def _is_link_local_unicast(address: Address) -> bool:
    packed = address.packed
    return packed[:2] == b"\xa9\xfe" if address.version == 4 else packed[0] == 0xFE and packed[1] & 0xC0 == 0x80


def _is_global_unicast(address: Address) -> bool:
    is_broadcast = address.packed == b"\xff\xff\xff\xff"
    special = address.is_unspecified or address.is_loopback or address.is_multicast
    return not (is_broadcast or special or _is_link_local_unicast(address))


def _on_address(test: Callable[[Address], object]) -> Callable[[Ip], object]:
    return lambda ip: test(ip.address)


OVERLOADS = [
    *function("ip", "string -> net.IP", apply=lambda text: Ip(parse_address(text))),
    *function("isIP", "string -> bool", apply=can_parse(parse_address)),
    *function("ip.isCanonical", "string -> bool", apply=lambda text: str(parse_address(text)) == text),
    *function("string", "net.IP -> string", apply=_on_address(str)),
    *method("family", "net.IP -> int", apply=_on_address(lambda address: address.version)),
    *method("isUnspecified", "net.IP -> bool", apply=_on_address(lambda address: address.is_unspecified)),
    *method("isLoopback", "net.IP -> bool", apply=_on_address(lambda address: address.is_loopback)),
    *method("isLinkLocalMulticast", "net.IP -> bool", apply=_on_address(_is_link_local_multicast)),
    *method("isLinkLocalUnicast", "net.IP -> bool", apply=_on_address(_is_link_local_unicast)),
    *method("isGlobalUnicast", "net.IP -> bool", apply=_on_address(_is_global_unicast)),
]
