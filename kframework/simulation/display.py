"""The display of results in a terminal and in a notebook: tables, explanations, and a picture of the nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, TypeVar, overload

import msgspec

from kframework.core.cycle.records import Record
from kframework.errors import escape_text
from kframework.observe.text_table import table
from kframework.observe.web.nodes import NodeColumns

if TYPE_CHECKING:
    from kframework.explain.explanation import Explanation

T = TypeVar("T", bound=Record)

#: The maximum number of rows printed, or shown in a notebook; `to_dicts` returns all.
MAX_ROWS = 50


class Table(Sequence[T], Generic[T]):
    """Records, and the columns that are shown of them: their fields, or what is `computed` from a record."""

    def __init__(self, rows: Iterable[T], columns: Sequence[str], **computed: Callable[[T], object]) -> None:
        self._rows = tuple(rows)
        self._columns = columns
        self._computed = computed

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Table[T]: ...
    def __getitem__(self, index: int | slice) -> T | Table[T]:
        if isinstance(index, int):
            return self._rows[index]
        return Table(self._rows[index], self._columns, **self._computed)

    def __len__(self) -> int:
        return len(self._rows)

    def to_dicts(self) -> list[dict[str, object]]:
        """Return each record as a dictionary of all its fields, as pandas.DataFrame and polars.DataFrame take them."""
        return [{field: row[field] for field in row} for row in self._rows]

    def __repr__(self) -> str:
        return "\n".join([*table(list(map(str.upper, self._columns)), self._cells()), *self._more_lines()])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self._columns)
        # Only the last column is long: a name that is cut at its hyphen is hard to read.
        rows = (
            "".join(f'<td style="white-space:nowrap">{escape(escape_text(cell))}</td>' for cell in row[:-1])
            + f"<td>{escape(escape_text(row[-1]))}</td>"
            for row in self._cells()
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        rest = "".join(f"<p>{escape(line)}</p>" for line in self._more_lines())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"

    def _cells(self) -> list[list[str]]:
        cells = [self._computed.get(name, attrgetter(name)) for name in self._columns]
        return [[_text(cell(row)) for cell in cells] for row in self._rows[:MAX_ROWS]]

    def _more_lines(self) -> list[str]:
        more = len(self._rows) - MAX_ROWS
        return [f"… and {more} more"] if more > 0 else []


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)


class PodExplanation:
    """An explanation why a pod waits or is where it is, and what would help; `explanation` has all of it as values."""

    def __init__(self, explanation: Explanation) -> None:
        self.explanation: Explanation = explanation

    def to_dict(self) -> dict[str, object]:
        """Return all that is known, as `kframework explain -o json` prints it."""
        fields: dict[str, object] = msgspec.to_builtins(self.explanation)
        return fields

    def __str__(self) -> str:
        from kframework.explain.text import format_explanation  # most simulations explain nothing

        return format_explanation(self.explanation)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


#: The maximum number of drawn nodes, the squares in a row, and the pixels of a square.
MAX_DRAWN_NODES, _SQUARES_PER_ROW, _SIZE = 2_000, 50, 14


def node_picture(nodes: NodeColumns) -> str:
    """Draw the nodes in the order in which they are looked at; the tooltip of each shows its allocatable and usage."""
    names = nodes.names[:MAX_DRAWN_NODES]
    squares = "".join(_square(nodes, index) for index in range(len(names)))
    height = -(-len(names) // _SQUARES_PER_ROW) * _SIZE
    width = min(len(names), _SQUARES_PER_ROW) * _SIZE
    more = len(nodes.names) - len(names)
    rest = f"<p>… and {more} more nodes</p>" if more else ""
    return f'<svg width="{width}" height="{height}" role="img" aria-label="nodes">{squares}</svg>{rest}'


def _square(nodes: NodeColumns, index: int) -> str:
    row, column = divmod(index, _SQUARES_PER_ROW)
    used = [(each.resource, each.requested[index], each.allocatable[index]) for each in nodes.utilisation]
    full = max((requested / offered for _, requested, offered in used if offered), default=0.0)
    lines = [nodes.names[index], *(f"{name}: {requested} of {offered}" for name, requested, offered in used)]
    tip = escape(escape_text("; ".join(lines)))
    # From a light blue where nothing runs to a dark one where nothing more fits.
    lightness = round(92 - 60 * min(full, 1.0))
    return (
        f'<rect x="{column * _SIZE}" y="{row * _SIZE}" width="{_SIZE - 2}" height="{_SIZE - 2}"'
        f' fill="hsl(215 70% {lightness}%)"><title>{tip}</title></rect>'
    )
