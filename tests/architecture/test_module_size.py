"""Modules stay short, and are called after what they hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, listed, modules

MOST_LINES = 500
#: Drawers that anything fits into.
DRAWERS = {"utils", "util", "helpers", "helper", "base", "common", "manager", "misc"}


def test_modules_are_short() -> None:
    problems = [problem for name, path in modules().items() for problem in too_long(name, path.read_text())]
    assert not problems, listed(problems)


def test_no_module_has_a_catch_all_name() -> None:
    folders = ["kframework", "contrib_plugins", "examples", "tests", "benchmarks"]
    paths = [path.relative_to(ROOT) for folder in folders for path in sorted(ROOT.glob(f"{folder}/**/*.py"))]
    problems = [problem for path in paths for problem in drawers(path)]
    assert not problems, listed(problems)


def too_long(module: str, source: str) -> Iterator[str]:
    """Yield a sentence when the module has too many lines."""
    lines = len(source.splitlines())
    if lines > MOST_LINES:
        yield f"{module} has {lines} lines, {MOST_LINES} are the most; split it by concept"


def drawers(path: Path) -> Iterator[str]:
    """Yield a sentence for each part of the path that names no concept."""
    for part in path.with_suffix("").parts:
        if part.removeprefix("test_").strip("_") in DRAWERS:
            yield f"{path}: {part!r} says nothing about what is in it"


def test_long_module_is_reported() -> None:
    assert list(too_long("kframework.core.cycle.search", "x = 1\n" * 500)) == []
    assert list(too_long("kframework.core.cycle.search", "x = 1\n" * 501)) == [
        "kframework.core.cycle.search has 501 lines, 500 are the most; split it by concept"
    ]


@pytest.mark.parametrize("path", ["kframework/utils.py", "kframework/base/nodes.py", "tests/test_common.py"])
def test_catch_all_name_is_reported(path: str) -> None:
    assert len(list(drawers(Path(path)))) == 1


def test_name_of_a_concept_passes() -> None:
    assert list(drawers(Path("kframework/state/database.py"))) == []
