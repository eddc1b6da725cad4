"""What keeps a configuration from being applied: fields that its type does not have, and elements without a name."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.fake_api.apply.field_paths import Path, in_words, keyed
from kframework.fake_api.apply.shapes import Elements, Fields, Shape

_NAMELESS = keyed({})


def complaints(shape: Shape, value: object, path: Path = ()) -> Iterator[str]:
    """Yield what is wrong, in the words of structured-merge-diff."""
    if isinstance(shape, Elements) and isinstance(value, list):
        yield from _of_elements(shape, value, path)
    for element, part in (shape.parts(value) or {}).items():
        if isinstance(shape, Fields) and not shape.others and not part.is_named:
            yield f"{in_words((*path, element))}: field not declared in schema"
        else:
            yield from complaints(part.shape, part.value, (*path, element))


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
