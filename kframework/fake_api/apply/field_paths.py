"""Sets of fields as `managedFields` have them: FieldsV1, and the same in words.

An element of a path is `f:NAME` for a field, `k:{...}` for the element of a list with these keys, `v:VALUE` for that of
a set, `i:INDEX` for one at a place.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kframework.fake_api.wire.documents import Data

Path = tuple[str, ...]
#: Which fields there are, or whose they are. A field is not in it because one below it is.
Fields = frozenset[Path]

NO_FIELDS: Fields = frozenset()

_ITSELF = "."
_KINDS = ("f:", "k:", "v:", "i:")


def field(name: str) -> str:
    """Name a field of an object or a key of a map."""
    return f"f:{name}"


def keyed(keys: Data) -> str:
    """Name the element of a list that has these keys."""
    return f"k:{_text(keys)}"


def valued(value: object) -> str:
    """Name the element of a set."""
    return f"v:{_text(value)}"


def written(fields: Iterable[Path]) -> Data:
    """Write a set as FieldsV1."""
    members = frozenset(fields)
    root: Data = {}
    for path in sorted(members):
        place = root
        for depth, element in enumerate(path):
            below = place.setdefault(element, {})
            assert isinstance(below, dict)
            if depth + 1 < len(path) and path[: depth + 1] in members:
                below.setdefault(_ITSELF, {})
            place = below
    return root


def read(fields: object) -> Fields:
    """Read FieldsV1, but for elements of kinds that are not known; ValueError for what is none."""
    found: set[Path] = set()
    waiting: list[tuple[Path, object]] = [((), fields)]
    while waiting:
        path, below = waiting.pop()
        if not isinstance(below, dict):
            raise ValueError(f"not a set of fields: {below!r:.100}")
        if path and (not below or _ITSELF in below):
            found.add(path)
        waiting += [((*path, _normal(each)), below[each]) for each in below if each[:2] in _KINDS]
    return frozenset(found)


def in_words(path: Path) -> str:
    """Write a path as messages have it: `.spec.containers[name="web"].image`."""
    return "".join(map(_in_words, path))


def in_order(fields: Iterable[Path]) -> list[Path]:
    """Sort fields as messages name them: those of a place before those below it."""
    return sorted(fields, key=lambda path: [(depth + 1 < len(path), element) for depth, element in enumerate(path)])


def _in_words(element: str) -> str:
    kind, text = element[:2], element[2:]
    if kind == "f:":
        return f".{text}"
    if kind == "v:":
        return f"[={text}]"
    if kind == "i:":
        return f"[{text}]"
    return f"[{','.join(f'{name}={_text(value)}' for name, value in msgspec.json.decode(text, type=Data).items())}]"


def _normal(element: str) -> str:
    """Return an element as it is written here: the same keys in the same order are the same text."""
    kind, text = element[:2], element[2:]
    try:
        return f"{kind}{_text(msgspec.json.decode(text))}" if kind in ("k:", "v:") else element
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not an element of a path: {element:.100}") from error


def _text(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()
