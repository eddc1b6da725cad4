"""How values merge: which are one value, and of which parts the others consist; and what is wrong with their parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from kframework.fake_api.apply.field_paths import Path, field, in_words, keyed, valued


class Part(NamedTuple):
    """A part of a value; `is_named` says that it is a field of a type, and no key of a map nor element of a list."""

    shape: Shape
    value: object
    is_named: bool = False


class Absent:
    """What stands where nothing does."""


ABSENT: Final = Absent()


class Shape:
    """A value that is one: a text, a number, and lists and maps that are replaced as a whole."""

    def parts(self, value: object) -> dict[str, Part] | None:
        """Return the parts of a value by their elements in a path; None if it is one value."""
        return None

    def below(self, element: str) -> Part:
        """Return of what shape the part is that an element of a path names, without its value."""
        return Part(ANY, ABSENT)

    def always(self, element: str) -> object:
        """Return what is there in an object without the part: Go's types have some that cannot be left out."""
        return ABSENT


class Anything(Shape):
    """A value of which no type is known: maps are merged, lists are one value."""

    def parts(self, value: object) -> dict[str, Part] | None:
        if isinstance(value, dict):
            return {field(name): Part(self, item) for name, item in value.items()}
        return {} if value is ABSENT else None


ANY: Final = Anything()
ONE_VALUE: Final = Shape()


class Fields(Shape):
    """An object with the fields of a type.

    `named` finds the shape of a field; a part that it does not know has the shape `others`, and is a key of a map, or
    is not in the type at all. `always` says what of it is never left out, and with which value.
    """

    def __init__(
        self,
        named: Callable[[str], Shape | None],
        others: Shape | None = None,
        always: Callable[[str], object] = lambda _: ABSENT,
    ) -> None:
        self.named: Callable[[str], Shape | None] = named
        self.others: Shape | None = others
        self._always = always

    def parts(self, value: object) -> dict[str, Part] | None:
        if isinstance(value, dict):
            return {field(name): self._part(name)._replace(value=item) for name, item in value.items()}
        return {} if value is ABSENT else None

    def below(self, element: str) -> Part:
        return self._part(element[2:])

    def always(self, element: str) -> object:
        return self._always(element[2:])

    def _part(self, name: str) -> Part:
        found = self.named(name)
        return Part(self.others or ANY, ABSENT) if found is None else Part(found, ABSENT, is_named=True)


def map_of(shape: Shape) -> Fields:
    """Return the shape of a map with such values."""
    return Fields(lambda _: None, shape)


class Elements(Shape):
    """A list whose elements are told apart by `keys`, or, without any, by themselves."""

    def __init__(self, items: Shape, keys: tuple[str, ...], defaults: Mapping[str, object]) -> None:
        self._items = items
        self.keys: tuple[str, ...] = keys
        self._defaults = defaults

    def parts(self, value: object) -> dict[str, Part] | None:
        """Return the elements; those that stand twice are together one value."""
        if not isinstance(value, list):
            return {} if value is ABSENT else None
        found: dict[str, Part] = {}
        for item in value:
            name = self.name(item)
            known = found.get(name)
            found[name] = Part(self._items, item) if known is None else Part(ONE_VALUE, [known.value, item])
        return found

    def below(self, element: str) -> Part:
        return Part(self._items, ABSENT)

    def name(self, item: object) -> str:
        """Name an element as a path does; one without any key has a name without keys."""
        if not self.keys:
            return valued(item)
        said = item if isinstance(item, dict) else {}
        found = {key: said.get(key, self._defaults.get(key)) for key in self.keys}
        return keyed({key: value for key, value in found.items() if value is not None})


_NAMELESS = keyed({})


def problems(shape: Shape, value: object, path: Path = ()) -> Iterator[str]:
    """Yield what keeps a value from being applied, in the words of structured-merge-diff."""
    if isinstance(shape, Elements) and isinstance(value, list):
        yield from _of_elements(shape, value, path)
    for element, part in (shape.parts(value) or {}).items():
        if isinstance(shape, Fields) and not shape.others and not part.is_named:
            yield f"{in_words((*path, element))}: field not declared in schema"
        else:
            yield from problems(part.shape, part.value, (*path, element))


def _of_elements(shape: Elements, items: list[object], path: Path) -> Iterator[str]:
    seen: dict[str, int] = {}
    for index, item in enumerate(items):
        name = shape.name(item)
        if shape.keys and not isinstance(item, dict):
            yield f"{in_words(path)}: element {index}: associative list with keys may not have non-map elements"
        elif shape.keys and name == _NAMELESS:
            lacking = " ".join(f'"{key}"' for key in shape.keys)
            yield (
                f"{in_words(path)}: element {index}: associative list with keys has an element that omits all key"
                f" fields [{lacking}] (and doesn't have default values for any key fields)"
            )
        elif seen.get(name) == 1:
            yield f"{in_words(path)}: duplicate entries for key {in_words((name,))}"
        seen[name] = seen.get(name, 0) + 1
