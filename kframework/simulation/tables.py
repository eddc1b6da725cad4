"""Rows of records: printed as a table, shown as one in a notebook, and given to what reads dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Generic, TypeVar, overload

import msgspec

from kframework.errors import visible
from kframework.observe.text_table import table

T = TypeVar("T", bound=msgspec.Struct)

#: So many rows are printed, and shown in a notebook; `to_dicts` leaves none out.
SHOWN = 50


class Table(Sequence[T], Generic[T]):
    """Records, and which of their columns are shown: each a name and what stands in it."""

    def __init__(self, rows: Iterable[T], columns: Mapping[str, Callable[[T], object]]) -> None:
        self._rows = tuple(rows)
        self._columns = columns

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Table[T]: ...
    def __getitem__(self, index: int | slice) -> T | Table[T]:
        return self._rows[index] if isinstance(index, int) else Table(self._rows[index], self._columns)

    def __len__(self) -> int:
        return len(self._rows)

    def to_dicts(self) -> list[dict[str, object]]:
        """Return each record as a dictionary of all its fields, as pandas.DataFrame and polars.DataFrame take them."""
        return [msgspec.to_builtins(row) for row in self._rows]

    def __repr__(self) -> str:
        return "\n".join([*table(list(map(str.upper, self._columns)), self._cells()), *self._rest()])

    def _repr_html_(self) -> str:
        """Return the table as a notebook shows it."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self._columns)
        # Only the last column is long: a name that is cut at its hyphen is hard to read.
        rows = (
            "".join(f'<td style="white-space:nowrap">{escape(visible(cell))}</td>' for cell in row[:-1])
            + f"<td>{escape(visible(row[-1]))}</td>"
            for row in self._cells()
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        rest = "".join(f"<p>{escape(line)}</p>" for line in self._rest())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"

    def _cells(self) -> list[list[str]]:
        return [[_text(column(row)) for column in self._columns.values()] for row in self._rows[:SHOWN]]

    def _rest(self) -> list[str]:
        more = len(self._rows) - SHOWN
        return [f"… and {more} more"] if more > 0 else []


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)
