"""Users of kframework import its public modules only, so that the modules behind them may change."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, listed, modules, parse

#: The doors: for plugin authors, for those who type hooks, for those who declare kinds, and for those who score nodes
#: by devices; for second engines, with time and chance; for agents that learn.
DOORS = (
    "kframework",
    "kframework.framework.hookspecs",
    "kframework.objects",
    "kframework.plugins.dynamic_resources.placements",
    "kframework.engine",
    "kframework.clock",
    "kframework.gym",
)
HALLS = ("kframework.testing", "kframework.simulation", "kframework.cli")
FOLDERS = ("contrib_plugins", "examples")


def is_in_hall(module: str) -> bool:
    """Return whether a module is a hall or in one; `kframework.client` is not in `kframework.cli`."""
    return any(module == hall or module.startswith(f"{hall}.") for hall in HALLS)


def test_distributions_import_only_from_public_packages() -> None:
    problems = [problem for path in sources() for problem in break_ins(str(path.relative_to(ROOT)), path.read_text())]
    assert not problems, listed(problems)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from kframework import Status", 0),
        ("from kframework.engine import Scheduler", 0),
        ("import kframework.client.rest", 1),
        ("from kframework.clock import rfc3339", 0),
        ("from kframework.clock import VirtualTimeLoop", 1),
        ("from kframework.testing.scenario import Scenario", 0),
        ("import numpy", 0),
        ("from kframework.scheduler.scheduler import Scheduler", 1),
        ("import kframework.state.cluster", 1),
        ("if TYPE_CHECKING:\n    from kframework.core.cycle.search import Search", 1),
    ],
)
def test_import_from_a_private_module_is_reported(source: str, found: int) -> None:
    assert len(list(break_ins("module.py", source))) == found


@pytest.mark.slow
def test_engine_package_exports_what_is_imported_from_it() -> None:
    imported = {name for path in sources() for name in imported_from("kframework.engine", path.read_text())}
    assert imported == set(listed_by("kframework.engine"))


def test_names_for_plugin_authors_are_exported_by_kframework() -> None:
    assert not set(listed_by("kframework.engine")) & set(listed_by("kframework"))


@pytest.mark.slow
def test_only_public_packages_have_a_list_of_names() -> None:
    packages = {f"kframework.{name}" for name in ("testing", "cli")} | set(DOORS)
    listing = {name for name, path in modules().items() if lists_names(path.read_text())}
    assert listing <= packages


def test_import_from_a_public_package_is_reported() -> None:
    source = "def late():\n    from kframework.engine import Scheduler as S, Engine\nfrom kframework import Status"
    assert imported_from("kframework.engine", source) == {"Engine", "Scheduler"}


@pytest.mark.parametrize(("source", "found"), [('__all__ = ["Status"]', True), ("names = []", False)])
def test_list_of_names_is_reported(source: str, found: bool) -> None:
    assert lists_names(source) == found


def listed_by(door: str) -> list[str]:
    """Return the names that a door promises."""
    names: list[str] = import_module(door).__all__
    return names


def imported_from(door: str, source: str) -> set[str]:
    """Return the names that a module imports from a door."""
    nodes = ast.walk(parse(source))
    return {
        alias.name for node in nodes if isinstance(node, ast.ImportFrom) and node.module == door for alias in node.names
    }


def lists_names(source: str) -> bool:
    """Return whether a module says with `__all__` what others may import from it."""
    assigned = (node.targets for node in parse(source).body if isinstance(node, ast.Assign))
    return any(isinstance(target, ast.Name) and target.id == "__all__" for targets in assigned for target in targets)


def sources() -> Iterator[Path]:
    """List the modules of other distributions, without their tests."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "tests" not in path.relative_to(ROOT).parts:
                yield path


def break_ins(name: str, source: str) -> Iterator[str]:
    """Yield a sentence for each import of a private module."""
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.ImportFrom):
            targets = [node.module or ""]
            if node.module in DOORS:
                hidden = [alias.name for alias in node.names if alias.name not in listed_by(node.module)]
                yield from (f"{name}, line {node.lineno}: {node.module} does not list {each}" for each in hidden)
        elif isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        else:
            continue
        for target in targets:
            ours = target.partition(".")[0] == "kframework"
            if ours and target not in DOORS and not is_in_hall(target):
                yield f"{name}, line {node.lineno}: imports {target}, which is private; see kframework.engine"
