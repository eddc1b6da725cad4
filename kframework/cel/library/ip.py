"""Kubernetes' libraries of IP addresses and of address blocks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from kframework.cel.errors import CelError
from kframework.cel.functions import can_parse, function, method
from kframework.cel.values import Opaque

Address = IPv4Address | IPv6Address

_BITS = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Ip(Opaque):
    """An address as a value."""

    address: Address
    type_name = "net.IP"

    @property
    def size(self) -> int:
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


@dataclass(frozen=True, slots=True)
class Cidr(Opaque):
    """An address block: any address in it, and the length of its prefix in bits."""

    address: Address
    bits: int
    type_name = "net.CIDR"

    @property
    def size(self) -> int:
        return -(-self.bits // 8)

    def contains(self, address: Address) -> bool:
        rest = address.max_prefixlen - self.bits
        return address.version == self.address.version and int(address) >> rest == int(self.address) >> rest


def _parse_cidr(text: str) -> Cidr:
    address, slash, bits = text.rpartition("/")
    if not slash or _BITS.fullmatch(bits) is None:
        raise CelError(f'network address parse error during conversion from string: "{text}"')
    block = Cidr(parse_address(address), int(bits))
    if block.bits > block.address.max_prefixlen:
        raise CelError(
            f'network address parse error during conversion from string: "{text}": prefix length out of range'
        )
    return block


def _mask(block: Cidr) -> Cidr:
    rest = block.address.max_prefixlen - block.bits
    return Cidr(type(block.address)(int(block.address) >> rest << rest), block.bits)


def _contains(block: Cidr, other: Cidr) -> bool:
    return block.bits <= other.bits and block.contains(other.address)


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
    *function("cidr", "string -> net.CIDR", apply=_parse_cidr),
    *function("isCIDR", "string -> bool", apply=can_parse(_parse_cidr)),
    *function("string", "net.CIDR -> string", apply=lambda block: f"{block.address}/{block.bits}"),
    *method("containsIP", "net.CIDR, string -> bool", apply=lambda block, text: block.contains(parse_address(text))),
    *method("containsIP", "net.CIDR, net.IP -> bool", apply=lambda block, ip: block.contains(ip.address)),
    *method("containsCIDR", "net.CIDR, string -> bool", apply=lambda block, text: _contains(block, _parse_cidr(text))),
    *method("containsCIDR", "net.CIDR, net.CIDR -> bool", apply=_contains),
    *method("ip", "net.CIDR -> net.IP", apply=lambda block: Ip(block.address)),
    *method("prefixLength", "net.CIDR -> int", apply=lambda block: block.bits),
    *method("masked", "net.CIDR -> net.CIDR", apply=_mask),
]
