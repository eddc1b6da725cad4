"""The values of a source come from a file, at their times; what cannot be played is an error with its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kframework.errors import InputError
from kframework.simulation.controllers import STANDARD_CONTROLLERS
from kframework.simulation.simulation import Simulation
from kframework.simulation.source_script import SourceFile
from kframework.testing import make_node, make_pod
from tests.support.source_plugins import busy_plugin

Write = Callable[[str], SourceFile]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file of values for the source of `busy_plugin`."""

    def write(text: str) -> SourceFile:
        file = tmp_path / "load.jsonl"
        file.write_text(text)
        return SourceFile("Load", "load", str(file))

    return write


def simulated(played: SourceFile) -> Simulation:
    """Simulate a pod on one node with this file, to the end."""
    controllers = [*STANDARD_CONTROLLERS, played.create_controller]
    simulation = Simulation([make_node("a"), make_pod("web")], plugins=[busy_plugin()], controllers=controllers)
    played.replace_source(simulation.scheduler.profiles)
    return simulation.run()


# Fetched every 10 s: at 30.1 and 30.15 s the source was published a moment ago.
@pytest.mark.parametrize("seconds", [7, 30, 30.15, 200.5, 201])
def test_values_are_played_at_their_times(write: Write, seconds: float) -> None:
    lines = ["# the load of nodes", '{"at": 0, "values": {"a": 0.9}}', "", f"{{at: {seconds}, values: {{a: 0.1}}}}"]
    simulation = simulated(write("\n".join(lines)))
    assert simulation.outcomes[0].node == "a"
    first, last = simulation.decisions
    assert first.popped_at == simulation.started_at
    assert last.popped_at - simulation.started_at == pytest.approx(seconds, abs=0.06)


def test_errors_are_played(write: Write) -> None:
    simulation = simulated(write('{"at": 0, "error": "no route"}\n{"at": 5, "values": {"a": 0.1}}'))
    first, last = simulation.decisions
    assert "has no data yet: ConnectionError: no route" in first.message
    assert (last.node, last.popped_at > simulation.started_at + 5) == ("a", True)


def test_silence_makes_the_source_stale(write: Write) -> None:
    simulation = simulated(write('{"at": 0, "values": {"a": 0.9}}\n{"at": 5}\n{"at": 200, "values": {"a": 0.1}}'))
    assert not simulation.outcomes[0].message
    assert simulation.seconds == pytest.approx(200, abs=0.06)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", None, 'has no values: write lines such as {"at": 0, "values": {"a": 1}}'),
        ("[1", 1, "is not YAML: did not find expected ',' or ']'; write {"),
        ("--- 1\n--- 2", 1, "expected a mapping, got an integer; write {"),
        ('{"values": {"a": 1}}', 1, "Object missing required field `at`; write {"),
        ('{"at": 0, "value": {"a": 1}}', 1, "Object contains unknown field `value`; write {"),
        ('{"at": 0}\n{"at": "soon"}', 2, "at: expected a number, got a string; write {"),
        ('{"at": -1}', 1, "at is -1: use seconds from 0 on, in ascending order"),
        ("{at: .nan}", 1, "at is nan: use seconds from 0 on, in ascending order"),
        ('{"at": 5}\n{"at": 4}', 2, "at is 4: use seconds from 0 on, in ascending order"),
        ('{"at": 0, "values": {}, "error": "no"}', 1, "has values and an error: use one of them"),
    ],
)
def test_unusable_line_is_an_error(write: Write, text: str, line: int | None, problem: str) -> None:
    with pytest.raises(InputError) as error:
        write(text)
    assert (error.value.line, error.value.message.startswith(problem)) == (line, True)


def test_value_of_another_type_is_an_error_with_its_line(write: Write) -> None:
    played = write('{"at": 0, "values": {"a": 1}}\n{"at": 1, "values": {"a": "busy"}}')
    with pytest.raises(InputError, match=r"load\.jsonl:2: 'a' has the value 'busy'"):
        simulated(played)


def test_source_that_no_plugin_declares_is_an_error(write: Write) -> None:
    played = write('{"at": 0, "values": {}}')
    played.script.name = "lode"
    with pytest.raises(InputError, match="no plugin declares the source Load/lode; declared: Load/load"):
        simulated(played)
