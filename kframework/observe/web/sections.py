"""Tables of an engine's own: plain rows below a title, which the page draws without knowing their subject."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Self

import msgspec

#: The maximum number of shown rows of a table.
MAX_ROWS = 200


class ColumnKind(StrEnum):
    """The kind of a column's values, which determines how they are drawn."""

    TEXT = "text"
    #: Text in sentences, which may take all available width.
    SENTENCE = "sentence"
    NUMBER = "number"
    #: A part of a whole that is 1.
    SHARE = "share"
    #: The requested and total amount by resource: milli-CPU for `cpu`, whole units for all else.
    AMOUNTS = "amounts"
    #: Seconds since 1970, and nanoseconds.
    MOMENT = "moment"
    DURATION = "duration"


class Tone(StrEnum):
    """The state of a row's subject."""

    PLAIN = ""
    GOOD = "good"
    WAITING = "waiting"
    BAD = "bad"


class Ref(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reference to details by kind ("pod", "node", or the engine's own) and name; `text` is shown, else the name."""

    kind: str
    name: str
    text: str = ""


#: The value in a cell of a row; a mapping is an amount of a total by resource.
Cell = str | int | float | None | Ref | Mapping[str, tuple[int, int]]


class SectionColumn(msgspec.Struct, frozen=True):
    """A column of a table."""

    title: str
    kind: ColumnKind = ColumnKind.TEXT


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row of a table: a cell for each column."""

    cells: tuple[Cell, ...]
    tone: Tone = Tone.PLAIN


class Section(msgspec.Struct, frozen=True):
    """A table, or the first rows of `total`; the page identifies it by its `name` and shows the `note` below it."""

    name: str
    title: str
    columns: tuple[SectionColumn, ...]
    rows: tuple[Row, ...]
    total: int
    note: str = ""

    @classmethod
    def from_rows(
        cls, name: str, title: str, columns: Sequence[SectionColumn], rows: Iterable[Row], total: int, *, note: str = ""
    ) -> Self:
        """Create a section of the first rows; no others are created."""
        return cls(name, title, tuple(columns), tuple(islice(rows, MAX_ROWS)), total, note)

    def refs(self) -> Iterator[Ref]:
        """Return the references in the rows."""
        return (cell for row in self.rows for cell in row.cells if isinstance(cell, Ref))


class DetailView(msgspec.Struct, frozen=True, rename="camel"):
    """The details of the subject of a row: tables, and whether `/explain?KIND=NAME` explains it further."""

    sections: tuple[Section, ...] = ()
    has_explanation: bool = False
