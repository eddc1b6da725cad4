"""Kubernetes' library of address blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kframework.cel.errors import CelError
from kframework.cel.functions import can_parse, function, method
from kframework.cel.library.ip import Address, Ip, parse_address
from kframework.cel.values import Opaque

_BITS = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cidr(Opaque):
    """An address block: any address in it, and the length of its prefix in bits."""

    address: Address
    bits: int
    type_name = "net.CIDR"

    @property
    def size(self) -> int:
        """Bytes of the prefix."""
        return -(-self.bits // 8)

    def contains(self, address: Address) -> bool:
        """Return whether an address is in the block."""
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
