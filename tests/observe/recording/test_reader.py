"""A file that is no recording, or an unreadable one, is reported with its location."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from kframework.errors import InputError
from kframework.observe.recording.reader import RecordingReader
from kframework.observe.recording.writer import FORMAT, VERSION
from tests.faults.pod_run import Report, RunSettings, run
from tests.faults.recording_lines import Line, changed, lines_of, nth


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return run(1, RunSettings(pods=10, pause=4.0), tmp_path_factory.mktemp("recorded"))


def tell_all(file: Path) -> int:
    """Read a recording, and what its lines tell of objects; return how many there are."""
    recorded, count = RecordingReader(file), 0
    for line in recorded:
        count += 1
        if line.what not in ("Step", "CatchUp", "Decision", "Binding", "PermitAllowed", "PermitDecided"):
            recorded.message(line)
    return count


def test_reader_yields_every_line(recorded: Report) -> None:
    assert tell_all(recorded.recording) == len(lines_of(recorded.recording)) - 1


def test_header_names_engine_and_writer(recorded: Report) -> None:
    header = RecordingReader(recorded.recording).header
    assert header.part == 1 and header.at == 1767225600.0
    assert header.made_by.startswith("kframework ") and "RandomPermit" in header.configuration


def older(lines: list[Line]) -> None:
    lines[0]["version"] = VERSION - 1
    del lines[0]["madeBy"], lines[0]["at"]


def test_damaged_file_raises_with_its_line(recorded: Report, tmp_path: Path) -> None:
    data = bytearray(recorded.recording.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 100] = bytes(100)
    file = tmp_path / "damaged"
    file.write_bytes(data)
    with pytest.raises(InputError) as raised:
        tell_all(file)
    assert raised.value.line is not None and raised.value.line > 1


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9])
def test_reader_stops_where_the_writer_was_killed(recorded: Report, tmp_path: Path, kept: float) -> None:
    data = recorded.recording.read_bytes()
    file = tmp_path / "short"
    file.write_bytes(data[: int(len(data) * kept)])
    short = RecordingReader(file)
    assert 0 < sum(1 for _ in short) < len(lines_of(recorded.recording)) - 1
    assert short.cut_off


def test_unfinished_line_is_omitted(recorded: Report, tmp_path: Path) -> None:
    file = tmp_path / "unfinished"
    with gzip.open(recorded.recording) as lines, gzip.open(file, "wb") as written:
        written.write(lines.read()[:-2])
    short = RecordingReader(file)
    assert sum(1 for _ in short) == len(lines_of(recorded.recording)) - 2
    assert short.cut_off


def newer(lines: list[Line]) -> None:
    lines[0]["version"] = VERSION + 1


def foreign(lines: list[Line]) -> None:
    lines[0]["format"] = "something else"


def unheard_of(lines: list[Line]) -> None:
    lines[3]["what"] = "Miracle"


def timeless(lines: list[Line]) -> None:
    del lines[3]["at"]


def no_kind(lines: list[Line]) -> None:
    lines[nth(lines, "Upserted", 0)]["with"] |= {"apiVersion": "example.com/v1", "kind": "Widget"}


def undecodable(lines: list[Line]) -> None:
    lines[nth(lines, "Upserted", 0)]["with"]["metadata"] = 7


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (
            older,
            rf"1: has version {VERSION - 1} of the format, and only {VERSION} is known: replay it with the kframework",
        ),
        (newer, rf"1: has version {VERSION + 1} of the format, and {VERSION} is the newest known: update kframework"),
        (foreign, rf"1: is not a recording: its format is 'something else', not '{FORMAT}'"),
        (unheard_of, "4: unknown line 'Miracle'"),
        (timeless, "4: is damaged from here on: Object missing required field `at`"),
        (no_kind, "Widget of example.com/v1 is an unknown kind: install the plugin that declares it"),
        (undecodable, r"\d+: \w+: metadata: expected"),
    ],
)
def test_unreadable_line_raises_with_its_number(
    recorded: Report, tmp_path: Path, change: Callable[[list[Line]], None], error: str
) -> None:
    file = changed(recorded.recording, tmp_path / "changed", change)
    with pytest.raises(InputError, match=error) as raised:
        tell_all(file)
    assert raised.value.file == str(file)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"apiVersion: v1", "is not a recording: it is not compressed"),
        (gzip.compress(b"{}\n", mtime=0), "is not a recording: its format is ''"),
        (b"", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (gzip.compress(b"not JSON\n", mtime=0), "1: is not a recording: JSON is malformed"),
    ],
)
def test_file_that_is_not_a_recording_raises(tmp_path: Path, data: bytes, error: str) -> None:
    file = tmp_path / "other"
    file.write_bytes(data)
    with pytest.raises(InputError, match=error):
        tell_all(file)


def test_gzip_bomb_is_an_error_with_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "bomb.gz"
    file.write_bytes(gzip.compress(bytes(33 << 20), compresslevel=1))
    with pytest.raises(InputError) as error:
        RecordingReader(file)
    assert str(error.value) == f"{file}:1: is longer than 32 MiB: check that this is the right file"
