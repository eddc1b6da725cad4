"""Logging to stderr: as plain messages, or as a log with `-v` or `--logging-format`."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum

from kframework.cli import printing
from kframework.clock import LoopClock, VirtualTimeLoop
from kframework.core.runtime.timing import current_attempt
from kframework.errors import PluginError, escape_json, escape_text, format_error
from kframework.verbosity import NOTICE, V2, VOICE, level_of, verbosity_of
from kframework.verbosity import notify_user as notify_user

#: From this verbosity on everything is logged, with tracebacks.
_FULL_VERBOSITY = 4

#: The number of identical lines written per interval, and the interval in seconds.
_MAX_REPEATS, _REPEAT_INTERVAL = 5, 60.0

#: The event loop's logger, which is not part of the scheduler's verbosity.
_loop = logging.getLogger("asyncio")


class LoggingFormat(StrEnum):
    """The forms of a log."""

    TEXT = "text"
    JSON = "json"


@contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Write notices and worse to stderr inside; `set_verbosity` and `set_format` change that."""
    root, handler = logging.getLogger(), _Stderr()
    levels = {logger: logger.level for logger in (root, _loop)}
    root.addHandler(handler)
    root.setLevel(NOTICE)
    _loop.setLevel(logging.INFO)
    try:
        yield
    finally:
        handler.report_repeated_faults()
        root.removeHandler(handler)
        for logger, level in levels.items():
            logger.setLevel(level)
        handler.close()


def set_verbosity(verbosity: int) -> int:
    """Set the log level of `-v`, on kube-scheduler's scale."""
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
def deduplicated_logs(verbosity: int) -> Iterator[None]:
    """Limit identical lines per minute inside and report how many were omitted, unless at full verbosity."""
    if verbosity >= _FULL_VERBOSITY:
        yield
        return
    repeats = _RepeatFilter()
    handlers = _handlers()
    for handler in handlers:
        handler.addFilter(repeats)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(repeats)


class _RepeatFilter(logging.Filter):
    """A filter that passes the first lines of a minute with the same format; all at full verbosity."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < NOTICE or record.name == VOICE.name or _faulty_hook(record) is not None:
            return True
        if hasattr(record, "pod") and logging.getLogger().isEnabledFor(V2):
            return True
        form = record.name, str(record.msg)
        since, count = self._seen.get(form, (record.created, 0))
        if record.created >= since + _REPEAT_INTERVAL:
            more = f" ({count - _MAX_REPEATS} more like the last ones)" if count > _MAX_REPEATS else ""
            record.msg, record.args = record.getMessage() + more, ()
            since, count = record.created, 0
        self._seen[form] = since, count + 1
        return count < _MAX_REPEATS


class _Stderr(logging.Handler):
    """A handler that writes a line per record, and of the faults of one hook or coroutine the first and the number.

    `form` is None for plain messages.
    """

    def __init__(self) -> None:
        super().__init__()
        self.form: LoggingFormat | None = None
        self._faults: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        where = _faulty_hook(record)
        if where is not None:
            self._faults[where] += 1
            if self._faults[where] > 1 and not logging.getLogger().isEnabledFor(level_of(_FULL_VERBOSITY)):
                return
        try:
            if self.form is LoggingFormat.JSON:
                sys.stderr.write(f"{json_line(record)}\n")
            elif self.form is None or record.name == VOICE.name:
                printing.notify_user(record.levelname.lower(), plain_text(record))
            else:
                sys.stderr.write(f"{klog_line(record)}\n")
        except Exception:  # a full disk behind stderr, for instance: the program continues
            self.handleError(record)

    def report_repeated_faults(self) -> None:
        """Report how often hooks and coroutines of plugins failed after their first reported fault."""
        if logging.getLogger().isEnabledFor(level_of(_FULL_VERBOSITY)):
            return
        for where, times in self._faults.items():
            if times > 1:
                more = "once more" if times == 2 else f"{times - 1} more times"
                notify_user("error", f"{where}: failed {more} (-v {_FULL_VERBOSITY} shows each)")
        self._faults.clear()


def _handlers() -> list[_Stderr]:
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, _Stderr)]


def _faulty_hook(record: logging.LogRecord) -> str | None:
    """Return the plugin that a record names as faulty, with the hook or coroutine."""
    fault = record.args[0] if isinstance(record.args, tuple) and record.args else None
    if isinstance(fault, PluginError):
        return f"plugin {fault.plugin!r}" + (f", hook {fault.hook}" if fault.hook else "")
    return getattr(record, AT_FAULT, None)


#: The attribute of a record with the faulty coroutine of a plugin; not printed as a field, as the text has it.
AT_FAULT = "at_fault"

#: The attributes of every record: all others are fields.
_STANDARD_ATTRIBUTES = {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName", AT_FAULT}

#: The fields that are `namespace/name` of a pod.
_PODS = ("pod", "preemptor", "victim")


def plain_text(record: logging.LogRecord) -> str:
    """Return message and fields, and the exception if the message does not contain it."""
    text = record.getMessage()
    error = _exception_of(record)
    if error is not None and format_error(error).partition(": ")[2] not in text:
        text += f": {format_error(error)}"
    return " ".join([text, *_format_fields(_fields(record))])


def klog_line(record: logging.LogRecord) -> str:
    """Write a record as klog does: `I0102 15:04:05.000000       1 file.py:12] "Message" key="value"`."""
    severity = "E" if record.levelno >= logging.ERROR else "W" if record.levelno >= logging.WARNING else "I"
    at = _time_of(record)
    where = f"{record.process:>7} {record.filename}:{record.lineno}]"
    pairs = _format_fields(_with_attempt(_fields(record)) | _error(record))
    line = " ".join([f"{severity}{at:%m%d %H:%M:%S.%f}", where, _json(record.getMessage()), *pairs])
    # Indented, unlike lines of the log: exceptions may have several lines.
    return "\n".join([line, *(f"    {escape_text(each)}" for each in _traceback_lines(record))])


def json_line(record: logging.LogRecord) -> str:
    """Write a record as kube-scheduler does with `--logging-format json`; `ts` are milliseconds since 1970."""
    line: dict[str, object] = {
        "ts": round(_time_of(record).timestamp() * 1e3, 3),
        "caller": f"{record.filename}:{record.lineno}",
        "logger": record.name,
        "msg": record.getMessage(),
    }
    if record.levelno < logging.WARNING:
        line["v"] = verbosity_of(record.levelno)
    else:
        line["level"] = record.levelname.lower()
    fields = _with_attempt(_fields(record))
    line |= {name: _reference(value) if name in _PODS else value for name, value in fields.items()}
    stack = _traceback_lines(record)
    return _json(line | _error(record) | ({"stacktrace": "\n".join(stack)} if stack else {}))


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in record.__dict__.items() if name not in _STANDARD_ATTRIBUTES}


def _with_attempt(fields: dict[str, object]) -> dict[str, object]:
    """Add the attempt to a record that is logged during one, unless it concerns another pod."""
    trace = current_attempt.get()
    if trace is None or "attempt" in fields or fields.get("pod", trace.pod.key) != trace.pod.key:
        return fields
    return {"pod": trace.pod.key, "attempt": trace.attempt} | fields


def _error(record: logging.LogRecord) -> dict[str, object]:
    error = _exception_of(record)
    return {"err": format_error(error)} if error is not None else {}


def _exception_of(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None


def _traceback_lines(record: logging.LogRecord) -> list[str]:
    error = _exception_of(record)
    if error is None or not logging.getLogger().isEnabledFor(logging.DEBUG):
        return []
    return "".join(traceback.format_exception(error)).rstrip().split("\n")


def _time_of(record: logging.LogRecord) -> datetime:
    """Return the time of a record: in a simulation on its clock, otherwise on that of this machine."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        loop = None
    if isinstance(loop, VirtualTimeLoop):
        return datetime.fromtimestamp(LoopClock(loop).now(), UTC)
    return datetime.fromtimestamp(record.created)


def _reference(key: object) -> object:
    """Write `namespace/name` as Kubernetes refers to an object in a log."""
    namespace, _, name = str(key).rpartition("/")
    return {"name": name, "namespace": namespace} if namespace else {"name": name}


def _format_fields(fields: Mapping[str, object]) -> list[str]:
    return [f"{escape_text(name)}={_json(value)}" for name, value in fields.items()]


def _json(value: object) -> str:
    return escape_json(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))
