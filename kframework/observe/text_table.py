"""Tables as kubectl prints them; control characters from a cluster do not reach the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from kframework.errors import escape_text

#: The text of an empty cell.
NONE = "<none>"

#: On a terminal the last column is wrapped where it is, or below its row if fewer columns than this are left for it.
_NARROW = 40

INDENT = " " * 4


def format_count(number: int, noun: str) -> str:
    """Format a number of things: `1 pod`, `2 pods`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int | None = None,
    colours: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[str]:
    """Lay out a table: columns two spaces apart, the last one wrapped into `width`, never cut."""
    rows = [tuple(map(escape_text, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)][:-1]
    offset = sum(widths) + 2 * len(widths)
    status = headers.index("STATUS") if "STATUS" in headers else None
    for row in (headers, *rows):
        line = ""
        for index, (cell, cell_width) in enumerate(zip(row[:-1], widths, strict=True)):
            colour = colours.get(cell) if index == status else None
            line += (f"\x1b[{colour}m{cell}\x1b[0m" if colour else cell) + " " * (cell_width - len(cell) + 2)
        last = row[-1]
        if width is None or offset + len(last) <= width:
            yield (line + last).rstrip()
            continue
        below = width - offset < _NARROW
        indent = INDENT if below else " " * offset
        wrapped = textwrap.wrap(last, max(width - len(indent), _NARROW), break_on_hyphens=False)
        yield line.rstrip() if below else line + wrapped.pop(0)
        yield from (indent + part for part in wrapped)
