"""A recording's file is bounded, and trouble with the disk is the recording's alone."""

from __future__ import annotations

import errno
import gzip
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest

from kframework import recording_file
from kframework.recording_file import PARTS, Kept, RecordingFile


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the writer come at once."""
    monkeypatch.setattr(recording_file, "_PAUSE", 0.001)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "recording"


def read(file: Path) -> list[bytes]:
    with gzip.open(file) as lines:
        return list(lines)


def until_full(recording: RecordingFile, lines: Iterator[bytes]) -> list[bytes]:
    """Write lines until it is time for a new part; return them."""
    written = []
    while not recording.full:
        if recording.behind < 100_000:
            written.append(next(lines))
            recording.write(written[-1])
    return written


def noise() -> Iterator[bytes]:
    """Make lines that cannot be compressed."""
    while True:
        yield os.urandom(500).hex().encode() + b"\n"


def test_lines_are_written_in_their_order(file: Path) -> None:
    recording = RecordingFile(file)
    recording.write(b"1\n")
    recording.keep(b"2\n", "chapter", "a")
    recording.drop(b"3\n", "chapter", "a")
    recording.write(b"4\n")
    recording.close()
    assert read(file) == [b"1\n", b"2\n", b"3\n", b"4\n"]


def test_others_may_not_read_it(file: Path) -> None:
    RecordingFile(file).close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_stood_there_is_kept(file: Path) -> None:
    for text in (b"first\n", b"second\n", b"third\n"):
        recording = RecordingFile(file)
        recording.write(text)
        recording.close()
    assert [read(part) for part in parts(file)] == [[b"third\n"], [b"second\n"], [b"first\n"]]


def parts(file: Path) -> list[Path]:
    found = [file, *(file.with_name(f"{file.name}.{number}") for number in range(1, PARTS + 1))]
    return [part for part in found if part.exists()]


def test_all_parts_together_are_bounded(file: Path) -> None:
    limit = 1 << 20
    recording = RecordingFile(file, limit)
    written = [until_full(recording, noise())]
    for number in range(2 * PARTS):
        recording.begin([b"part %d\n" % number])
        written.append([b"part %d\n" % number, *until_full(recording, noise())])
    recording.close()
    found = parts(file)
    assert len(found) == PARTS
    assert sum(part.stat().st_size for part in found) < 2 * limit  # a writer may lag behind what is written meanwhile
    assert [read(part)[0] for part in found] == [lines[0] for lines in written[: -PARTS - 1 : -1]]
    assert b"".join(b"".join(read(part)) for part in reversed(found)) == b"".join(map(b"".join, written[-PARTS:]))


def test_a_part_opens_with_what_was_kept(file: Path) -> None:
    recording = RecordingFile(file)
    for chapter, key, line in (("x", "a", b"old\n"), ("x", "b", b"b\n"), ("x", "a", b"a\n"), ("y", "a", b"y\n")):
        recording.keep(line, chapter, key)
    recording.keep(b"c\n", "x", "c")
    recording.drop(b"", "x", "c")
    recording.begin([b"header\n", Kept("y"), Kept("x"), Kept("x", ("b", "gone")), Kept("none"), b"end\n"])
    recording.write(b"next\n")
    recording.close()
    assert read(file) == [b"header\n", b"y\n", b"a\n", b"b\n", b"b\n", b"end\n", b"next\n"]


def test_it_is_not_full_for_its_opening_alone(file: Path) -> None:
    recording = RecordingFile(file, PARTS * 1000)
    line = b"".join(next(noise()) for _ in range(100))
    recording.keep(line, "x", "a")
    recording.begin([Kept("x")])
    written = until_full(recording, noise())
    recording.close()
    assert len(b"".join(written)) > len(line)


def test_what_was_written_is_there_when_the_process_dies(file: Path) -> None:
    recording = RecordingFile(file)
    recording.write(b"1\n")
    while not (found := as_far_as_it_goes(file)):
        recording.write(b"")
    assert found == b"1\n"
    recording.close()


def as_far_as_it_goes(file: Path) -> bytes:
    """Read what can be read of a file that is not finished."""
    found = b""
    with gzip.open(file) as lines, suppress(EOFError):
        while byte := lines.read(1):
            found += byte
    return found


# -- trouble -----------------------------------------------------------------------------------------------------------


def test_a_file_that_cannot_be_opened_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RecordingFile(tmp_path / "nowhere" / "recording")


def test_a_full_disk_ends_the_recording_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    recording = RecordingFile(Path("/dev/full"))
    lines = noise()
    while not recording.failed:
        recording.write(next(lines))
    for _ in range(100):
        recording.write(next(lines))
    recording.close()
    assert warnings(caplog) == [
        f"the recording to /dev/full ends here: {os.strerror(errno.ENOSPC)}; the scheduler works on without it"
    ]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_disk_that_is_too_slow_is_given_up(
    file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Event()
    monkeypatch.setattr(RecordingFile, "_write_waiting", lambda self: disk.wait())
    monkeypatch.setattr(recording_file, "BACKLOG", 10_000)
    recording = RecordingFile(file)
    for _ in range(11):
        recording.write(next(noise()))
    assert recording.failed
    disk.set()
    recording.close()
    (warning,) = warnings(caplog)
    assert "the disk is too slow" in warning


def test_a_disk_that_does_not_answer_is_not_waited_for(
    file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Event()
    monkeypatch.setattr(RecordingFile, "_write_waiting", lambda self: disk.wait())
    monkeypatch.setattr(recording_file, "_ENDING", 0.01)
    recording = RecordingFile(file)
    recording.write(b"1\n")
    recording.close()
    disk.set()
    (warning,) = warnings(caplog)
    assert "the disk does not answer" in warning


def test_no_part_follows_where_the_file_is_no_file() -> None:
    recording = RecordingFile(Path(os.devnull), 1)
    for _ in range(3):
        recording.write(next(noise()))
    recording.close()
    assert not recording.full and not recording.failed
    assert Path(os.devnull).is_char_device()
