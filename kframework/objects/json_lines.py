"""Files of JSON lines, read line by line in bounded memory: an endless line, such as a gzip bomb's, is an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kframework.errors import InputError

#: The number of bytes that are read at a time.
_PIECE = 1 << 20
#: The most bytes in blank lines without any other line in between.
_MAX_BLANK = 1 << 20


def read_lines(readline: Callable[[int], bytes], file: str, max_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield the number, from 1, and the bytes of each line; raises InputError for one of more than `max_bytes`."""
    number, length, blank, pieces = 1, 0, 0, list[bytes]()
    while piece := readline(_PIECE):
        pieces.append(piece)
        length += len(piece)
        if length > max_bytes:
            message = f"is longer than {max_bytes >> 20} MiB: check that this is the right file"
            raise InputError(message, file=file, line=number)
        if piece.endswith(b"\n"):
            line = b"".join(pieces)
            blank = 0 if line.strip() else blank + length
            if blank > _MAX_BLANK:
                raise InputError("has only blank lines: check that this is the right file", file=file, line=number)
            yield number, line
            number, length, pieces = number + 1, 0, []
    if pieces:
        yield number, b"".join(pieces)
