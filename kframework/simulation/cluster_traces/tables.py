"""Tables of cluster traces: CSV files, plain or gzip, read row by row in bounded memory."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar, cast

from kframework.errors import InputError, nearest_name
from kframework.objects.json_lines import read_lines

R = TypeVar("R")

#: The maximum length of a line.
_MAX_LINE_BYTES = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"


class Columns(NamedTuple):
    """The columns to read from a table, by the names in its first line, or in `header` if it has no such line."""

    required: Sequence[str]
    optional: Sequence[str] = ()
    header: Sequence[str] = ()


def read_rows(file: str, columns: Columns, convert: Callable[..., R | None]) -> Iterator[R]:
    """Yield what `convert` returns for the texts of the columns of each row, unless it is None.

    An absent column is "". Raises InputError with file and line for a row that cannot be read, or for which `convert`
    raises ValueError.
    """
    with _open(file) as stream:
        reader = csv.reader(
            (line.decode() for _, line in read_lines(stream.readline, file, _MAX_LINE_BYTES)), strict=True
        )
        try:
            header = list(columns.header) or _read_header(reader)
            pick = _create_picker(header, columns)
            for row in reader:
                if not row or row == header:
                    continue
                if len(row) != len(header):
                    raise ValueError(f"has {len(row)} columns, not the {len(header)} of the header")
                record = convert(*pick(row))
                if record is not None:
                    yield record
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise InputError(f"broken gzip: {error}", file=file) from error
        except UnicodeDecodeError as error:
            raise InputError("not UTF-8 text", file=file, line=reader.line_num + 1) from error
        except (ValueError, csv.Error) as error:
            raise InputError(str(error), file=file, line=max(1, reader.line_num)) from error


def check_columns(file: str, columns: Columns) -> None:
    """Raise InputError for a column of the first line that is not among these."""
    known = [*columns.required, *columns.optional]
    with _open(file) as stream:
        header = _read_header(csv.reader([stream.readline(_MAX_LINE_BYTES).decode(errors="replace")]))
    for name in header:
        if name not in known:
            nearest = nearest_name(name, known)
            remedy = f'did you mean "{nearest}"?' if nearest else f"known are {', '.join(known)}"
            raise InputError(f'unknown column "{name}"; {remedy}', file=file, line=1)


@contextmanager
def _open(file: str) -> Iterator[BinaryIO]:
    try:
        stream = Path(file).open("rb")
    except OSError as error:
        raise InputError(error.strerror or str(error), file=file) from error
    with stream:
        is_gzip = stream.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        stream.seek(0)
        yield cast(BinaryIO, gzip.GzipFile(fileobj=stream)) if is_gzip else stream


def _read_header(reader: Iterator[list[str]]) -> list[str]:
    return [name.strip().removeprefix("\ufeff") for name in next(reader, [])]


def _create_picker(header: Sequence[str], columns: Columns) -> Callable[[list[str]], Sequence[str]]:
    """Return a function that takes the columns of a row."""
    for name in columns.required:
        if name not in header:
            raise ValueError(f'there is no column "{name}"; the columns are {", ".join(header)}')
    names = [*columns.required, *columns.optional]
    pick = itemgetter(*(header.index(name) if name in header else len(header) for name in names))
    return lambda row: pick([*row, ""])


def parse_number(column: str, text: str) -> float:
    """Read a number from 0 on; ValueError with the name of the column."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise ValueError(f"{column} is {text!r}, not a number from 0 on")
    return number


def parse_count(column: str, text: str) -> int:
    """Read a whole number from 0 on; ValueError with the name of the column."""
    number = parse_number(column, text)
    if number != int(number):
        raise ValueError(f"{column} is {text!r}, not a whole number")
    return int(number)
