"""One class replays recordings: no other takes a step of an engine because a line of a recording says so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, listed, parse

#: The module and the class that replay, and the folders in which there is no other.
REPLAY = ("kframework/observe/recording/replay.py", "Replay")
FOLDERS = ("kframework", "contrib_plugins", "examples")

#: The line of a recording at which an engine takes a step: who replays must know it.
STEP = "Step"


@pytest.mark.slow
def test_one_class_replays() -> None:
    classes = [(str(path.relative_to(ROOT)), name) for path in sources() for name in replaying(path.read_text())]
    assert classes == [REPLAY], listed([f"{path}: {name} replays recordings" for path, name in classes])


@pytest.mark.parametrize(
    ("source", "classes"),
    [
        ('class A:\n    def run(self):\n        if line.what == "Step":\n            engine.step()', ["A"]),
        (
            'class A:\n    def run(self):\n        match line.what:\n            case "Step":\n                pass',
            ["A"],
        ),
        ('class A:\n    def run(self):\n        return line.what in ("Step", "CatchUp")', ["A"]),
        ('class A:\n    def run(self):\n        return {"Step": self.step}[line.what]()', ["A"]),
        ('def run(line):\n    stepping = line.what == "Step"', ["run"]),
        ('class A:\n    def step(self):\n        recorder.write("Step")', []),
        ('class A:\n    def read(self):\n        return line.what == "Decision"', []),
    ],
)
def test_second_replay_class_is_reported(source: str, classes: list[str]) -> None:
    assert list(replaying(source)) == classes


def sources() -> Iterator[Path]:
    """List the modules of the product."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "tests" not in path.relative_to(ROOT).parts:
                yield path


def replaying(source: str) -> Iterator[str]:
    """Yield the classes and functions of a module that look whether a line is a step."""
    for definition in parse(source).body:
        if isinstance(definition, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if any(map(looks_for_step, ast.walk(definition))):
                yield definition.name


def looks_for_step(node: ast.AST) -> bool:
    """Return whether a value is compared with the name of that line, matched against it or looked up by it."""
    if not isinstance(node, ast.Compare | ast.MatchValue | ast.Dict):
        return False
    return any(isinstance(each, ast.Constant) and each.value == STEP for each in ast.walk(node))
