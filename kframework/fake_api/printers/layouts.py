"""How the columns of a table are described: titles, values, and ages as kubectl prints them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kframework.clock import seconds_of
from kframework.fake_api.wire.plain_data import flag, name, text, value

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
#: Units, each with that of its rest, and below how many seconds the rest is written, and the unit used at all.
_DURATIONS: tuple[tuple[int, str, int, str, int, float], ...] = (
    (_MINUTE, "m", 1, "s", 10 * _MINUTE, 3 * _HOUR),
    (_HOUR, "h", _MINUTE, "m", 8 * _HOUR, 2 * _DAY),
    (_DAY, "d", _HOUR, "h", 8 * _DAY, 2 * _YEAR),
    (_YEAR, "y", _DAY, "d", 8 * _YEAR, math.inf),
)


def age(document: object, now: float) -> str:
    """Say how old an object is."""
    return since(text(document, "metadata.creationTimestamp"), now)


def since(timestamp: str, now: float) -> str:
    """Say how long ago an RFC 3339 timestamp was, `<unknown>` if there is none."""
    if not timestamp:
        return "<unknown>"
    try:
        return human_duration(now - seconds_of(timestamp))
    except ValueError:
        return "<invalid>"


def human_duration(seconds: float) -> str:
    """Write a duration with two or three digits; clocks that differ by less than two seconds are forgiven."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    unit, letter, part, part_letter, in_two, _ = next(row for row in _DURATIONS if whole < row[-1])
    parts = whole % unit // part if whole < in_two else 0
    return f"{whole // unit}{letter}" + (f"{parts}{part_letter}" if parts else "")


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
    described: list[Document] = []
    for each in written.split(", "):
        column, is_wide = each.partition("=")[0], each.startswith("(")
        title, _, type_name = (column[1:-1] if is_wide else column).partition(":")
        form = "name" if title == "Name" else ""
        of_column: Document = {"name": title, "type": type_name or "string", "format": form}
        described.append({**of_column, "description": "", "priority": int(is_wide)})
    return described


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
