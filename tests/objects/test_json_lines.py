"""Lines are read whole, with their numbers; an endless one is an error before it fills the memory."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import pytest

from kframework.errors import InputError
from kframework.objects.json_lines import read_lines

MIB = 1 << 20


def endless(piece: bytes) -> tuple[Callable[[int], bytes], list[int]]:
    """Return a stream of these bytes without end, and the numbers of bytes that were read."""
    sizes: list[int] = []

    def readline(size: int) -> bytes:
        sizes.append(size)
        assert len(sizes) < 3 * MIB
        return piece[:size] if piece.endswith(b"\n") else (piece * size)[:size]

    return readline, sizes


def test_lines_are_whole_and_numbered() -> None:
    long = b"x" * (3 * MIB) + b"\n"
    text = b"one\n\n" + long + b"last"
    assert list(read_lines(BytesIO(text).readline, "f", 4 * MIB)) == [
        (1, b"one\n"),
        (2, b"\n"),
        (3, long),
        (4, b"last"),
    ]


def test_endless_line_is_an_error_with_file_and_line() -> None:
    readline, sizes = endless(b"\0")
    with pytest.raises(InputError) as error:
        list(read_lines(readline, "bomb.gz", 2 * MIB))
    assert str(error.value) == "bomb.gz:1: is longer than 2 MiB: check that this is the right file"
    assert sum(sizes) <= 3 * MIB


def test_endless_blank_lines_are_an_error() -> None:
    readline, _ = endless(b"\n")
    with pytest.raises(InputError, match="has only blank lines"):
        list(read_lines(readline, "f", MIB))


def test_line_at_the_limit_is_read() -> None:
    text = b"x" * (MIB - 1) + b"\n"
    assert list(read_lines(BytesIO(text).readline, "f", MIB)) == [(1, text)]
