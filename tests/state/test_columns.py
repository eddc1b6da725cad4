"""Columns: growth, and interned values."""

from __future__ import annotations

import numpy as np
import pytest

from kframework.state.columns import CodeColumn, Column, count_values


def test_values_and_cells_are_one_memory() -> None:
    column = Column(3)
    column.cells[1] = 2**62
    assert column.values.tolist() == [0, 2**62, 0]
    column.values[2] = -1
    assert column.cells.tolist() == [0, 2**62, -1]
    assert column.values.dtype == np.int64


def test_growth_keeps_what_was_and_adds_zeros() -> None:
    column = Column(2)
    column.values[:] = (5, 6)
    column.grow(4)
    assert column.cells.tolist() == [5, 6, 0, 0]


def test_cells_write_to_the_values_after_growth() -> None:
    column = Column(1)
    column.grow(2)
    column.cells[1] = 7
    assert column.values.tolist() == [0, 7]


def test_views_from_before_a_growth_stay_readable() -> None:
    column = Column(2)
    column.values[:] = (5, 6)
    cells, values = column.cells, column.values
    column.grow(64)
    column.cells[0] = 9
    assert cells.tolist() == values.tolist() == [5, 6]


def test_equal_values_share_a_code() -> None:
    column: CodeColumn[tuple[str, ...]] = CodeColumn(2, ())
    assert column.code(()) == 0
    assert column.code(("a",)) == 1
    assert column.code(("b",)) == 2
    assert column.code(("a",)) == 1
    assert column.meanings == [(), ("a",), ("b",)]


def test_lookup_of_an_unknown_value_creates_no_code() -> None:
    column: CodeColumn[str | None] = CodeColumn(2, None)
    assert column.find_code("x") is None
    assert column.find_code(None) == 0
    assert column.code("x") == 1
    assert column.find_code("x") == 1
    assert column.meanings == [None, "x"]


def test_codes_survive_growth() -> None:
    column: CodeColumn[str | None] = CodeColumn(1, None)
    column.cells[0] = column.code("x")
    column.grow(2)
    assert [column.meanings[code] for code in column.cells] == ["x", None]


@pytest.mark.parametrize("distinct", [0, 1, 5, 16, 17, 400])
def test_counted_values_are_those_of_numpy(distinct: int) -> None:
    values = np.array([(7 * number) % distinct - 3 for number in range(1000)] if distinct else [], dtype=np.int64)
    expected, counts = np.unique(values, return_counts=True)
    assert count_values(values) == [*zip(expected.tolist(), counts.tolist(), strict=True)]
