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

__all__ = ["logging_to_stderr", "set_verbosity", "sparing"]

#: From this verbosity on everything is logged, with tracebacks.
_ALL = 4

#: Of warnings and errors in the same words, so many a time are written, the time in seconds.
_LINES, _A_TIME = 5, 60.0


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


@contextmanager
def sparing(verbosity: int) -> Iterator[None]:
    """Write of the same warning only a few a minute inside, and then how many more there were; unless all is wanted."""
    if verbosity >= _ALL:
        yield
        return
    spared = _Sparing()
    handlers = [handler for handler in logging.getLogger().handlers if isinstance(handler, _Lines)]
    for handler in handlers:
        handler.addFilter(spared)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(spared)


class _Sparing(logging.Filter):
    """Lets the first warnings of a minute pass whose text has the same form."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING or _fault(record) is not None:
            return True
        form = record.name, str(record.msg)
        since, count = self._seen.get(form, (record.created, 0))
        if record.created >= since + _A_TIME:
            more = f" ({count - _LINES} more like the last ones)" if count > _LINES else ""
            record.msg, record.args = record.getMessage() + more, ()
            since, count = record.created, 0
        self._seen[form] = since, count + 1
        return count < _LINES


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
        fault = _fault(record)
        if fault is None:
            return False
        self._faults[fault.plugin, fault.hook] += 1
        return self._faults[fault.plugin, fault.hook] > 1


def _fault(record: logging.LogRecord) -> PluginError | None:
    """Return the plugin's fault that a record tells of."""
    fault = record.args[0] if isinstance(record.args, tuple) and record.args else None
    return fault if isinstance(fault, PluginError) else None
