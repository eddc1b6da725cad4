"""A configuration file that changes while the scheduler runs, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from kframework_batch.action import Action
from kframework_batch.program import BatchRegistry, ConfigurationFile, Program
from kframework_batch.session import Session

from kframework.clock import run_virtual
from kframework.errors import ConfigError


class One(Action):
    name: ClassVar[str] = "one"

    def run(self, session: Session) -> Iterator[None]:
        yield


class Two(One):
    name: ClassVar[str] = "two"


REGISTRY = BatchRegistry.with_classes(One, Two)


class Followed:
    """A watched file, and the results: the actions of each program, and the lines logged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = ConfigurationFile(path, REGISTRY)
        self.log: list[str] = []

    def use(self, program: Program) -> None:
        self.log.append(" ".join(action.name for action in program.actions))

    async def after(self, text: str | None) -> list[str]:
        """Change the file (None removes it), and return what happened within three seconds."""
        self.log.clear()
        if text is None:
            self.path.unlink()
        else:
            self.path.write_text(text)
        await asyncio.sleep(3)
        return list(self.log)


def followed(path: Path, story: Callable[[Followed], Awaitable[None]]) -> None:
    """Let a story happen while a file is followed that said `actions: one` at the start."""
    path.write_text("actions: one")
    subject = Followed(path)
    subject.use(subject.file.load())

    async def main() -> None:
        following = asyncio.create_task(subject.file.watch(subject.use, subject.log.append))
        await story(subject)
        following.cancel()

    run_virtual(main)


def test_changed_file_is_used(tmp_path: Path) -> None:
    async def story(subject: Followed) -> None:
        assert subject.log == ["one"]
        assert await subject.after("actions: two") == ["two"]
        assert await subject.after("actions: one, two") == ["one two"]

    followed(tmp_path / "f.conf", story)


def test_unchanged_text_is_not_used_again(tmp_path: Path) -> None:
    async def story(subject: Followed) -> None:
        assert await subject.after("actions: one") == []

    followed(tmp_path / "f.conf", story)


def test_invalid_file_is_reported_once_and_the_next_valid_one_is_used(tmp_path: Path) -> None:
    async def story(subject: Followed) -> None:
        (line,) = await subject.after("actions: onne")
        assert line.startswith(f"{subject.path}:1: actions: unknown action 'onne'")
        assert line.endswith("(did you mean 'one'?); keeping the last good configuration")
        assert await subject.after("actions: onne") == []
        assert await subject.after("actions: two") == ["two"]

    followed(tmp_path / "f.conf", story)


def test_several_errors_are_reported_in_one_line(tmp_path: Path) -> None:
    async def story(subject: Followed) -> None:
        (line,) = await subject.after("actions: 3\ntiers: 4")
        assert "\n" not in line
        assert ":1: actions: expected a string, got 3; " in line
        assert ":2: tiers: expected a list, got 4; " in line

    followed(tmp_path / "f.conf", story)


def test_missing_file_is_reported_once_each_time(tmp_path: Path) -> None:
    async def story(subject: Followed) -> None:
        for _ in range(2):
            (line,) = await subject.after(None)
            assert "cannot be read: No such file or directory; keeping the last good configuration" in line
            assert await subject.after("actions: one") == []
        assert await subject.after("actions: two") == ["two"]

    followed(tmp_path / "f.conf", story)


def test_mounted_config_map_is_followed_through_symbolic_links(tmp_path: Path) -> None:
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "f.conf").write_text(f"actions: {version}")
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "..new").symlink_to("two")
    (tmp_path / "f.conf").symlink_to("..data/f.conf")

    async def story(subject: Followed) -> None:
        (tmp_path / "..new").rename(tmp_path / "..data")
        await asyncio.sleep(3)
        assert subject.log == ["one", "two"]

    followed(tmp_path / "f.conf", story)


def test_invalid_file_at_start_is_raised(tmp_path: Path) -> None:
    (tmp_path / "f.conf").write_text("actions: onne")
    with pytest.raises(ConfigError, match="unknown action 'onne'"):
        ConfigurationFile(tmp_path / "f.conf", REGISTRY).load()
    with pytest.raises(ConfigError, match="cannot be read"):
        ConfigurationFile(tmp_path / "other.conf", REGISTRY).load()


def test_file_that_was_not_loaded_is_used_at_the_first_poll(tmp_path: Path) -> None:
    (tmp_path / "f.conf").write_text("actions: one")

    async def main() -> list[str]:
        subject = Followed(tmp_path / "f.conf")
        task = asyncio.create_task(subject.file.watch(subject.use, subject.log.append))
        await asyncio.sleep(3)
        task.cancel()
        return subject.log

    assert run_virtual(main) == ["one"]


def test_file_that_does_not_respond_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(source: Path) -> tuple[str, str]:
        raise TimeoutError

    async def story(subject: Followed) -> None:
        monkeypatch.setattr("kframework_batch.program.read_source", hang)
        (line,) = await subject.after("actions: two")
        assert "f.conf: cannot be read: no answer within 10 s; keeping the last good configuration" in line

    followed(tmp_path / "f.conf", story)
