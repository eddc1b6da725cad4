"""What is logged, as single lines on stderr."""

from __future__ import annotations

import logging
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from kframework.cli.printing import say
from kframework.errors import PluginError

__all__ = ["logging_to_stderr", "set_verbosity"]

#: From this verbosity on everything is logged, with tracebacks.
_ALL = 4


@contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Write warnings and worse to stderr inside; `set_verbosity` asks for more."""
    root = logging.getLogger()
    level, handler = root.level, _Lines()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        handler.close()


def set_verbosity(verbosity: int) -> int:
    """Log as much as `-v` asks for, on kube-scheduler's scale."""
    level = logging.DEBUG if verbosity >= _ALL else logging.INFO if verbosity else logging.WARNING
    logging.getLogger().setLevel(level)
    return verbosity


class _Lines(logging.Handler):
    """Writes a line per record, and says of the faults of one hook of a plugin only the first and how many followed."""

    def __init__(self) -> None:
        super().__init__()
        self._faults: Counter[tuple[str, str | None]] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        in_full = logging.getLogger().isEnabledFor(logging.DEBUG)
        if not in_full and self._seen(record):
            return
        text = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and str(error) not in text:
            text += f": {type(error).__name__}: {error}"
        say(record.levelname.lower(), text)
        if error is not None and in_full:
            sys.stderr.writelines(traceback.format_exception(error))

    def close(self) -> None:
        for (plugin, hook), times in self._faults.items():
            if times > 1:
                where = f"plugin {plugin!r}" + (f", hook {hook}" if hook else "")
                say("error", f"{where}: failed {times - 1} more times (-v {_ALL} shows each)")
        self._faults.clear()
        super().close()

    def _seen(self, record: logging.LogRecord) -> bool:
        """Tell whether the record repeats a plugin's fault."""
        fault = record.args[0] if isinstance(record.args, tuple) and record.args else None
        if not isinstance(fault, PluginError):
            return False
        self._faults[fault.plugin, fault.hook] += 1
        return self._faults[fault.plugin, fault.hook] > 1
