"""The layout of explanations of every engine: fields, lists, tables, and how much of each is shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from kframework.errors import visible
from kframework.observe.text_table import table

T = TypeVar("T")


class Layout(NamedTuple):
    """How much an explanation shows: a few of everything, or all of it if it is `wide`."""

    wide: bool

    def first(self, items: Sequence[T], most: int) -> Sequence[T]:
        """Return the items to show, at most so many unless all are."""
        return items if self.wide else items[:most]

    def names(self, names: Sequence[str], most: int, count: int | None = None) -> str:
        """Return the names to show and how many more there are; `count` is how many there are, if not all are named."""
        shown = self.first(names, most)
        more = (len(names) if count is None else count) - len(shown)
        return ", ".join(shown) + (f" and {more} more" if more > 0 else "")

    def lines(self, lines: Sequence[str], most: int, more: str) -> Iterator[str]:
        """Yield the lines to show, and as the last one how many more there are: `more` with its `{}` filled in."""
        shown = self.first(lines, most)
        yield from shown
        if len(shown) < len(lines):
            yield more.format(len(lines) - len(shown))


#: Show a few of everything.
BRIEF = Layout(wide=False)


def format_sections(*sections: Iterable[str]) -> str:
    """Join sections by empty lines and escape control characters; a section without lines is left out."""
    texts = ("\n".join(map(visible, section)) for section in sections)
    return "\n\n".join(filter(None, texts)) + "\n"


def format_fields(fields: Mapping[str, str]) -> Iterator[str]:
    """Write fields as `Name: value`, the values below each other; fields without a value are left out."""
    width = max(map(len, fields)) + 2
    return (f"{f'{name}:':{width}}{value}" for name, value in fields.items() if value)


def format_list(lines: Iterable[str]) -> Iterator[str]:
    """Write lines as the items of a list."""
    return (f"  - {line}" for line in lines)


def format_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Write a table below a heading."""
    return indent(table(headers, rows))


def indent(lines: Iterable[str], levels: int = 1) -> Iterator[str]:
    """Indent lines by two spaces a level."""
    return (f"{'  ' * levels}{line}" for line in lines)
