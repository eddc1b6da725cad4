"""Faults, each carrying what went wrong as data.

A verdict ("this node does not fit") is a `Status`, never an exception. An exception is a fault of the configuration,
of an input file, of a plugin or of the cluster; it formats itself into the one line that a user gets to read, and the
command line maps its class to an exit code in one place. Untrusted text in messages is escaped by functions here.
"""

from __future__ import annotations

import difflib
import json
import re
import traceback
from asyncio import CancelledError
from bdb import BdbQuit
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar


class KFrameworkError(Exception):
    """The base class of all errors that this project raises on purpose."""


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to `name`, or None if none is close."""
    names = sorted(known)
    folded = {candidate.lower(): candidate for candidate in reversed(names)}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.75)
    return folded[close[0]] if close else None


#: The exceptions of a hook that awaits nothing. A CancelledError is then the plugin's own: `result()` of a cancelled
#: future raises it, and if passed on it would silently end the scheduler. So would a library's `sys.exit()`.
FAULTS: tuple[type[BaseException], ...] = (Exception, CancelledError, SystemExit)


def format_error(error: BaseException) -> str:
    """Format the class and text of an exception from untrusted code, whose `__str__` may fail."""
    try:
        text = str(error)
    except Exception as fault:
        text = f"its __str__ raises {type(fault).__name__}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def format_os_error(error: Exception) -> str:
    """Format an error of the system or of TLS without Python's numbers: `key.pem: No such file or directory`."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    text = re.sub(r"^\[[^]]*\] | \(_ssl\.c:\d+\)$", "", text)
    return "not PEM, or damaged" if text == "PEM lib" else text


def format_import_error(error: BaseException) -> str:
    """Format an exception that an import raised, with the last line of the imported code that it passed."""
    if isinstance(error, KFrameworkError):
        return str(error)
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}, at {error.filename}:{error.lineno}"
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__", "").partition(".")[0] not in ("importlib", "kframework")
    ]
    text = format_error(error)
    return f"{text}, at {frames[-1][0]}:{frames[-1][1]}" if frames else text


def safe_repr(value: object) -> str:
    """Return the `repr` of a value from untrusted code; only the class if its `__repr__` fails."""
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


#: Characters that Python considers printable, but that are invisible.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")


def escape_text(text: str) -> str:
    r"""Return untrusted text in a form that is safe in a line of a terminal or log.

    Characters that control the terminal, change the writing direction or are invisible are shown as Python's escapes:
    `\x1b`, `\u202e`, `\n`.
    """
    return _escape(text, lambda character: character.encode("unicode_escape").decode())


def escape_json(text: str) -> str:
    """Return equivalent JSON in one line, with all such characters as JSON escapes."""
    return _escape(text, lambda character: json.dumps(character)[1:-1])


def _escape(text: str, escape: Callable[[str], str]) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if each.isprintable() and each not in _BLANK else escape(each) for each in text)


@contextmanager
def exit_on_debugger_quit() -> Iterator[None]:
    """End the process, as Ctrl-C does, if the user quits the debugger anywhere inside."""
    try:
        yield
    except (BdbQuit, ExceptionGroup) as error:
        if isinstance(error, ExceptionGroup) and error.subgroup(BdbQuit) is None:
            raise
        raise KeyboardInterrupt from None


class _FileError(KFrameworkError):
    """An error in a file: its location, the problem, and the valid name that was probably meant."""

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        subject: str = "",
        path: str = "",
        nearest: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.line = line
        self.subject = subject
        self.path = path
        self.nearest = nearest

    def __str__(self) -> str:
        location = self.file or ""
        if self.line is not None:
            location += f":{self.line}"
        hint = f" (did you mean {self.nearest!r}?)" if self.nearest else ""
        return ": ".join(filter(None, (location, self.subject, self.path, self.message))) + hint


class ConfigError(_FileError):
    """Raised when a configuration is unusable; names the file, the line, the field's path and the remedy.

    `path` is written as kube-scheduler writes field paths (`profiles[0].plugins.score.enabled[1].name`), `line` counts
    from 1, `nearest` is the valid name that was probably meant.
    """


F = TypeVar("F", bound=_FileError)


class _FileErrors(_FileError, Generic[F]):
    """Several errors found together, one line each; `file`, `line` and the like are the first one's."""

    def __init__(self, errors: Sequence[F]) -> None:
        first = errors[0]
        super().__init__(
            first.message,
            file=first.file,
            line=first.line,
            subject=first.subject,
            path=first.path,
            nearest=first.nearest,
        )
        self.errors: tuple[F, ...] = tuple(errors)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


class ConfigErrors(_FileErrors[ConfigError], ConfigError):
    """Several configuration errors found together, one line each."""


def raise_collected(errors: Sequence[ConfigError]) -> None:
    """Raise the errors: nothing for none, the error itself for one, ConfigErrors for several, by file and line."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ConfigErrors(sorted(errors, key=lambda error: (error.file or "", error.line or 0)))


@contextmanager
def collect_errors(errors: list[ConfigError]) -> Iterator[None]:
    """Add the configuration errors raised inside to a list, instead of letting them out."""
    try:
        yield
    except ConfigErrors as several:
        errors.extend(several.errors)
    except ConfigError as error:
        errors.append(error)


class InputError(_FileError):
    """Raised when a cluster file cannot be read; names the file, the line if it is known, the object and the remedy."""


class InputErrors(_FileErrors[InputError], InputError):
    """Several errors of cluster files found together, one line each."""


class PluginError(KFrameworkError):
    """Raised when a plugin is at fault; names the plugin, the hook and its distribution.

    The cause, if any, is the exception that the plugin raised (`__cause__`). In a scheduling attempt this ends the
    attempt with reason `SchedulerError`; at load it ends the command.
    """

    def __init__(self, message: str, *, plugin: str, hook: str | None = None, distribution: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.plugin = plugin
        self.hook = hook
        self.distribution = distribution

    def __str__(self) -> str:
        source = f" (from {self.distribution})" if self.distribution else ""
        hook = f", hook {self.hook}" if self.hook else ""
        return f"plugin {self.plugin!r}{source}{hook}: {self.message}"


class ClusterError(KFrameworkError):
    """Raised when the cluster's API rejects or fails a call.

    `status` is the HTTP status code (0 without an answer), `reason` the API's reason (`Conflict`, `NotFound`,
    `Expired`, ...), `retryable` whether the same call may succeed later unchanged. `causes` are those of a Status, each
    with reason, message and field, for callers that must distinguish errors with the same reason.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        reason: str = "",
        retryable: bool = False,
        causes: tuple[Mapping[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.causes = causes
        self.message = message
        self.status = status
        self.reason = reason
        self.retryable = retryable

    def __str__(self) -> str:
        return self.message


class StaleNodeError(KFrameworkError):
    """Raised when a NodeInfo is read after its node was removed from the table.

    From `reserve` on, keep the node's name instead: rows are reused.
    """

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.node = node

    def __str__(self) -> str:
        return f"node {self.node!r} was removed; between cycles keep its name, not its NodeInfo"


class StatementError(KFrameworkError):
    """Raised when statements are closed out of order, or used after they were closed."""


class ExplainError(KFrameworkError):
    """Raised when a pod does not exist, or does not belong to this scheduler."""
