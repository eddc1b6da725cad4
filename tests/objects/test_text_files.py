"""Text is read whole; a device, or what never ends, is an error before it fills the memory."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from kframework.errors import ConfigError, InputError
from kframework.objects.text_files import read_text, replace_file

MIB = 1 << 20


class EndlessText(io.TextIOBase):
    """Text that repeats without end; reading more than the bound fails."""

    def __init__(self) -> None:
        self._left = 4 * MIB

    def read(self, size: int | None = -1, /) -> str:
        assert size is not None
        assert 0 < size <= self._left
        self._left -= size
        return ("a: b\n" * size)[:size]


def test_text_is_read_whole_from_a_file_and_from_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "é: 1\n" * (MIB // 4)
    file = tmp_path / "long.yaml"
    file.write_text(text, encoding="utf-8-sig")
    assert read_text(file, 2 * MIB, InputError) == (str(file), text)
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert read_text("-", 2 * MIB, InputError) == ("<stdin>", text)


def test_endless_stdin_is_an_error_after_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", EndlessText())
    with pytest.raises(ConfigError) as error:
        read_text("-", 2 * MIB, ConfigError)
    assert str(error.value) == "<stdin>: is longer than 2 MiB: check that this is the right file"


def other_files(folder: Path) -> Iterator[tuple[str | Path, str]]:
    (folder / "latin.yaml").write_bytes(b"a: \xe9")
    yield folder / "latin.yaml", "is not UTF-8 text"
    yield folder / "none.yaml", "cannot be read: No such file or directory"
    yield folder, "cannot be read: Is a directory"
    yield "/dev/zero", "is not text: null bytes"
    yield "/dev/urandom", "is not UTF-8 text"


def test_other_files_are_one_line(tmp_path: Path) -> None:
    for file, message in other_files(tmp_path):
        with pytest.raises(InputError) as error:
            read_text(file, MIB, InputError)
        assert str(error.value) == f"{file}: {message}"


def test_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    def parts() -> Iterator[bytes]:
        yield b"new"
        raise OSError("the disk fails")

    file = tmp_path / "file"
    replace_file(file, [b"old ", b"text"])
    with pytest.raises(OSError, match="the disk fails"):
        replace_file(file, parts())
    assert (file.read_bytes(), [*tmp_path.iterdir()]) == (b"old text", [file])
