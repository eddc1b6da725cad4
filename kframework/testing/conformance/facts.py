"""Facts: what is recorded beside what the engine says; and what could not be compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from kframework.objects.codec import FieldPath


class Fact(msgspec.Struct, frozen=True):
    """One field of a case: where it stands, what kube-scheduler answered and what the engine did; None = nothing."""

    path: FieldPath
    expected: object
    got: object

    @property
    def differs(self) -> bool:
        """Whether the engine's answer is another one."""
        return self.expected != self.got


class Uncompared(msgspec.Struct, frozen=True):
    """A part of a case that was not compared, and why."""

    part: str
    reason: str


def beside(expected: Mapping[str, object], got: Mapping[str, object], *path: str | int) -> Iterator[Fact]:
    """Put two mappings side by side, key by key, below a path."""
    for key in dict.fromkeys((*expected, *got)):
        yield Fact((*path, key), expected.get(key), got.get(key))


def not_built(part: str, plugin: str) -> Uncompared:
    """Say that a part waits for a plugin that nobody offers."""
    return Uncompared(part, f"{plugin} is not built yet")
