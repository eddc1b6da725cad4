"""What is tracked speaks of the project, not of the machine it was written on."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.architecture.sources import ROOT, listed

#: Folders that only somebody's own machine has.
PLACES = re.compile(r"(?<![\w./-])/(?:root|work|Users/\w+|home/\w+)(?=/|$|[\s'\"`:,)])", re.MULTILINE)


@pytest.mark.tool("git")
def test_no_file_contains_a_path_of_one_machine() -> None:
    problems = [problem for name in written_files() for problem in places(name, (ROOT / name).read_bytes())]
    assert not problems, listed(problems)


def written_files() -> list[str]:
    """List the files that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in names if (ROOT / name).is_file()]


def places(name: str, content: bytes) -> Iterator[str]:
    """Yield a sentence for each path in the text that belongs to one machine."""
    text = content.decode(errors="replace")
    for match in PLACES.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield f"{name}, line {line}: names {match[0]}"


@pytest.mark.parametrize("home", ["root", "work", "Users/ada", "home/ada"])
def test_path_of_one_machine_is_reported(home: str) -> None:
    text = f"first\nsee '/{home}/main/notes.md'"
    assert list(places("notes.md", text.encode())) == [f"notes.md, line 2: names /{home}"]


@pytest.mark.parametrize("text", ["cluster/root/x", "/homes/x", "https://example.org/work/x", "/rooted/x", "./work/x"])
def test_other_paths_pass(text: str) -> None:
    assert list(places("notes.md", text.encode())) == []
