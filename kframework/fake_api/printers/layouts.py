"""Layouts of tables: column titles, cell values, and ages as kubectl prints them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kframework.clock import seconds_of
from kframework.fake_api.wire.documents import Data
from kframework.objects.plain_data import flag, name, text, value

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
#: Unit, its letter, subunit, its letter, below how many seconds the subunit is shown, and where the unit ends.
_DURATIONS: tuple[tuple[int, str, int, str, int, float], ...] = (
    (_MINUTE, "m", 1, "s", 10 * _MINUTE, 3 * _HOUR),
    (_HOUR, "h", _MINUTE, "m", 8 * _HOUR, 2 * _DAY),
    (_DAY, "d", _HOUR, "h", 8 * _DAY, 2 * _YEAR),
    (_YEAR, "y", _DAY, "d", 8 * _YEAR, math.inf),
)


def format_age(document: object, now: float) -> str:
    return format_elapsed(text(document, "metadata.creationTimestamp"), now)


def format_elapsed(timestamp: str, now: float) -> str:
    """Format the time since an RFC 3339 timestamp, `<unknown>` if it is empty."""
    if not timestamp:
        return "<unknown>"
    try:
        return format_duration(now - seconds_of(timestamp))
    except ValueError:
        return "<invalid>"


def format_duration(seconds: float) -> str:
    """Format a duration with two or three digits; up to two seconds of clock skew are tolerated."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    unit, letter, part, part_letter, in_two, _ = next(row for row in _DURATIONS if whole < row[-1])
    parts = whole % unit // part if whole < in_two else 0
    return f"{whole // unit}{letter}" + (f"{parts}{part_letter}" if parts else "")


#: None is an empty cell.
Cell = str | int | float | bool | None

#: Reads one cell, at a time in seconds since 1970.
CellReader = Callable[[Data, float], Cell]


class TableLayout(NamedTuple):
    """The columns of a kind as the API describes them, and the reader of a row."""

    columns: list[Data]
    cells: Callable[[Data, float], tuple[Cell, ...]]


def lay_out(written: str, computed: Mapping[str, CellReader] = {}) -> TableLayout:
    """Parse a layout such as `Title, (Title), Title:type=path|default`.

    A column in parentheses appears only in the output format `wide`; the type is string by default. A cell is the value
    at the path; without a path it is computed by the reader of its title.
    """
    described = parse_columns(written)
    paths = [column.partition("=")[2] for column in written.split(", ")]
    readers = [
        _path_reader(path, column["type"])
        if path
        else computed.get(str(column["name"])) or _COMMON_COLUMNS[str(column["name"])]
        for column, path in zip(described, paths, strict=True)
    ]
    return TableLayout(described, lambda document, now: tuple([read(document, now) for read in readers]))


def parse_columns(written: str) -> list[Data]:
    """Describe the columns of a layout as the API does."""
    described: list[Data] = []
    for each in written.split(", "):
        column, is_wide = each.partition("=")[0], each.startswith("(")
        title, _, type_name = (column[1:-1] if is_wide else column).partition(":")
        text_format = "name" if title == "Name" else ""
        definition: Data = {"name": title, "type": type_name or "string", "format": text_format}
        described.append({**definition, "description": "", "priority": int(is_wide)})
    return described


def _path_reader(written: str, type_name: object) -> CellReader:
    """Return a reader of the value at a path, or of the default if there is no value of this type."""
    path, _, default = written.partition("|")
    if type_name == "boolean":
        return lambda document, now: flag(document, path)
    if type_name == "integer":
        return lambda document, now: number if isinstance(number := value(document, path), int) else int(default or 0)
    return lambda document, now: _format_value(value(document, path)) or default


def _format_value(cell: object) -> str:
    """Format a text, or a quantity or percentage written as a number."""
    return str(cell) if isinstance(cell, str | int | float) and not isinstance(cell, bool) else ""


_COMMON_COLUMNS: dict[str, CellReader] = {"Name": lambda document, now: name(document), "Age": format_age}
