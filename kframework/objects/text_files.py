"""Files of text that people name, read piece by piece, and written as a whole or not at all.

So a device, or a file that never ends, is an error at once.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from kframework.errors import ConfigError, InputError

#: The file name that means stdin.
STDIN = "-"

#: The number of characters that are read at a time.
_PIECE = 1 << 20


def read_text(source: str | Path, max_length: int, error: type[ConfigError | InputError]) -> tuple[str, str]:
    """Read a file, or stdin for `-`, of at most `max_length` characters; return its name for messages and its text.

    Raises `error` for a file that cannot be read, that is not text, or that is longer.
    """
    name = "<stdin>" if source == STDIN else str(source)
    try:
        if source != STDIN:
            with open(source, encoding="utf-8-sig") as stream:
                return name, "".join(_read_pieces(stream, max_length))
        if sys.stdin is None:
            raise error("is closed", file=name)
        return name, "".join(_read_pieces(sys.stdin, max_length))
    except UnicodeDecodeError as cause:
        raise error("is not UTF-8 text", file=name) from cause
    except ValueError as cause:
        raise error(str(cause), file=name) from cause
    except OSError as cause:
        raise error(f"cannot be read: {cause.strerror or cause}", file=name) from cause


def _read_pieces(stream: TextIO, max_length: int) -> Iterator[str]:
    length = 0
    while piece := stream.read(_PIECE):
        if piece.startswith("\0"):
            raise ValueError("is not text: null bytes")
        length += len(piece)
        if length > max_length:
            raise ValueError(f"is longer than {max_length >> 20} MiB: check that this is the right file")
        yield piece


def replace_file(path: Path, parts: Iterable[bytes]) -> None:
    """Replace the content of a file atomically, readable by its owner only; raises OSError."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # of mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
