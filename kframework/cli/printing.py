"""Printing of results: tables like kubectl's on stdout, JSON, YAML, names, lines; and messages on stderr.

All output of commands goes through here, so that text from a cluster cannot control the terminal.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from kframework.errors import escape_json, escape_text
from kframework.observe.text_table import INDENT, table

#: The colours of words in the column STATUS, as ANSI codes.
_COLOURS = {"Running": "32", "Succeeded": "32", "Failed": "31", "Pending": "33"}


class DataForm(StrEnum):
    """The forms of data for programs."""

    JSON = "json"
    YAML = "yaml"


def notify_user(kind: str, text: str) -> None:
    """Write one message to stderr, besides the data: an `error`, a `warning`, a `notice`; wrapped on a terminal."""
    # Errors may have several lines; other whitespace is shown.
    words = re.sub(r"[ \t]*\n[ \t]*|  +", " ", text.strip(" \n"))
    line = f"{kind}: {escape_text(words)}"
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        line = textwrap.fill(line, width, subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False)
    # Looked up at every call: a progress bar replaces stderr while it is shown.
    sys.stderr.write(f"{line}\n")


def print_lines(*lines: str) -> None:
    """Print lines to stdout, flushed at once, as some come long before others."""
    sys.stdout.writelines(f"{escape_text(line)}\n" for line in lines)
    sys.stdout.flush()


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table to stdout, in colour and fitted to its width if that is a terminal."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    sys.stdout.writelines(f"{line}\n" for line in table(headers, rows, width, _COLOURS if _in_colour() else {}))


def print_json(data: object) -> None:
    """Print data as JSON."""
    import msgspec

    lines = msgspec.json.format(msgspec.json.encode(data), indent=4).decode().split("\n")
    sys.stdout.writelines(f"{escape_json(line)}\n" for line in lines)


def print_yaml(*documents: object) -> None:
    """Print data as YAML, several as documents of one stream."""
    import yaml

    from kframework.objects.yaml_loader import YamlDumper

    form: dict[str, Any] = {"Dumper": YamlDumper, "sort_keys": False, "explicit_start": len(documents) > 1}
    text: str = yaml.dump_all(documents, allow_unicode=True, **form)
    if any(escape_text(line) != line for line in text.split("\n")):
        text = yaml.dump_all(documents, allow_unicode=False, **form)
    sys.stdout.write(text)


def print_names(kind: str, names: Iterable[str]) -> None:
    """Print names as `kind/name`, one a line."""
    print_lines(*(f"{kind}/{name}" for name in names))


def print_answer(form: str, answer: object) -> None:
    """Print an answer as `json` or `yaml`."""
    import msgspec

    (print_json if form == DataForm.JSON else print_yaml)(msgspec.to_builtins(answer))


@contextmanager
def progress_bar(title: str, *, shown: bool = True) -> Iterator[Callable[[int, int | None], None]]:
    """Show how much of the total is done, if `shown` and stderr is a terminal."""
    if not shown or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=console.is_dumb_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _in_colour() -> bool:
    """Return whether stdout shows colours: a terminal unless NO_COLOR or TERM=dumb, anything with FORCE_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
