"""mypy and pyright, as the authors of plugins run them: from outside, without this project's settings."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

_BIN = Path(sys.executable).parent
_ROOT = Path(__file__).parents[2]


class CheckerError(NamedTuple):
    """What a checker has against a line of a file."""

    file: str
    line: int
    text: str


def mypy(folder: Path) -> list[CheckerError]:
    """Return what `mypy --strict` has against the files of a folder."""
    # To read kframework itself takes 40 s of a core.
    cache = _ROOT / ".mypy_cache" / "authors"
    printed = _run(folder, "mypy", "--strict", "--config-file=", f"--cache-dir={cache}", "--no-pretty", ".")
    errors = re.findall(r"^(.+?):(\d+): error: (.+)$", printed, re.MULTILINE)
    return [CheckerError(file, int(line), text) for file, line, text in errors]


def pyright(folder: Path) -> list[CheckerError]:
    """Return what pyright, with its own settings, has against the files of a folder."""
    printed = _run(folder, "pyright", "--pythonpath", sys.executable, "--outputjson", ".")
    return [
        CheckerError(
            str(Path(each["file"]).relative_to(folder)), each["range"]["start"]["line"] + 1, str(each["message"])
        )
        for each in json.loads(printed)["generalDiagnostics"]
        if each["severity"] == "error"
    ]


def _run(folder: Path, checker: str, *arguments: str) -> str:
    ended = subprocess.run([_BIN / checker, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    return ended.stdout
