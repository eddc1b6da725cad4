"""How results are printed: tables as kubectl's on stdout, JSON, YAML, names, lines; and lines beside them on stderr.

Whatever a command shows goes through here, so that nothing that stands in a cluster steers the terminal.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

from kframework.errors import visible, visible_json
from kframework.observe.text_table import INDENT, table

#: The colours of words in the column STATUS, as ANSI codes.
_COLOURS = {"Running": "32", "Succeeded": "32", "Failed": "31", "Pending": "33"}


def say(kind: str, text: str) -> None:
    """Write one line beside the data, to stderr: an `error`, a `warning`, a `notice`; a terminal gets it wrapped."""
    # Errors may have lines; whatever else there is between words is shown.
    joined = re.sub(r"[ \t]*\n[ \t]*|  +", " ", text.strip(" \n"))
    line = f"{kind}: {visible(joined)}"
    if sys.stderr.isatty():
        line = textwrap.fill(line, _width(), subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False)
    # Looked up at every call: a progress bar stands in for stderr while it is shown.
    sys.stderr.write(f"{line}\n")


def print_lines(*lines: str) -> None:
    """Print lines to stdout, at once, as some come long before others."""
    sys.stdout.writelines(f"{visible(line)}\n" for line in lines)
    sys.stdout.flush()


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table to stdout, in colour and fitted to its width if that is a terminal."""
    width = _width() if sys.stdout.isatty() else None
    sys.stdout.writelines(f"{line}\n" for line in table(headers, rows, width, _COLOURS if _in_colour() else {}))


def print_json(data: object) -> None:
    """Print data as JSON."""
    import msgspec

    lines = msgspec.json.format(msgspec.json.encode(data), indent=4).decode().split("\n")
    sys.stdout.writelines(f"{visible_json(line)}\n" for line in lines)


def print_yaml(*documents: object) -> None:
    """Print data as YAML, several as documents of one stream."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    apart = len(documents) > 1

    def dumped(allow_unicode: bool) -> str:
        text: str = yaml.dump_all(
            documents, Dumper=dumper, sort_keys=False, allow_unicode=allow_unicode, explicit_start=apart
        )
        return text

    text = dumped(allow_unicode=True)
    as_it_is = all(visible(line) == line for line in text.split("\n"))
    sys.stdout.write(text if as_it_is else dumped(allow_unicode=False))


def print_names(kind: str, names: Iterable[str]) -> None:
    """Print names as `kind/name`, one a line."""
    print_lines(*(f"{kind}/{name}" for name in names))


def _width() -> int:
    """Return the columns of the terminal."""
    return shutil.get_terminal_size().columns


def _in_colour() -> bool:
    """Return whether stdout shows colours: a terminal unless NO_COLOR or TERM=dumb, anything with FORCE_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
