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
    assert printed(file, "1.37") == file.read_text()


#: What 1.36 does not serve, as the transcripts name it.
RULES = "devicetaintrules"
SERVED = [file for file in FILES if file.stem != RULES]


@pytest.mark.parametrize("file", sampled(SERVED, 12), ids=lambda file: file.stem)
def test_kubectl_output_of_1_36_differs_in_the_version_and_the_kinds_of_1_37_alone(file: Path) -> None:
    lines = (line for line in file.read_text().splitlines(keepends=True) if RULES not in line)
    assert printed(file, "1.36") == "".join(lines).replace("v1.37.0", "v1.36.2").replace("(1.37)", "(1.36)")


def printed(file: Path, minor: str) -> str:
    command = [sys.executable, "-m", "tests.end_to_end.transcripts", str(file), minor]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE, cwd=PROJECT)
    assert done.stderr == ""
    return done.stdout


def test_transcripts_have_hundreds_of_commands() -> None:
    commands = [entry.command for file in FILES for entry in read(file.read_text()) if entry.command]
    assert len(commands) >= 200
