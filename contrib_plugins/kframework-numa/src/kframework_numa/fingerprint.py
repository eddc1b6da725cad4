"""The fingerprint of a set of pods, by which a report says what it includes.

The format is that of the package podfingerprint: XXH64 of the sorted XXH64 of the names, each seeded by the XXH64 of
the namespace.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import pack, unpack_from

_MASK = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def fingerprint(hashes: Iterable[int]) -> str:
    """Return the fingerprint of the pods with these hashes, in any order."""
    total = xxh64(b"".join(pack("<Q", each) for each in sorted(hashes)))
    return f"pfp0v001{total:016x}"


@lru_cache(maxsize=65536)
def hash_pod(namespace: str, name: str) -> int:
    """Return the hash of a pod in fingerprints."""
    return xxh64(name.encode(), xxh64(namespace.encode()))


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return the 64-bit xxHash of the data."""
    length, position = len(data), 0
    if length >= 32:
        lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK]
        for position in range(0, length - 31, 32):
            lanes = [_round(lane, word) for lane, word in zip(lanes, unpack_from("<4Q", data, position), strict=True)]
        position += 32
        value = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            value = ((value ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        value = (seed + _P5) & _MASK
    return _avalanche(_absorb_rest((value + length) & _MASK, data[position:]))


def _absorb_rest(value: int, rest: bytes) -> int:
    position = 0
    while position + 8 <= len(rest):
        (word,) = unpack_from("<Q", rest, position)
        value = (_rotate(value ^ _round(0, word), 27) * _P1 + _P4) & _MASK
        position += 8
    if position + 4 <= len(rest):
        (word,) = unpack_from("<I", rest, position)
        value = (_rotate(value ^ (word * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        position += 4
    for byte in rest[position:]:
        value = _rotate(value ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    return value


def _avalanche(value: int) -> int:
    value = (value ^ (value >> 33)) * _P2 & _MASK
    value = (value ^ (value >> 29)) * _P3 & _MASK
    return value ^ (value >> 32)


def _round(lane: int, word: int) -> int:
    return _rotate((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK
