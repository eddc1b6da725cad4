"""The command line: a thin layer over the package, with kubectl's conventions.

A command's module is imported when it is called, and has no heavy imports at the top, so that `kframework --help`,
which imports all of them, is fast. Data goes to stdout, all else to stderr. Other distributions may add commands.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from kframework.cli.commands import OpenGroup, built_in
from kframework.cli.go_flags import GoFlagsCommand
from kframework.cli.logs import logging_to_stderr
from kframework.cli.options import HELP_OPTIONS, show_help
from kframework.errors import KFrameworkError, format_error
from kframework.scheduler.gc_policy import disable_until_exit, reduced_gc
from kframework.verbosity import notify_user

__all__ = ["main"]

_log = logging.getLogger(__name__)

#: The exit codes other than 0: an error in the input, or in the command line itself.
_ERROR, _USAGE = 1, 2

#: The errors of a write to a full disk, which do not name the file.
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class _Commands(OpenGroup):
    own = (
        built_in("simulate", "kframework.cli.simulate:command"),
        built_in("run", "kframework.cli.run:command", GoFlagsCommand),
        built_in("fake-api", "kframework.cli.fake_api:command"),
        built_in("fit", "kframework.cli.fit:command"),
        built_in("nodes", "kframework.cli.nodes:command"),
        built_in("compare", "kframework.cli.compare:command"),
        built_in("sweep", "kframework.cli.sweep:command"),
        built_in("explain", "kframework.cli.explain:command"),
        built_in("replay", "kframework.cli.replay:command"),
        built_in("import", "kframework.cli.import_trace:app"),
        built_in("rbac", "kframework.cli.rbac:command"),
        built_in("conformance", "kframework.cli.conformance:command"),
        built_in("bench", "kframework.cli.bench:command"),
        built_in("new", "kframework.cli.new.command:command"),
        built_in("plugins", "kframework.cli.plugins:app"),
        built_in("config", "kframework.cli.config:app"),
        built_in("schema", "kframework.cli.schema:command"),
    )


app: typer.Typer = typer.Typer(
    name="kframework",
    cls=_Commands,
    help="Schedule pods as kube-scheduler does, with plugins written in Python.",
    context_settings=HELP_OPTIONS,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 = done, 1 = an error, 2 = wrong usage, 130 = interrupted."""
    disable_until_exit()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # until the process ends
    with logging_to_stderr(), reduced_gc():
        code = _run(sys.argv[1:] if arguments is None else arguments)
    sys.exit(code)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        from kframework._version import __version__

        typer.echo(f"kframework {__version__}")
        raise typer.Exit
    show_help(context)


def _run(arguments: Sequence[str]) -> int:
    """Run a command; all errors become lines on stderr and an exit code here."""
    try:
        # An interrupt comes back as a number, like any other early exit.
        code: int | None = app(arguments, prog_name=_program_name(), standalone_mode=False, obj=list(arguments))
        sys.stdout.flush()
        return code or 0
    except typer.TyperException as error:
        notify_user("error", _usage_problem(error.format_message()))
        command = getattr(getattr(error, "ctx", None), "command_path", _program_name())
        sys.stderr.write(f"See '{command} --help' for usage.\n")
        return _USAGE
    except BrokenPipeError:
        # The reader of the output is gone. The interpreter flushes stdout once more at exit: discard that.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _ERROR
    except Exception as error:
        _log.debug("traceback of the error", exc_info=error)
        for line in _error_lines(error):
            notify_user("error", line)
        return _ERROR


def _program_name() -> str:
    """Return the words by which the program was called: kubectl runs `kubectl-kframework` for `kubectl kframework`."""
    return "kubectl kframework" if sys.argv[0].endswith("kubectl-kframework") else "kframework"


def _usage_problem(text: str) -> str:
    """Return what typer says of a wrong argument, without the words of the library that checks it."""
    text = text.replace("Value error, ", "")
    text = re.sub(r"Input should be a valid (integer|number), .*", r"must be a \1", text)
    return text.replace("must be a integer", "must be an integer").replace("Input should be ", "must be ")


def _error_lines(error: BaseException) -> Iterator[str]:
    from kframework.errors import ConfigErrors, InputErrors

    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _error_lines(member)
    elif isinstance(error, ConfigErrors | InputErrors):
        yield from map(str, error.errors)
    elif isinstance(error, KFrameworkError):
        yield str(error)
    elif isinstance(error, OSError) and error.filename is not None:
        yield f"{error.filename}: {error.strerror}"
    elif isinstance(error, OSError) and error.errno in _DISK_FULL:
        yield f"cannot write the output: {error.strerror}; free some space"
    else:
        yield f"unexpected {format_error(error)} (-v 4 shows the traceback)"
