"""A recording replays to the same decisions in another process, and a replay notices every one that differs."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kframework.errors import InputError
from kframework.recording import FORMAT, VERSION
from kframework.registry import Registry
from kframework.replaying import replay
from tests.architecture.sources import ROOT
from tests.faults.run import PLUGINS, Report, Shape, run

#: How many random runs are replayed.
RUNS = max(int(os.environ.get("KFRAMEWORK_EXAMPLES", "25")) // 10, 2)

SHAPE = Shape(pods=40, pause=4.0)

REPLAY = """\
from pathlib import Path
from sys import argv
from kframework.replaying import replay
from tests.faults.run import PLUGINS
result = replay(Path(argv[1]), PLUGINS)
print(result.difference, result.decisions)
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return run(1, SHAPE, tmp_path_factory.mktemp("recorded"))


@pytest.mark.parametrize("seed", range(RUNS))
def test_another_process_decides_the_same(seed: int, tmp_path: Path) -> None:
    report = run(seed, SHAPE, tmp_path)
    assert report.attempts > SHAPE.pods
    environment = {**os.environ, "PYTHONHASHSEED": str(seed + 1)}
    command = [sys.executable, "-c", REPLAY, str(report.recording)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == f"None {report.attempts}\n"


def test_all_is_told(recorded: Report) -> None:
    told = [line["what"] for line in lines_of(recorded.recording)[1:]]
    result = replay(recorded.recording, PLUGINS)
    assert result.steps == told.count("Step")
    assert result.decisions == told.count("Decision") == recorded.attempts
    others = {"Step", "CatchUp", "Decision", "Binding", "Allowed", "Judged"}
    assert result.messages == sum(what not in others for what in told)
    assert {"Activated", "Nominated", "Touched", "BindingStarted", "BindingEnded", "Gone"} < set(told)
    assert {"Allowed", "Judged"} < set(told)


# -- what differs ------------------------------------------------------------------------------------------------------

Line = dict[str, Any]


def lines_of(file: Path) -> list[Line]:
    with gzip.open(file) as lines:
        return [msgspec.json.decode(line) for line in lines]


def changed(recorded: Report, file: Path, change: Callable[[list[Line]], object]) -> Path:
    """Write a recording in which something was changed."""
    lines = lines_of(recorded.recording)
    change(lines)
    with gzip.open(file, "wb") as written:
        written.writelines(msgspec.json.encode(line) + b"\n" for line in lines)
    return file


def nth(lines: list[Line], what: str, number: int) -> int:
    return [place for place, line in enumerate(lines) if line.get("what") == what][number]


def other_node(lines: list[Line]) -> None:
    lines[nth(lines, "Decision", 7)]["with"]["message"] = "elsewhere"


def one_more(lines: list[Line]) -> None:
    place = nth(lines, "Decision", 7)
    lines.insert(place, lines[place])


def one_less(lines: list[Line]) -> None:
    del lines[nth(lines, "Decision", 7)]


def last_one_less(lines: list[Line]) -> None:
    place = nth(lines, "Decision", -1)
    del lines[place:]


@pytest.mark.parametrize(
    ("change", "compared", "told"),
    [
        (other_node, 8, "came to message "),
        (one_more, 8, "is in the recording only"),
        (one_less, 7, "is in the replay only"),
        (last_one_less, None, "is in the replay only"),
    ],
)
def test_a_decision_that_differs_is_told(
    recorded: Report, tmp_path: Path, change: Callable[[list[Line]], None], compared: int | None, told: str
) -> None:
    result = replay(changed(recorded, tmp_path / "changed", change), PLUGINS)
    assert result.difference is not None
    assert told in str(result.difference)
    assert result.decisions == (recorded.attempts - 1 if compared is None else compared)


def test_what_was_measured_may_differ(recorded: Report, tmp_path: Path) -> None:
    def slower(lines: list[Line]) -> None:
        for line in lines:
            if line.get("what") == "Decision":
                line["with"] |= {"started": 0, "timings": []}

    assert replay(changed(recorded, tmp_path / "changed", slower), PLUGINS).difference is None


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.8])
def test_a_recording_whose_writer_died_is_read_as_far_as_it_goes(recorded: Report, tmp_path: Path, kept: float) -> None:
    data = recorded.recording.read_bytes()
    file = tmp_path / "short"
    file.write_bytes(data[: int(len(data) * kept)])
    result = replay(file, PLUGINS)
    assert result.difference is None
    assert 0 < result.decisions < recorded.attempts


# -- what cannot be read -----------------------------------------------------------------------------------------------


def newer(lines: list[Line]) -> None:
    lines[0]["version"] = VERSION + 1


def foreign(lines: list[Line]) -> None:
    lines[0]["format"] = "something else"


def unheard_of(lines: list[Line]) -> None:
    lines[3]["what"] = "Miracle"


def no_kind(lines: list[Line]) -> None:
    lines[nth(lines, "Changed", 0)]["with"] |= {"apiVersion": "example.com/v1", "kind": "Widget"}


def misfit(lines: list[Line]) -> None:
    lines[nth(lines, "Changed", 0)]["with"]["metadata"] = 7


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (newer, rf"1: has version {VERSION + 1} of the format, and {VERSION} is the newest known: update kframework"),
        (foreign, rf"1: is no recording: its format is 'something else', not '{FORMAT}'"),
        (unheard_of, "4: 'Miracle' is nothing that is known to happen"),
        (no_kind, "Widget of example.com/v1 is no known kind: install the plugin that declares it"),
        (misfit, r"\d+: \w+: metadata: expected"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(
    recorded: Report, tmp_path: Path, change: Callable[[list[Line]], None], error: str
) -> None:
    file = changed(recorded, tmp_path / "changed", change)
    with pytest.raises(InputError, match=error) as raised:
        replay(file, PLUGINS)
    assert raised.value.file == str(file)


@pytest.mark.parametrize(
    ("data", "error"), [(b"apiVersion: v1", "is no recording"), (gzip.compress(b"{}\n"), "format")]
)
def test_another_file_is_refused(tmp_path: Path, data: bytes, error: str) -> None:
    file = tmp_path / "other"
    file.write_bytes(data)
    with pytest.raises(InputError, match=error):
        replay(file, Registry.of())
