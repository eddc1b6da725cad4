"""What is logged, as lines on stderr: in plain words, or as a log once `-v` or `--logging-format` asks for one."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from kframework.cli import printing
from kframework.cli.log_lines import AT_FAULT, json_line, klog_line, plain_text
from kframework.errors import PluginError
from kframework.verbosity import NOTICE, V2, VOICE, level_of
from kframework.verbosity import say as say

#: From this verbosity on everything is logged, with tracebacks.
_ALL = 4

#: Of lines in the same words, so many a time are written, the time in seconds.
_LINES, _A_TIME = 5, 60.0

#: Nobody who asks what a scheduler does wants to know what its event loop does.
_loop = logging.getLogger("asyncio")


class LoggingFormat(StrEnum):
    """The forms of a log."""

    TEXT = "text"
    JSON = "json"


@contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Write notices and worse to stderr inside; `set_verbosity` asks for more, `set_format` for another form."""
    root, handler = logging.getLogger(), _Stderr()
    levels = {logger: logger.level for logger in (root, _loop)}
    root.addHandler(handler)
    root.setLevel(NOTICE)
    _loop.setLevel(logging.INFO)
    try:
        yield
    finally:
        handler.say_repeated()
        root.removeHandler(handler)
        for logger, level in levels.items():
            logger.setLevel(level)
        handler.close()


def set_verbosity(verbosity: int) -> int:
    """Log as much as `-v` asks for, on kube-scheduler's scale."""
    logging.getLogger().setLevel(level_of(verbosity))
    for handler in _handlers():
        handler.form = handler.form or (LoggingFormat.TEXT if verbosity else None)
    return verbosity


def set_format(form: LoggingFormat | None) -> LoggingFormat | None:
    """Log in this form; None leaves it as it is."""
    for handler in _handlers():
        handler.form = form or handler.form
    return form


@contextmanager
def sparing(verbosity: int) -> Iterator[None]:
    """Write of the same line only a few a minute inside, and then how many more there were; unless all is wanted."""
    if verbosity >= _ALL:
        yield
        return
    spared = _Sparing()
    handlers = _handlers()
    for handler in handlers:
        handler.addFilter(spared)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(spared)


class _Sparing(logging.Filter):
    """Lets the first lines of a minute pass whose text has the same form; all, where each pod is to have its line."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < NOTICE or record.name == VOICE.name or _at_fault(record) is not None:
            return True
        if hasattr(record, "pod") and logging.getLogger().isEnabledFor(V2):
            return True
        form = record.name, str(record.msg)
        since, count = self._seen.get(form, (record.created, 0))
        if record.created >= since + _A_TIME:
            more = f" ({count - _LINES} more like the last ones)" if count > _LINES else ""
            record.msg, record.args = record.getMessage() + more, ()
            since, count = record.created, 0
        self._seen[form] = since, count + 1
        return count < _LINES


class _Stderr(logging.Handler):
    """Writes a line per record, and of the faults of one hook or coroutine only the first and how many followed.

    `form` is None for plain words.
    """

    def __init__(self) -> None:
        super().__init__()
        self.form: LoggingFormat | None = None
        self._faults: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        if self._seen(record) and not logging.getLogger().isEnabledFor(level_of(_ALL)):
            return
        try:
            self._write(record)
        except Exception:  # a full disk behind stderr, for instance: what logs goes on
            self.handleError(record)

    def _write(self, record: logging.LogRecord) -> None:
        if self.form is LoggingFormat.JSON:
            sys.stderr.write(f"{json_line(record)}\n")
        elif self.form is None or record.name == VOICE.name:
            printing.say(record.levelname.lower(), plain_text(record))
        else:
            sys.stderr.write(f"{klog_line(record)}\n")

    def say_repeated(self) -> None:
        """Say how often the hooks and coroutines of plugins failed of whose faults only the first was said."""
        if logging.getLogger().isEnabledFor(level_of(_ALL)):
            return
        for where, times in self._faults.items():
            if times > 1:
                more = "once more" if times == 2 else f"{times - 1} more times"
                say("error", f"{where}: failed {more} (-v {_ALL} shows each)")
        self._faults.clear()

    def _seen(self, record: logging.LogRecord) -> bool:
        """Return whether the record repeats a plugin's fault."""
        where = _at_fault(record)
        if where is None:
            return False
        self._faults[where] += 1
        return self._faults[where] > 1


def _handlers() -> list[_Stderr]:
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, _Stderr)]


def _at_fault(record: logging.LogRecord) -> str | None:
    """Say which plugin a record blames, and what of it."""
    fault = record.args[0] if isinstance(record.args, tuple) and record.args else None
    if isinstance(fault, PluginError):
        return f"plugin {fault.plugin!r}" + (f", hook {fault.hook}" if fault.hook else "")
    return getattr(record, AT_FAULT, None)
