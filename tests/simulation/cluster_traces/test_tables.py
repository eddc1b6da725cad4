"""Tables are read row by row, plain or gzip, and a row that cannot be read is named with its file and line."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest

from kframework import InputError
from kframework.simulation.cluster_traces.tables import Columns, check_columns, parse_count, parse_number, read_rows


def pair(*texts: str) -> tuple[str, ...]:
    return texts


def written(tmp_path: Path, text: str | bytes) -> str:
    file = tmp_path / "table.csv"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(file)


def test_columns_are_taken_by_name_and_absent_ones_are_empty(tmp_path: Path) -> None:
    file = written(tmp_path, '\ufeffb, a,c\n1,2,3\n\n"4,\n5",6,7\n')
    assert [*read_rows(file, Columns(("a", "b"), ("d",)), pair)] == [("2", "1", ""), ("6", "4,\n5", "")]
    assert [*read_rows(file, Columns(("c",)), pair)] == [("3",), ("7",)]


def test_file_without_a_header_has_the_columns_that_are_given(tmp_path: Path) -> None:
    columns = Columns(("b",), header=("a", "b"))
    assert [*read_rows(written(tmp_path, "1,2\n3,4\n"), columns, pair)] == [("2",), ("4",)]
    assert [*read_rows(written(tmp_path, "a,b\n1,2\n"), columns, pair)] == [("2",)]


def test_gzip_is_read_like_a_plain_file(tmp_path: Path) -> None:
    file = written(tmp_path, gzip.compress(b"a\n1\n2\n"))
    assert [*read_rows(file, Columns(("a",)), pair)] == [("1",), ("2",)]


def test_rows_without_a_record_are_left_out(tmp_path: Path) -> None:
    file = written(tmp_path, "a\n1\n2\n")
    assert [*read_rows(file, Columns(("a",)), lambda text: text if text == "2" else None)] == ["2"]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a,b\n1,2\n3\n", 3, "has 1 columns, not the 2 of the header"),
        ("a,b\n1,2\n1,2,3\n", 3, "has 3 columns, not the 2 of the header"),
        ("a,b\n1,2\nx,2\n", 3, "a is 'x', not a number from 0 on"),
        ('a,b\n1,2\n"1"x,2\n', 3, "',' expected after '\"'"),
        ("b,c\n1,2\n", 1, 'there is no column "a"; the columns are b, c'),
        ("", 1, 'there is no column "a"; the columns are '),
        (b"a,b\n1,2\n\xff,2\n", 3, "not UTF-8 text"),
        (b"a,b\n" + b"1" * (2 << 20), 2, "is longer than 1 MiB: check that this is the right file"),
    ],
)
def test_bad_row_is_named_with_its_line(tmp_path: Path, text: str | bytes, line: int, message: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        list(read_rows(file, Columns(("a", "b")), lambda a, b: parse_number("a", a)))
    assert (caught.value.file, caught.value.line, caught.value.message) == (file, line, message)


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.csv")
    with pytest.raises(InputError, match=r"missing\.csv: No such file"):
        list(read_rows(missing, Columns(("a",)), pair))
    broken = written(tmp_path, gzip.compress(b"a\n" + bytes(range(48, 58)) * 1000)[:-30])
    with pytest.raises(InputError, match=r"table\.csv: broken gzip"):
        list(read_rows(broken, Columns(("a",)), pair))


def test_unknown_column_is_named_with_the_nearest(tmp_path: Path) -> None:
    columns = Columns(("name",), ("priority",))
    check_columns(written(tmp_path, "priority,name\n"), columns)
    with pytest.raises(InputError, match=r'table\.csv:1: unknown column "priorty"; did you mean "priority"\?'):
        check_columns(written(tmp_path, "name,priorty\n"), columns)
    with pytest.raises(InputError, match='unknown column "x"; known are name, priority'):
        check_columns(written(tmp_path, "name,x\n"), columns)


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "", "1,5"])
def test_number_must_be_finite_and_not_negative(text: str) -> None:
    with pytest.raises(ValueError, match=f"size is '{text}', not a number from 0 on"):
        parse_count("size", text)


def test_count_must_be_whole() -> None:
    assert parse_count("size", "3.0") == 3
    with pytest.raises(ValueError, match=r"size is '3\.5', not a whole number"):
        parse_count("size", "3.5")


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    file = written(tmp_path, gzip.compress(b"a,b\n" + b"12345678,12345678\n" * 100_000))
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_rows(file, Columns(("a", "b")), pair)) == 100_000
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
