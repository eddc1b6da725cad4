"""Explanations of every engine are laid out alike, and nothing in them steers the terminal."""

from __future__ import annotations

import pytest

from kframework.explain.text import (
    BRIEF,
    Layout,
    format_fields,
    format_list,
    format_sections,
    format_table,
    indent,
)

WIDE = Layout(wide=True)


@pytest.mark.parametrize(
    ("layout", "names", "count", "text"),
    [
        (BRIEF, ["a", "b", "c"], None, "a, b and 1 more"),
        (BRIEF, ["a", "b"], None, "a, b"),
        (BRIEF, ["a"], 7, "a and 6 more"),
        (WIDE, ["a", "b", "c"], None, "a, b, c"),
        (WIDE, ["a", "b", "c"], 7, "a, b, c and 4 more"),
    ],
)
def test_omitted_names_are_counted(layout: Layout, names: list[str], count: int | None, text: str) -> None:
    assert layout.names(names, 2, count) == text


def test_omitted_lines_are_counted_in_the_last_line() -> None:
    lines = ["one", "two", "three"]
    assert list(BRIEF.lines(lines, 2, "and {} more")) == ["one", "two", "and 1 more"]
    assert list(BRIEF.lines(lines, 3, "and {} more")) == list(WIDE.lines(lines, 2, "and {} more")) == lines


def test_sections_are_separated_and_escaped() -> None:
    assert format_sections(["a", "b"], [], ["\x1b[2J"]) == "a\nb\n\n\\x1b[2J\n"


def test_field_values_are_aligned_and_empty_fields_omitted() -> None:
    assert list(format_fields({"Pod": "p", "Nominated": "", "Node": "n"})) == ["Pod:       p", "Node:      n"]


def test_lists_and_tables_are_indented_below_their_heading() -> None:
    assert list(format_list(["one"])) == ["  - one"]
    assert list(format_table(("POD", "NODE"), [("p", "n1")])) == ["  POD  NODE", "  p    n1"]
    assert list(indent(["deep"], 3)) == ["      deep"]
