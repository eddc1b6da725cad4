"""`simulate --watch`: simulated again with every change."""

from __future__ import annotations

import signal
import sys
import sysconfig
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest

import kframework
from kframework.cli.watching import WatchedPaths, detect_changes, find_watched_paths, watch
from tests.cli.conftest import Command
from tests.cli.processes import Started, started

CLUSTER = Path("examples/clusters/tiny.yaml")

PLUGIN = """
from kframework import Plugin, hookimpl

class Picky(Plugin):
    name = "Picky"

    @hookimpl
    def filter(self, state, pod, node):
        return {answer}
"""


def test_input_files_and_plugin_code_are_watched(tmp_path: Path) -> None:
    folder, file, plugin = tmp_path / "folder", tmp_path / "cluster.yaml", tmp_path / "plugin.py"
    (folder / "below").mkdir(parents=True)
    found = find_watched_paths([str(folder), str(file)], [f"{plugin}:Picky"])
    within = [file, plugin, folder / "new.yaml", folder / "below" / "pods.json", Path(kframework.__file__).resolve()]
    without = [tmp_path / "other.yaml", folder / "notes.txt", folder / "new.py", tmp_path / "beside.py"]
    assert [path in found for path in (*within, *without)] == [True] * len(within) + [False] * len(without)
    assert {tmp_path, folder, folder / "below"} <= set(found.existing_folders)


def test_installed_packages_are_not_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "settled.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    place = tmp_path / "settled.py"
    assert place in find_watched_paths([], ["settled:Picky"])
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert place not in find_watched_paths([], ["settled:Picky"])


def test_missing_module_does_not_stop_watching() -> None:
    assert Path("nowhere.py").resolve() not in find_watched_paths([], ["nowhere_at_all:Picky"])


def lines(command: Started, last: str) -> list[str]:
    """Read what a command prints, until a line begins like this."""
    found = [command.out.readline().rstrip()]
    while not found[-1].startswith(last):
        assert command.process.poll() is None
        found.append(command.out.readline().rstrip())
    return found


def said(command: Started, last: str) -> list[str]:
    """Read what a command says beside its output, until a line begins like this."""
    found = [command.err.readline().rstrip()]
    while not found[-1].startswith(last):
        assert command.process.poll() is None
        found.append(command.err.readline().rstrip())
    return found


@pytest.mark.slow
def test_moved_pods_are_shown(tmp_path: Path) -> None:
    cluster, plugin = tmp_path / "cluster.yaml", tmp_path / "picky.py"
    text = CLUSTER.read_text()
    cluster.write_text(text)
    plugin.write_text(PLUGIN.format(answer=None))
    with started("simulate", "--watch", "-f", cluster, "--plugin", f"{plugin}:Picky") as command:
        assert lines(command, "default    large")[1:3] == [
            "default    small   right   Running  1",
            "default    medium  right   Running  1",
        ]
        cluster.write_text(text.replace("name: medium", "name: middling"))
        assert said(command, "notice: cluster.yaml")
        assert lines(command, "default    medium") == [
            "NAMESPACE  POD       BEFORE  NOW     MESSAGE",
            "default    middling  <new>   right",
            "default    medium    right   <gone>",
        ]
        plugin.write_text("class")
        assert "cannot be imported: SyntaxError" in said(command, "error: ")[-1]
        plugin.write_text(PLUGIN.format(answer=None) + "# as before\n")
        assert said(command, "notice: nothing moved")
        plugin.write_text(PLUGIN.format(answer="unschedulable('no')").replace("import", "import unschedulable,"))
        assert [line.split()[2:4] for line in lines(command, "default    middling")[1:]] == [["right", "<pending>"]] * 2
        code, _, _ = command.end(signal.SIGINT)
        assert code == 130


def test_watching_begins_although_other_files_change_all_the_time(tmp_path: Path) -> None:
    begun, watched = Event(), WatchedPaths(frozenset({tmp_path / "cluster.yaml"}), {})

    def write() -> None:
        for number in range(30):
            (tmp_path / "other.log").write_text(str(number))
            if begun.wait(0.1):
                return

    writer = Thread(target=write)
    writer.start()
    assert next(detect_changes(watched, Event())) == set()
    assert writer.is_alive()
    begun.set()
    writer.join()


@pytest.mark.parametrize("ignored", [False, True])
def test_interrupt_ends_watching_although_its_exception_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ignored: bool
) -> None:
    file = tmp_path / "cluster.yaml"
    file.touch()
    simulations = []

    def simulate_again(arguments: Sequence[str], before: object) -> None:
        simulations.append(arguments)
        file.write_text("changed")
        with suppress(KeyboardInterrupt):  # as in a finalizer
            signal.raise_signal(signal.SIGINT)
        assert len(simulations) == 1

    monkeypatch.setattr("kframework.cli.watching.simulate_again", simulate_again)
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            watch(["simulate"], find_watched_paths([str(file)], []))
    finally:
        signal.signal(signal.SIGINT, handler)


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["-f", "-"], "stdin does not change; name files"),
        (["-f", CLUSTER, "-o", "wide"], "prints only what moved; remove --output"),
        (["-f", CLUSTER, "--pdb"], "simulates in other processes; remove --pdb"),
    ],
)
def test_incompatible_options_are_refused(run: Command, arguments: list[object], remedy: str) -> None:
    code, _, err = run("simulate", "--watch", *arguments)
    assert (code, err.splitlines()[0]) == (2, f"error: Invalid value for '--watch': {remedy}")


def test_watching_is_imported_only_on_request(run: Command) -> None:
    sys.modules.pop("kframework.cli.watching", None)
    assert run("simulate", "-f", CLUSTER).code == 0
    assert "kframework.cli.watching" not in sys.modules
