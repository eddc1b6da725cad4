"""Kubernetes' library of semantic versions, also used to parse `version` attributes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kframework.cel.errors import CelError
from kframework.cel.functions import can_parse, function, method
from kframework.cel.values import UINT_MAX, Opaque, order

_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_WORD = re.compile(r"[0-9A-Za-z-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Semver(Opaque):
    """A version; build metadata is ignored."""

    major: int = field(compare=False)
    minor: int = field(compare=False)
    patch: int = field(compare=False)
    order: tuple[int, int, int, bool, tuple[tuple[int, int, str], ...]]
    type_name = "kubernetes.Semver"

    @classmethod
    def parse(cls, text: str) -> Semver:
        """Parse `major.minor.patch-prerelease+build`; raises CelError."""
        parts = text.split(".", 2)
        if len(parts) != 3:
            raise CelError("No Major.Minor.Patch elements found" if text else "Version string empty")
        patch, plus, build = parts[2].partition("+")
        patch, dash, prerelease = patch.partition("-")
        words = tuple(prerelease.split(".")) if dash else ()
        for word in (*words, *(build.split(".") if plus else ())):
            if not _WORD.fullmatch(word):
                raise CelError(f'Invalid character(s) found in prerelease or build metadata "{word}"')
        for word in words:
            if word.isdigit():
                _number("Prerelease", word)
        numbers = _number("Major", parts[0]), _number("Minor", parts[1]), _number("Patch", patch)
        # A release is greater than its prereleases, a word greater than a number.
        precedence = tuple((0, int(word), "") if word.isdigit() else (1, 0, word) for word in words)
        return cls(*numbers, (*numbers, not words, precedence))

    @classmethod
    def parse_normalized(cls, text: str) -> Semver:
        """Parse a version that may start with `v`, lack parts or have leading zeroes; raises CelError."""
        parts = [_without_zeroes(part) for part in text.removeprefix("v").split(".", 2)]
        if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
            raise CelError("short version cannot contain PreRelease/Build meta data")
        return cls.parse(".".join((*parts, "0", "0")[:3] if len(parts) < 3 else parts))


def _number(part: str, digits: str) -> int:
    if not _DIGITS.fullmatch(digits):
        raise CelError(f'Invalid character(s) found in {part.lower()} number "{digits}"')
    if len(digits) > 1 and digits[0] == "0":
        raise CelError(f'{part} number must not contain leading zeroes "{digits}"')
    if len(digits) > 20 or int(digits) > UINT_MAX:
        raise CelError(f'{part} number out of range "{digits}"')
    return int(digits)


def _without_zeroes(part: str) -> str:
    if len(part) < 2:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped and stripped[0] in "0123456789" else f"0{stripped}"


def _semver(text: str, normalize: bool = False) -> Semver:
    return Semver.parse_normalized(text) if normalize else Semver.parse(text)


_VERSIONS = "kubernetes.Semver, kubernetes.Semver"

OVERLOADS = [
    *function("semver", "string -> kubernetes.Semver", "string, bool -> kubernetes.Semver", apply=_semver),
    *function("isSemver", "string -> bool", "string, bool -> bool", apply=can_parse(_semver)),
    *method("isGreaterThan", f"{_VERSIONS} -> bool", apply=lambda left, right: left.order > right.order),
    *method("isLessThan", f"{_VERSIONS} -> bool", apply=lambda left, right: left.order < right.order),
    *method("compareTo", f"{_VERSIONS} -> int", apply=lambda left, right: order(left.order, right.order)),
    *method("major", "kubernetes.Semver -> int", apply=lambda version: version.major),
    *method("minor", "kubernetes.Semver -> int", apply=lambda version: version.minor),
    *method("patch", "kubernetes.Semver -> int", apply=lambda version: version.patch),
]
