"""The line of a plugin's code that a fault is in."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path

import pytest

from kframework import Plugin, hookimpl
from kframework.core.runtime.hooks import source_location
from kframework.framework.cycle_state import CycleState
from kframework.state.nodes import NodeInfo
from kframework.state.pods import PendingPod


class Faulty(Plugin):
    """Raises in a method that one hook calls, and in a library that another calls."""

    name = "Faulty"

    @hookimpl
    def pre_enqueue(self, pod: PendingPod) -> None:
        self.look_up()

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        self.read()
        return 0

    def look_up(self) -> None:
        raise KeyError("missing")

    def read(self) -> None:
        Path("/nowhere/at/all").read_text()


PLUGIN = object.__new__(Faulty)


def line_at(place: str) -> str:
    """Return the line of this file that a place names."""
    file, _, line = place.rpartition(":")
    assert file == __file__
    return linecache.getline(file, int(line)).strip()


@pytest.mark.parametrize(
    ("hook", "method", "line"),
    [
        pytest.param("pre_enqueue", PLUGIN.look_up, 'raise KeyError("missing")', id="below the hook"),
        pytest.param("score", PLUGIN.read, 'Path("/nowhere/at/all").read_text()', id="where a library was called"),
    ],
)
def test_fault_is_located_at_the_last_line_in_the_plugin_module(hook: str, method: object, line: str) -> None:
    assert callable(method)
    with pytest.raises((KeyError, OSError)) as caught:
        method()
    assert line_at(source_location(Faulty, hook, caught.value)) == line


def test_invalid_answer_is_located_at_the_hook() -> None:
    assert line_at(source_location(Faulty, "score", "answered 1000")) == "@hookimpl"


def test_fault_in_another_module_is_located_at_the_hook() -> None:
    assert line_at(source_location(Faulty, "pre_enqueue", ValueError("raised nowhere"))) == "@hookimpl"


def test_missing_hook_is_located_at_the_class() -> None:
    assert line_at(source_location(Faulty, "filter", "answered 1000")) == "class Faulty(Plugin):"


@pytest.mark.parametrize("module", ["builtins", "__main__"])
def test_class_without_source_file_has_no_location(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    made = type("Made", (Plugin,), {"__module__": module, "name": "Made"})
    assert source_location(made, "filter", "answered 1000") == ""
