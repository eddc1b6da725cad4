"""Pairs of keys for ssh, drawn from a generator: Ed25519 (RFC 8032), in the files of OpenSSH.

Nothing is signed here. The arithmetic takes as long as the key has it, which nobody can measure from outside.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from hashlib import sha512
from random import Random
from textwrap import wrap
from typing import NamedTuple

_KIND = b"ssh-ed25519"

#: The field, the curve's constant d, and its base point in extended coordinates (x, y, z, x*y/z).
_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_X = 15112221349535400772501151409588531511454012693041857206046113283949847762202
_Y = 46316835694926478169428394003475163141307993866256225615783033603165251855960
_Point = tuple[int, int, int, int]
_BASE: _Point = (_X, _Y, 1, _X * _Y % _P)


class KeyPair(NamedTuple):
    """The texts of a private and a public key."""

    private: str
    public: str


def key_pair(chance: Random) -> KeyPair:
    """Draw a pair of keys."""
    seed = chance.randbytes(32)
    public = public_key(seed)
    check = chance.randbytes(4)
    blob = _texts(_KIND, public)
    secret = check + check + _texts(_KIND, public, seed + public, b"")
    secret += bytes(range(1, 1 + -len(secret) % 8))
    whole = b"openssh-key-v1\0" + _texts(b"none", b"none", b"") + struct.pack(">I", 1) + _texts(blob, secret)
    lines = wrap(b64encode(whole).decode(), 70)
    head, foot = (f"-----{word} OPENSSH PRIVATE KEY-----" for word in ("BEGIN", "END"))
    return KeyPair("".join(f"{line}\n" for line in (head, *lines, foot)), f"ssh-ed25519 {b64encode(blob).decode()}\n")


def public_key(seed: bytes) -> bytes:
    """Work out the public key that goes with a private one."""
    scalar = int.from_bytes(sha512(seed).digest()[:32], "little")
    scalar = scalar & ((1 << 254) - 8) | (1 << 254)
    x, y, z, _ = _multiple(scalar)
    inverse = pow(z, -1, _P)
    x, y = x * inverse % _P, y * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _multiple(scalar: int) -> _Point:
    found: _Point = (0, 1, 1, 0)
    power = _BASE
    while scalar:
        if scalar & 1:
            found = _sum(found, power)
        power = _sum(power, power)
        scalar >>= 1
    return found


def _sum(one: _Point, other: _Point) -> _Point:
    """Add two points, which may be the same."""
    x1, y1, z1, t1 = one
    x2, y2, z2, t2 = other
    a, b = (y1 - x1) * (y2 - x2) % _P, (y1 + x1) * (y2 + x2) % _P
    c, d = 2 * t1 * t2 * _D % _P, 2 * z1 * z2 % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _texts(*parts: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)
