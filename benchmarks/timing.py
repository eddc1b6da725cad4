"""How the benchmarks measure and show: microseconds a call, the best of several runs, in a plain table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from time import process_time
from timeit import Timer


def microseconds(call: Callable[[], object], runs: int = 5) -> float:
    """Time a call in processor time: the best of several runs of about 20 ms each, as other work only adds to it."""
    timer = Timer(call, timer=process_time)
    number, took = timer.autorange()
    number = max(1, round(number * 0.02 / took))
    return min(timer.repeat(runs, number)) / number * 1e6


class Stopwatch:
    """Adds up the processor time for which it is entered, in seconds."""

    def __init__(self) -> None:
        self.seconds: float = 0.0

    def __enter__(self) -> None:
        self._began = process_time()

    def __exit__(self, *error: object) -> None:
        self.seconds += process_time() - self._began


def show(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table: the first column to the left, figures to the right with one or two decimals."""
    cells = [list(headers), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(headers))]
    for first, *others in cells:
        figures = (text.rjust(width) for text, width in zip(others, widths[1:], strict=True))
        sys.stdout.write("  ".join((first.ljust(widths[0]), *figures)).rstrip() + "\n")


def _text(cell: object) -> str:
    if not isinstance(cell, float):
        return "" if cell is None else str(cell)
    return f"{cell:.2f}" if cell < 10 else f"{cell:.0f}"
