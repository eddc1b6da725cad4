"""A process follows its configuration file, takes what it can, and tells everybody what came of each change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from kframework.clock import VIRTUAL_EPOCH, run_virtual
from kframework.config.load import load_configuration
from kframework.core.runtime.profiles import ProfileChanges
from kframework.objects import Event
from kframework.observe.history import Reload
from kframework.process.reload import INTERVAL, FollowedConfiguration, FollowedFile, Reloader, describe
from tests.support.reloads import REGISTRY, Stage, document, profile

MISSING = 'there is no plugin "Missing"; install its package, or name its class with --plugin FILE.py:CLASS'


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


# -- what becomes of a change ------------------------------------------------------------------------------------------


def reloading(path: Path, work: Callable[[Stage, list[Reload]], Awaitable[None]]) -> None:
    """Run a scheduler that follows a file while `work` goes on."""

    async def main() -> None:
        write(path, document(profile(node="a")))
        stage, told = Stage(document(profile(node="a"))), list[Reload]()
        followed = FollowedConfiguration(FollowedFile(path), lambda: load_configuration(path), REGISTRY)
        reloader = Reloader(stage.scheduler, followed, lambda configuration: configuration, told.append)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.scheduler.run)
            tasks.start_soon(reloader.run)
            await work(stage, told)
            tasks.cancel_scope.cancel()

    run_virtual(main)


def test_change_is_taken_and_told(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work(stage: Stage, told: list[Reload]) -> None:
        write(path, document(profile(node="b"), profile("other")))
        await asyncio.sleep(5.0)
        await stage.add("pod")
        assert stage.node_of("pod") == "b"
        assert told == [Reload(VIRTUAL_EPOCH + 2 * INTERVAL, 2, "changed default-scheduler; added other")]
        (event,) = (each for each in stage.cluster.objects(Event) if each.reason == "ConfigurationTaken")
        text = f"took configuration 2 from {path}: changed default-scheduler; added other"
        assert (event.type, event.note, event.action) == ("Normal", text, "Reloading")
        regarding, controller = event.regarding, event.reporting_controller
        assert (regarding.kind, regarding.namespace, regarding.name) == ("Lease", "kube-system", "kube-scheduler")
        assert controller == "default-scheduler"
        assert [record.getMessage() for record in caplog.records if record.name.endswith("reload")] == [text]

    with caplog.at_level(logging.INFO):
        reloading(path, work)


def test_bad_file_changes_nothing_and_is_told_each_time(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work(stage: Stage, told: list[Reload]) -> None:
        for text in ("kind: [", document(profile(plugin="Missing")), document(profile(node="a"))):
            write(path, text)
            await asyncio.sleep(5.0)
        assert [(each.number, each.problem.partition(": ")[2]) for each in told] == [
            (1, "is not YAML: did not find expected node content"),
            (1, f"profiles[0].plugins.multiPoint.enabled[0].name: {MISSING}"),
            (1, ""),
        ]
        assert told[-1].changes == "nothing is different"
        reasons = [each.reason for each in stage.cluster.objects(Event)]
        assert reasons == ["ConfigurationRefused", "ConfigurationRefused", "ConfigurationTaken"]
        assert stage.scheduler.engine.configuration_number == 1

    with caplog.at_level(logging.ERROR):
        reloading(path, work)
    lines = [record.getMessage() for record in caplog.records]
    assert lines and all(line.startswith(f"refused {path}, and go on with configuration 1: ") for line in lines)


def test_error_that_nobody_expects_does_not_end_the_scheduler(path: Path) -> None:
    async def work(stage: Stage, told: list[Reload]) -> None:
        def load() -> object:
            raise ZeroDivisionError("oh")

        followed = FollowedConfiguration(FollowedFile(path), load, REGISTRY)  # type: ignore[arg-type]  # it never returns
        await Reloader(stage.scheduler, followed, lambda configuration: configuration, told.append).reload()
        assert told == [Reload(VIRTUAL_EPOCH, 1, "", "ZeroDivisionError: oh")]

    reloading(path, work)


def test_changes_are_described_in_words() -> None:
    assert describe(ProfileChanges((), (), (), ())) == "the profiles are the same"
    assert describe(ProfileChanges(("a", "b"), ("c",), (), ())) == "added a, b; removed c"
