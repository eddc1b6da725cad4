"""kubectl prints what the transcripts say: more than two hundred commands, each with what comes of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.processes import DEADLINE
from tests.end_to_end.transcripts import FOLDER, read
from tests.support.scale import sampled

PROJECT = Path(__file__).parents[2]
FILES = sorted(FOLDER.glob("*.txt"))

pytestmark = [pytest.mark.slow, pytest.mark.tool("kubectl")]


@pytest.mark.parametrize("file", sampled(FILES, 4), ids=lambda file: file.stem)
def test_kubectl_output_matches_the_transcripts(file: Path) -> None:
    command = [sys.executable, "-m", "tests.end_to_end.transcripts", str(file)]
    printed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE, cwd=PROJECT)
    assert printed.stderr == ""
    assert printed.stdout == file.read_text()


def test_transcripts_have_hundreds_of_commands() -> None:
    commands = [entry.command for file in FILES for entry in read(file.read_text()) if entry.command]
    assert len(commands) >= 200
