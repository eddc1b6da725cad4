"""What holds for every package under examples: what it imports, and how long a plugin is."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import kframework
import kframework.gym
import kframework.objects
import kframework.testing
from tests.examples.clean_environment import ROOT

pytestmark = pytest.mark.slow

PACKAGES = sorted(file.parent for file in ROOT.glob("examples/*/pyproject.toml"))
FILES = sorted(file for package in PACKAGES for file in package.rglob("*.py"))

#: A whole plugin has fewer lines.
LINES = 120


def named(path: Path) -> str:
    return str(path.relative_to(ROOT / "examples"))


@pytest.mark.parametrize("file", FILES, ids=named)
def test_example_imports_only_public_packages(file: Path) -> None:
    doors = (kframework, kframework.gym, kframework.objects, kframework.testing)
    public = {door.__name__: door.__all__ for door in doors}
    private = {
        f"{module}.{name}"
        for module, name in imports(ast.parse(file.read_text()))
        if module.partition(".")[0] == "kframework" and name not in public.get(module, ())
    }
    assert not private


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield modules and the names that are imported from them, "" for a whole one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


@pytest.mark.parametrize("package", PACKAGES, ids=named)
def test_example_plugin_is_short(package: Path) -> None:
    (exported,) = package.glob("*/__init__.py")
    module = importlib.import_module(exported.parent.name)
    plugins = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, kframework.Plugin)]
    assert plugins
    for plugin in plugins:
        file = importlib.import_module(plugin.__module__).__file__
        assert file is not None and len(Path(file).read_text().splitlines()) < LINES
