"""Tables: nothing is cut, and what is too long is wrapped."""

from __future__ import annotations

import pytest

from kframework.observe.text_table import format_count, table

HEADERS = ("POD", "STATUS", "MESSAGE")
MESSAGE = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable."
ROWS = [("web", "Bound", ""), ("a-longer-name", "Pending", MESSAGE)]


def laid_out(width: int | None) -> str:
    return "\n".join(table(HEADERS, ROWS, width, {}))


def test_table_columns_are_two_spaces_apart_and_never_cut() -> None:
    assert laid_out(None) == (
        "POD            STATUS   MESSAGE\n"
        "web            Bound\n"
        "a-longer-name  Pending  0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable."
    )


@pytest.mark.parametrize("width", [98, 120])
def test_message_that_fits_is_not_wrapped(width: int) -> None:
    assert laid_out(width) == laid_out(None)


def test_long_message_is_wrapped_in_its_column() -> None:
    assert laid_out(70) == (
        "POD            STATUS   MESSAGE\n"
        "web            Bound\n"
        "a-longer-name  Pending  0/3 nodes are available: 1 Insufficient cpu, 2\n"
        "                        node(s) were unschedulable."
    )


def test_long_message_is_wrapped_below_its_row_if_the_column_is_narrow() -> None:
    assert laid_out(60) == (
        "POD            STATUS   MESSAGE\n"
        "web            Bound\n"
        "a-longer-name  Pending\n"
        "    0/3 nodes are available: 1 Insufficient cpu, 2 node(s)\n"
        "    were unschedulable."
    )


def test_message_of_several_lines_stays_in_its_row() -> None:
    assert list(table(("A", "B"), [("x", "one\n  two")], None, {})) == ["A  B", r"x  one\n  two"]


def test_table_without_rows_is_its_header() -> None:
    assert list(table(HEADERS, [], None, {})) == ["POD  STATUS  MESSAGE"]


def test_colours_are_for_the_status_and_do_not_move_the_columns() -> None:
    (_, row) = table(("POD", "STATUS", "NODE"), [("Bound", "Bound", "n")], None, {"Bound": "32"})
    assert row == "Bound  \x1b[32mBound\x1b[0m   n"


@pytest.mark.parametrize(("number", "text"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods")])
def test_count_of_one_is_singular(number: int, text: str) -> None:
    assert format_count(number, "pod") == text
