"""`kframework new`: write the package of a plugin, ready to be installed and tested."""

from __future__ import annotations

import ast
import keyword
import re
import sys
from collections.abc import Mapping, Set
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from kframework.cli.options import Verbosity
from kframework.cli.printing import print_lines
from kframework.values.feature_gates import MINORS


def command(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="NAME", help="Name of the distribution, such as few-pods, or the path of its new folder."
        ),
    ],
    all_points: Annotated[
        bool,
        typer.Option("--all-points", help="Write all hooks, not only filter and score; delete those you do not need."),
    ] = False,
    verbosity: Verbosity = 0,
) -> None:
    """Create the package of a plugin.

    The new folder has a plugin with typed Args, tests, a cluster file to simulate and a CI workflow.
    """
    try:
        names = derive_names(path.name)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="NAME") from error
    if path.exists():
        raise typer.BadParameter(f"{path} already exists; choose another name, or remove it", param_hint="NAME")
    path.mkdir(parents=True)
    for name, text in render_package(names, ALL_POINTS if all_points else FILTER_AND_SCORE).items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        print_lines(str(file))


_KEBAB = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

#: Modules, besides Python's, that the package imports or is tested and checked with.
_MODULES = {"kframework", "mypy", "numpy", "pydantic", "pytest", "ruff", "tests"}


@dataclass(frozen=True)
class Example:
    """An example plugin: the folder of its templates, its description, and its dependency on NumPy if any."""

    folder: str
    summary: str
    numpy: str = ""


FILTER_AND_SCORE = Example("filter_and_score", "limit the pods of a node and spread pods")
ALL_POINTS = Example(
    "all_points",
    "show what every extension point is for",
    '\n    "numpy>=2.4",             # many nodes at once',
)


@dataclass(frozen=True)
class Names:
    """The names of a plugin: its distribution `few-pods`, the module `few_pods`, the class `FewPods`."""

    distribution: str

    @property
    def module(self) -> str:
        """The name of the Python package."""
        return self.distribution.replace("-", "_")

    @property
    def plugin(self) -> str:
        """The name of the class, and of the plugin in a configuration."""
        return "".join(word.capitalize() for word in self.distribution.split("-"))


def derive_names(distribution: str) -> Names:
    """Return the names derived from the distribution's; ValueError explains an invalid one and suggests a valid one."""
    from kframework.config.default_plugins import IN_TREE_PLUGINS

    if not _KEBAB.fullmatch(distribution):
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", distribution)
        better = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
        hint = f", such as {better!r}" if _KEBAB.fullmatch(better) else ""
        raise ValueError(f"{distribution!r} is not a valid name; use a-z, 0-9 and dashes, after a letter{hint}")
    names = Names(distribution)
    taken = ""
    if keyword.iskeyword(names.module):
        taken = f"{names.module!r} is a Python keyword"
    elif distribution == "kframework-sdk":
        taken = "it is the distribution of kframework"
    elif names.module in sys.stdlib_module_names | _MODULES:
        taken = f"a module {names.module!r} already exists"
    elif names.plugin in IN_TREE_PLUGINS:
        taken = f"kube-scheduler has a plugin {names.plugin}"
    elif not _imported_names(names).isdisjoint({names.plugin, f"{names.plugin}Args"}):
        taken = f"its class {names.plugin} would hide what it imports"
    if taken:
        raise ValueError(f"{distribution!r} cannot be used: {taken}; choose another, such as 'my-{distribution}'")
    return names


def _imported_names(names: Names) -> Set[str]:
    texts = (
        _render_template(f"{example.folder}/{module}", names, example)
        for example in (FILTER_AND_SCORE, ALL_POINTS)
        for module in ("plugin.py", "test_plugin.py")
    )
    return {
        name.asname or name.name
        for text in texts
        for node in ast.parse(text).body
        if isinstance(node, ast.Import | ast.ImportFrom) and getattr(node, "module", None) != names.module
        for name in node.names
    }


def render_package(names: Names, example: Example) -> Mapping[str, str]:
    """Return the text of each file, by its path in the package's folder."""
    return {
        ".github/workflows/test.yaml": _render_template("ci.yaml", names, example),
        ".gitignore": _render_template("gitignore", names, example),
        "README.md": _render_template("README.md", names, example),
        "cluster.yaml": _render_template(f"{example.folder}/cluster.yaml", names, example),
        "config.yaml": _render_template(f"{example.folder}/config.yaml", names, example),
        "pyproject.toml": _render_template("pyproject.toml", names, example),
        f"{names.module}/__init__.py": _render_template("init.py", names, example),
        f"{names.module}/plugin.py": _render_template(f"{example.folder}/plugin.py", names, example),
        f"{names.module}/py.typed": "",
        f"tests/test_{names.module}.py": _render_template(f"{example.folder}/test_plugin.py", names, example),
    }


def _render_template(template: str, names: Names, example: Example) -> str:
    """Return the text of a template with values in place of `$name`, `$module` and the like."""
    text = files("kframework.cli.new").joinpath("templates", f"{template}.template").read_text(encoding="utf-8")
    return Template(text).substitute(
        name=names.distribution,
        module=names.module,
        plugin=names.plugin,
        minors=", ".join(map('"{}"'.format, MINORS)),
        kubernetes=" and ".join(MINORS),
        summary=example.summary,
        Summary=example.summary.capitalize(),
        numpy=example.numpy,
    )
