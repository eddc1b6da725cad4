"""The lines of a recording, to be read and changed by tests."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

__all__ = ["Line", "changed", "lines_of", "nth", "read_unfinished"]

Line = dict[str, Any]


def lines_of(file: Path) -> list[Line]:
    """Read a recording."""
    with gzip.open(file) as lines:
        return [msgspec.json.decode(line) for line in lines]


def changed(recording: Path, file: Path, change: Callable[[list[Line]], object]) -> Path:
    """Write a recording in which something was changed."""
    lines = lines_of(recording)
    change(lines)
    with gzip.open(file, "wb") as written:
        written.writelines(msgspec.json.encode(line) + b"\n" for line in lines)
    return file


def nth(lines: list[Line], what: str, number: int) -> int:
    """Find a line that tells of this: the nth of them."""
    return [place for place, line in enumerate(lines) if line.get("what") == what][number]


def read_unfinished(file: Path) -> bytes:
    """Read what can be read of a recording that is not finished."""
    found = b""
    with gzip.open(file) as lines, suppress(EOFError):
        while byte := lines.read(1):
            found += byte
    return found
