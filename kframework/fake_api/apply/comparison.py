"""What fields an object has, and which of them a change adds, removes or sets to something else."""

from __future__ import annotations

from dataclasses import dataclass, field

from kframework.fake_api.apply.field_paths import Fields, Path
from kframework.fake_api.apply.shapes import ABSENT, ONE_VALUE, Part, Shape


def fields_of(shape: Shape, value: object) -> Fields:
    """Return the fields of a value: what is one value, keys of maps, elements of lists, and fields that are empty."""
    found: set[Path] = set()
    _collect(shape, value, (), found)
    return frozenset(found)


def _collect(shape: Shape, value: object, path: Path, found: set[Path]) -> None:
    parts = shape.parts(value)
    if parts is None:
        found.add(path)
        return
    for element, part in parts.items():
        below = (*path, element)
        _collect(part.shape, part.value, below, found)
        if not part.is_named or part.value == {}:
            found.add(below)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a change has done; a field is in one of the three, with all below it that came or went with it."""

    added: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)

    @property
    def given(self) -> set[Path]:
        """The fields that have another value than before."""
        return self.added | self.modified


def compared(shape: Shape, old: object, new: object) -> Comparison:
    """Compare two states of a value."""
    found = Comparison()
    _compare(shape, old, new, (), found)
    return found


_NOTHING = Part(ONE_VALUE, ABSENT)


def _compare(shape: Shape, old: object, new: object, path: Path, found: Comparison) -> None:
    if old == new:
        return
    before, after = shape.parts(old), shape.parts(new)
    if before is not None and after is not None:
        for element in before | after:
            was, now = before.get(element, _NOTHING), after.get(element, _NOTHING)
            inner = now.shape if now.value is not ABSENT else was.shape
            first = shape.always(element) if was.value is ABSENT and old is not ABSENT else was.value
            _compare(inner, first, now.value, (*path, element), found)
    elif old is not ABSENT and new is not ABSENT:
        found.modified.add(path)
    if old is ABSENT:
        found.added.add(path)
    elif new is ABSENT:
        found.removed.add(path)


def with_named_fields(shape: Shape, fields: Fields) -> Fields:
    """Return a set with the fields of types that are not in it, but below which there is something of it."""
    found = set(fields)
    for path in fields:
        place = shape
        for depth, element in enumerate(path[:-1]):
            part = place.below(element)
            if part.is_named:
                found.add(path[: depth + 1])
            place = part.shape
    return frozenset(found)
