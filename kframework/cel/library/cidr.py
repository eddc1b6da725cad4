"""Kubernetes' library of address blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kframework.cel.errors import CelError
from kframework.cel.functions import function, method, readable
from kframework.cel.library.ip import Address, Ip, parsed
from kframework.cel.values import Opaque

_BITS = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cidr(Opaque):
    """A block of addresses as a value: an address, which need not be the first, and how many bits of it count."""

    address: Address
    bits: int
    type_name = "net.CIDR"

    @property
    def size(self) -> int:
        """The bytes of the prefix."""
        return -(-self.bits // 8)

    def holds(self, address: Address) -> bool:
        """Return whether an address is in the block."""
        rest = address.max_prefixlen - self.bits
        return address.version == self.address.version and int(address) >> rest == int(self.address) >> rest


def _parsed(text: str) -> Cidr:
    address, slash, bits = text.rpartition("/")
    if not slash or _BITS.fullmatch(bits) is None:
        raise CelError(f'network address parse error during conversion from string: "{text}"')
    found = Cidr(parsed(address), int(bits))
    if found.bits > found.address.max_prefixlen:
        raise CelError(
            f'network address parse error during conversion from string: "{text}": prefix length out of range'
        )
    return found


def _masked(block: Cidr) -> Cidr:
    rest = block.address.max_prefixlen - block.bits
    return Cidr(type(block.address)(int(block.address) >> rest << rest), block.bits)


def _contains(block: Cidr, other: Cidr) -> bool:
    return block.bits <= other.bits and block.holds(other.address)


OVERLOADS = [
    *function("cidr", "string -> net.CIDR", apply=_parsed),
    *function("isCIDR", "string -> bool", apply=readable(_parsed)),
    *function("string", "net.CIDR -> string", apply=lambda block: f"{block.address}/{block.bits}"),
    *method("containsIP", "net.CIDR, string -> bool", apply=lambda block, text: block.holds(parsed(text))),
    *method("containsIP", "net.CIDR, net.IP -> bool", apply=lambda block, ip: block.holds(ip.address)),
    *method("containsCIDR", "net.CIDR, string -> bool", apply=lambda block, text: _contains(block, _parsed(text))),
    *method("containsCIDR", "net.CIDR, net.CIDR -> bool", apply=_contains),
    *method("ip", "net.CIDR -> net.IP", apply=lambda block: Ip(block.address)),
    *method("prefixLength", "net.CIDR -> int", apply=lambda block: block.bits),
    *method("masked", "net.CIDR -> net.CIDR", apply=_masked),
]
