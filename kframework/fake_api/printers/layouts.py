"""How the columns of a table are written down: their titles, and what of an object stands below each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kframework.fake_api.printers.ages import age
from kframework.fake_api.wire.plain_data import flag, name, value

Document = dict[str, object]
#: None is an empty cell.
Cell = str | int | float | bool | None

#: Fills one cell, at a time in seconds since 1970.
Fill = Callable[[Document, float], Cell]


class Layout(NamedTuple):
    """The columns of a kind, as the API describes them, and what fills a row of them."""

    columns: list[Document]
    cells: Callable[[Document, float], tuple[Cell, ...]]


def layout(written: str, computed: Mapping[str, Fill] = {}) -> Layout:
    """Lay a kind out as `Title, (Title), Title:type=path|default`.

    A column in parentheses shows in the output format `wide` only; one holds strings, if no other type stands there. It
    is filled with what stands at its path, and where it has none, with what is computed for its title.
    """
    described = columns(written)
    paths = [column.partition("=")[2] for column in written.split(", ")]
    fills = [
        _at(path, column["type"]) if path else computed.get(str(column["name"])) or _OF_EVERY_KIND[str(column["name"])]
        for column, path in zip(described, paths, strict=True)
    ]
    return Layout(described, lambda document, now: tuple([fill(document, now) for fill in fills]))


def columns(written: str) -> list[Document]:
    """Describe the columns of a layout as the API does."""
    return [_column(each.partition("=")[0]) for each in written.split(", ")]


def _column(written: str) -> Document:
    is_wide = written.startswith("(")
    title, _, type_name = (written[1:-1] if is_wide else written).partition(":")
    return {
        "name": title,
        "type": type_name or "string",
        "format": "name" if title == "Name" else "",
        "description": "",
        "priority": int(is_wide),
    }


def _at(written: str, type_name: object) -> Fill:
    """Fill a cell with what stands at a path, or with the default where nothing of its type does."""
    path, _, default = written.partition("|")
    if type_name == "boolean":
        return lambda document, now: flag(document, path)
    if type_name == "integer":
        return lambda document, now: found if isinstance(found := value(document, path), int) else int(default or 0)
    return lambda document, now: _shown(value(document, path)) or default


def _shown(found: object) -> str:
    """Show a text, or a quantity or percentage that was written as a number."""
    return str(found) if isinstance(found, str | int | float) and not isinstance(found, bool) else ""


_OF_EVERY_KIND: dict[str, Fill] = {"Name": lambda document, now: name(document), "Age": age}
