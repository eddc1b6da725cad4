"""A process follows its configuration file, takes what it can, and tells everybody what came of each change."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from kframework import Plugin
from kframework.cli.named_plugins import named_plugins
from kframework.clock import VIRTUAL_EPOCH, run_virtual
from kframework.config.load import load_configuration, parse
from kframework.core.runtime.profiles import ProfileChanges
from kframework.core.runtime.registry import Registry
from kframework.objects import Event
from kframework.observe.history import Reload
from kframework.process.followed_files import INTERVAL, FollowedCode, FollowedFile
from kframework.process.reload import FollowedConfiguration, Reloader, describe
from tests.support.reloads import Stage, document, plugins, profile

MISSING = 'there is no plugin "Missing"; install its package, or name its class with --plugin FILE.py:CLASS'


def write(path: Path, text: str) -> None:
    path.write_text(text)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "scheduler.yaml"


def reloading(path: Path, work: Callable[[Stage, list[Reload]], Awaitable[None]]) -> None:
    """Run a scheduler that follows a file while `work` goes on."""

    async def main() -> None:
        write(path, document(profile(node="a")))
        stage, told = Stage(document(profile(node="a"))), list[Reload]()
        followed = FollowedConfiguration(lambda plugins: load_configuration(path), plugins, FollowedFile(path))
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
    assert lines and all(line.startswith(f"refused {path}, continuing with configuration 1: ") for line in lines)


def test_unexpected_error_does_not_end_the_scheduler(path: Path) -> None:
    async def work(stage: Stage, told: list[Reload]) -> None:
        def load(plugins: object) -> object:
            raise ZeroDivisionError("oh")

        followed = FollowedConfiguration(load, plugins, FollowedFile(path))  # type: ignore[arg-type]  # it never returns
        await Reloader(stage.scheduler, followed, lambda configuration: configuration, told.append).reload_file()
        assert told == [Reload(VIRTUAL_EPOCH, 1, "", "ZeroDivisionError: oh")]

    reloading(path, work)


MINE = """\
from kframework import Plugin, hookimpl, unschedulable

class Mine(Plugin):
    name = "Mine"

    @hookimpl
    def filter(self, state, pod, node):
        return None if node.name == "a" else unschedulable("not a")
"""


def test_code_is_loaded_again_and_bad_code_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "path", list(sys.path))
    source, text = tmp_path / "mine_under_work.py", document(profile(plugin="Mine"))

    def load_plugins() -> list[type[Plugin]]:
        return named_plugins([f"{source}:Mine"])

    async def main() -> None:
        told = list[Reload]()
        stage = Stage(text, registry=Registry.with_plugins(*load_plugins()))
        followed = FollowedConfiguration(lambda plugins: parse(text), load_plugins, code=FollowedCode())
        reloader = Reloader(stage.scheduler, followed, lambda configuration: configuration, told.append)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stage.scheduler.run)
            tasks.start_soon(reloader.run)
            await stage.add("first")
            for number, (old, new) in enumerate([('"a"', "syntax error"), ("syntax error", '"b"')]):
                write(source, source.read_text().replace(old, new))  # time is virtual
                await asyncio.sleep(5.0)
                await stage.add(f"pod-{number}")
            assert [stage.node_of(name) for name in ("first", "pod-0", "pod-1")] == ["a", "a", "b"]
            tasks.cancel_scope.cancel()
        assert [(each.number, bool(each.problem)) for each in told] == [(1, True), (2, False)]

    write(source, MINE)
    run_virtual(main)


def test_changes_are_described_in_words() -> None:
    assert describe(ProfileChanges((), (), (), ()), ()) == "the profiles are the same"
    assert describe(ProfileChanges((), (), ("a",), ()), ("b",)) == "shadows are b; changed a"
    assert describe(ProfileChanges(("a", "b"), ("c",), (), ()), ()) == "added a, b; removed c"
