"""How a log line reads: plain words for who typed a command, kube-scheduler's text, or its JSON.

What a record carries beyond what every record has (`extra=` of the logging module) are the fields of its line.
"""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime

from kframework.clock import LoopClock, VirtualTimeLoop
from kframework.core.runtime.timing import current_attempt
from kframework.errors import in_words, visible, visible_json
from kframework.verbosity import verbosity_of

#: Where a record says which coroutine of a plugin is at fault; no field of its line, whose text says it too.
AT_FAULT = "at_fault"

#: What every record has: all else are fields.
_COMMON = {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName", AT_FAULT}

#: The fields that are `namespace/name` of a pod.
_PODS = ("pod", "preemptor", "victim")

#: From this level down, a line is followed by the traceback of what was raised.
_WITH_TRACEBACK = logging.DEBUG


def plain_text(record: logging.LogRecord) -> str:
    """Return message and fields, and what was raised if the message does not say it."""
    text = record.getMessage()
    error = _raised(record)
    if error is not None and in_words(error).partition(": ")[2] not in text:
        text += f": {in_words(error)}"
    return " ".join([text, *_pairs(_fields(record))])


def klog_line(record: logging.LogRecord) -> str:
    """Write a record as klog does: `I0102 15:04:05.000000       1 file.py:12] "Message" key="value"`."""
    severity = "E" if record.levelno >= logging.ERROR else "W" if record.levelno >= logging.WARNING else "I"
    at = _moment(record)
    where = f"{record.process:>7} {record.filename}:{record.lineno}]"
    pairs = _pairs(_in_attempt(_fields(record)) | _error(record))
    line = " ".join([f"{severity}{at:%m%d %H:%M:%S.%f}", where, _json(record.getMessage()), *pairs])
    # Indented, as no line of a log is: what is raised may have lines of its own.
    return "\n".join([line, *(f"    {visible(each)}" for each in _stack(record))])


def json_line(record: logging.LogRecord) -> str:
    """Write a record as kube-scheduler does with `--logging-format json`; `ts` are milliseconds since 1970."""
    line: dict[str, object] = {
        "ts": round(_moment(record).timestamp() * 1e3, 3),
        "caller": f"{record.filename}:{record.lineno}",
        "logger": record.name,
        "msg": record.getMessage(),
    }
    if record.levelno < logging.WARNING:
        line["v"] = verbosity_of(record.levelno)
    else:
        line["level"] = record.levelname.lower()
    fields = _in_attempt(_fields(record))
    line |= {name: _reference(value) if name in _PODS else value for name, value in fields.items()}
    stack = _stack(record)
    return _json(line | _error(record) | ({"stacktrace": "\n".join(stack)} if stack else {}))


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in record.__dict__.items() if name not in _COMMON}


def _in_attempt(fields: dict[str, object]) -> dict[str, object]:
    """Say to which attempt it belongs what is logged during one, unless it is about another pod."""
    trace = current_attempt.get()
    if trace is None or "attempt" in fields or fields.get("pod", trace.pod.key) != trace.pod.key:
        return fields
    return {"pod": trace.pod.key, "attempt": trace.attempt} | fields


def _error(record: logging.LogRecord) -> dict[str, object]:
    error = _raised(record)
    return {"err": in_words(error)} if error is not None else {}


def _raised(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None


def _stack(record: logging.LogRecord) -> list[str]:
    """Return the lines of the traceback of what was raised, where they are asked for."""
    error = _raised(record)
    if error is None or not logging.getLogger().isEnabledFor(_WITH_TRACEBACK):
        return []
    return "".join(traceback.format_exception(error)).rstrip().split("\n")


def _moment(record: logging.LogRecord) -> datetime:
    """Return when it happened: in a simulation on its clock, otherwise on that of this machine."""
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


def _pairs(fields: Mapping[str, object]) -> list[str]:
    return [f"{visible(name)}={_json(value)}" for name, value in fields.items()]


def _json(value: object) -> str:
    """Write a value in one line; text in quotes."""
    return visible_json(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))
