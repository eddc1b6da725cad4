"""Which lines of a plugin's modules a run comes by."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from linecache import getline
from types import CodeType, FrameType
from typing import Any

__all__ = ["LineCoverage"]

Tracer = Callable[[FrameType, str, Any], Any]  # what sys.settrace takes


class LineCoverage:
    """Counts, while it is entered, how often each line of these files runs, function by function."""

    def __init__(self, files: Iterable[str]) -> None:
        self.files = frozenset(files)
        self.counts: Counter[tuple[CodeType, int]] = Counter()
        self.entered: set[CodeType] = set()

    def __enter__(self) -> LineCoverage:
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Tracer | None:
        if frame.f_code.co_filename not in self.files:
            return None
        self.entered.add(frame.f_code)
        return self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Tracer:
        if event == "line":
            self.counts[frame.f_code, frame.f_lineno] += 1
        return self._line

    def missed(self, least: int) -> Iterator[str]:
        """List the lines, as `function: line`, of functions that were entered but that ran fewer times than this."""
        for code in sorted(self.entered, key=lambda code: (code.co_filename, code.co_firstlineno)):
            lines = {line for _, _, line in code.co_lines() if line} - {code.co_firstlineno}
            for line in sorted(lines):
                if self.counts[code, line] < least:
                    yield f"{code.co_qualname}: {getline(code.co_filename, line).strip()}"
