"""Files are followed whatever replaces them, and code is loaded again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from kframework.clock import run_virtual
from kframework.plugins.node_name import NodeName
from kframework.process.followed_files import INTERVAL, FollowedCode, FollowedFile


def write(path: Path, text: str) -> None:
    path.write_text(text)


# -- the file ----------------------------------------------------------------------------------------------------------


def changes(path: Path, *writes: Callable[[], object]) -> list[float]:
    """Return when changes of a file are noticed if these writes come one after the other, in one interval each."""
    noticed: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        followed = FollowedFile(path)

        async def follow() -> None:
            while True:
                await followed.change()
                noticed.append(loop.time())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await asyncio.sleep(INTERVAL / 2)
            for write in writes:
                write()
                await asyncio.sleep(INTERVAL)
            await asyncio.sleep(10 * INTERVAL)
            tasks.cancel_scope.cancel()

    run_virtual(main)
    return noticed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "scheduler.yaml"
    write(path, "old")
    return path


def test_changed_content_is_noticed_once(path: Path) -> None:
    assert changes(path, lambda: path.write_text("new")) == [2 * INTERVAL]


def test_same_content_written_again_is_no_change(path: Path) -> None:
    assert changes(path, lambda: path.write_text("old"), path.touch) == []


def test_file_that_is_being_written_is_read_when_it_is_whole(path: Path) -> None:
    writes = [lambda text=text: path.write_text(text) for text in ("n", "ne", "new")]
    assert changes(path, *writes) == [4 * INTERVAL]


def test_file_that_is_replaced_is_not_missed_while_it_is_away(path: Path) -> None:
    assert changes(path, path.unlink, lambda: path.write_text("old")) == []
    assert changes(path, path.unlink, lambda: path.write_text("new")) == [3 * INTERVAL]


def test_missing_file_is_a_change(path: Path) -> None:
    assert changes(path, path.unlink) == [2 * INTERVAL]


def test_swap_of_the_link_of_a_mounted_config_map_is_noticed(tmp_path: Path) -> None:
    """The kubelet links the file to `..data/file`, and swaps `..data` for a link to another folder."""
    for folder, text in (("..1", "old"), ("..2", "new")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "scheduler.yaml").write_text(text)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "scheduler.yaml").symlink_to("..data/scheduler.yaml")

    def swap() -> None:
        (tmp_path / "..data_tmp").symlink_to("..2")
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")

    assert changes(tmp_path / "scheduler.yaml", swap) == [2 * INTERVAL]


# -- code --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a module that imports another one, both importable."""
    write(tmp_path / "edited_helper.py", "ANSWER = 1\n")
    write(tmp_path / "edited_plugin.py", "from edited_helper import ANSWER\nclass Edited:\n    answer = ANSWER\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in ("edited_plugin", "edited_helper"):
        sys.modules.pop(name, None)


def load() -> type:
    from edited_plugin import Edited  # type: ignore[import-not-found]  # the fixture makes it

    loaded: type = Edited
    return loaded


def test_changed_module_is_noticed_and_loaded_again(folder: Path) -> None:
    code, before = FollowedCode(), load()
    code.follow([before])
    known = code.read()
    assert sorted(file.name for file in known) == ["edited_helper.py", "edited_plugin.py"]
    write(folder / "edited_helper.py", "ANSWER = 23\n")
    assert code.read() != known
    with code.loaded_again():
        after = load()
    assert (before.answer, after.answer) == (1, 23)  # type: ignore[attr-defined]  # the fixture's
    assert load() is after


def test_module_that_cannot_be_loaded_leaves_the_old_one(folder: Path) -> None:
    code, before = FollowedCode(), load()
    code.follow([before])
    write(folder / "edited_helper.py", "ANSWER = \n")
    with pytest.raises(SyntaxError), code.loaded_again():
        load()
    assert load() is before


def test_installed_code_is_not_followed() -> None:
    code = FollowedCode()
    code.follow([NodeName, pytest.Item])
    assert code.read() == {}
