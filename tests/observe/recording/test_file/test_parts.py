"""A recording's file is bounded, and trouble with the disk is the recording's alone."""

from __future__ import annotations

import errno
import gzip
import logging
import os
import stat
from pathlib import Path
from threading import Event

import msgspec
import pytest

from kframework import unschedulable
from kframework.observe.recording import file as recording_file
from kframework.observe.recording.file import MAX_BYTES, MAX_PARTS, PartStart, RecordingFile
from kframework.observe.recording.pod_engine import PermitDecided
from tests.faults.recording_lines import read_unfinished


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the writer come at once."""
    monkeypatch.setattr(recording_file, "_WAKE_INTERVAL", 0.001)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "recording"


def read(file: Path) -> list[bytes]:
    with gzip.open(file) as lines:
        return list(lines)


def until_full(recording: RecordingFile) -> list[str]:
    """Write until it is time for a new part; return what was written."""
    written = []
    while not recording.is_full:
        if len(recording._waiting) < 100:
            written.append(noise())
            recording.put((0.0, written[-1]))
    return written


def noise() -> str:
    """Make up what cannot be compressed."""
    return os.urandom(500).hex()


def names(file: Path) -> list[str]:
    """Read what happened, behind the header."""
    return [msgspec.json.decode(line)["what"] for line in read(file)[1:]]


def opened(file: Path, part: int = 1, limit: int = MAX_BYTES) -> RecordingFile:
    """Open a recording."""
    recording = RecordingFile(file, limit)
    recording.begin(PartStart(Part(part)))
    return recording


class Part(msgspec.Struct):
    """A header."""

    part: int


def test_entries_are_written_in_order(file: Path) -> None:
    recording = opened(file)
    for number in range(200):
        recording.put((float(number), f"Event{number}"))
    recording.close()
    header, *lines = read(file)
    assert header == b'{"part":1}\n'
    assert lines == [b'{"at":%d.0,"what":"Event%d"}\n' % (number, number) for number in range(200)]


def test_recording_is_readable_by_its_owner_only(file: Path) -> None:
    RecordingFile(file).close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_existing_file_is_rotated(file: Path) -> None:
    for number in (1, 2, 3):
        opened(file, number).close()
    assert [read(part) for part in parts(file)] == [[b'{"part":%d}\n' % number] for number in (3, 2, 1)]


def test_existing_file_is_kept_if_the_recording_never_begins(file: Path) -> None:
    opened(file, 1).close()
    for _ in range(2 * MAX_PARTS):
        RecordingFile(file).close()
    opened(file, 2).close()
    assert [read(part) for part in parts(file)] == [[b'{"part":%d}\n' % number] for number in (2, 1)]


def parts(file: Path) -> list[Path]:
    found = [file, *(file.with_name(f"{file.name}.{number}") for number in range(1, MAX_PARTS + 1))]
    return [part for part in found if part.exists()]


def test_total_size_of_all_parts_is_bounded(file: Path) -> None:
    limit = 1 << 20
    recording = opened(file, 0, limit)
    written = [until_full(recording)]
    for number in range(1, 2 * MAX_PARTS):
        recording.begin(PartStart(Part(number)))
        written.append(until_full(recording))
    recording.close()
    found = parts(file)
    assert len(found) == MAX_PARTS
    assert sum(part.stat().st_size for part in found) < 2 * limit  # a writer may lag behind what is written meanwhile
    assert [names(part) for part in reversed(found)] == written[-MAX_PARTS:]
    assert [read(part)[0] for part in found] == [
        b'{"part":%d}\n' % (2 * MAX_PARTS - 1 - age) for age in range(MAX_PARTS)
    ]


def test_part_is_not_full_with_its_start_alone(file: Path) -> None:
    recording = RecordingFile(file, MAX_PARTS * 1000)
    recording.begin(PartStart(Part(1), before=[(0.0, noise()) for _ in range(100)]))
    assert len(until_full(recording)) > 90
    recording.close()


def test_written_lines_survive_a_killed_process(file: Path) -> None:
    recording = opened(file)
    while not read_unfinished(file):
        assert not recording.failed
    recording.close()


def test_file_that_cannot_be_opened_raises_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RecordingFile(tmp_path / "nowhere" / "recording")


def test_full_disk_stops_the_recording_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    recording = opened(Path("/dev/full"))
    while not recording.failed:
        recording.put((0.0, noise()))
    for _ in range(100):
        recording.put((0.0, noise()))
    recording.close()
    assert warnings(caplog) == [f"recording to /dev/full stopped: {os.strerror(errno.ENOSPC)}; scheduling continues"]


def test_entry_that_cannot_be_encoded_stops_the_recording_with_one_warning(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recording = opened(file)
    recording.put((0.0, "Step"))
    recording.put((0.0, PermitDecided("u", unschedulable("no Unicode: \udce9"))))
    recording.close()
    assert recording.failed
    assert len(recording._waiting) == 0
    (warning,) = warnings(caplog)
    assert warning.startswith(f"recording to {file} stopped: 'utf-8' codec can't encode")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_slow_disk_stops_the_recording(
    file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Event()
    monkeypatch.setattr(RecordingFile, "_write_waiting", lambda self: disk.wait())
    monkeypatch.setattr(recording_file, "MAX_BACKLOG", 10)
    monkeypatch.setattr(recording_file, "_WAKE_ENTRIES", 5)
    recording = opened(file)
    for _ in range(11):
        recording.put((0.0, "Step"))
    assert recording.failed
    disk.set()
    recording.close()
    (warning,) = warnings(caplog)
    assert "the disk is too slow" in warning


def test_close_does_not_wait_for_a_disk_that_hangs(
    file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Event()
    monkeypatch.setattr(RecordingFile, "_write_waiting", lambda self: disk.wait())
    monkeypatch.setattr(recording_file, "_CLOSE_TIMEOUT", 0.01)
    recording = opened(file)
    recording.close()
    disk.set()
    (warning,) = warnings(caplog)
    assert "the disk does not respond" in warning


def test_special_file_is_not_rotated() -> None:
    recording = opened(Path(os.devnull), limit=1)
    for _ in range(3):
        recording.put((0.0, noise()))
    recording.close()
    assert not recording.is_full and not recording.failed
    assert Path(os.devnull).is_char_device()
