"""The package of a new plugin: whatever it shows, checkers have nothing against it, and it does what it says."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from kframework.cli.new.package import Names, names_of, package
from kframework.cli.new.points import DEFAULT, OPTIONS, POINTS, with_needs
from kframework.framework.hookspecs import SPECIFICATIONS
from tests.examples.clean_environment import ROOT


class Form(NamedTuple):
    """What a package is made for."""

    name: str
    points: tuple[str, ...]
    options: frozenset[str] = frozenset()

    def package(self) -> Mapping[str, str]:
        return package(Names(self.name), with_needs(self.points), self.options)


#: What somebody gets who says nothing, and all there is.
WHOLE = (
    Form("few-pods", DEFAULT),
    Form("every-scalar", tuple(POINTS)),
    Form("every-columnar", tuple(POINTS), frozenset({"columnar"})),
    Form("every-async", tuple(POINTS), frozenset({"async"})),
)

#: Each point by itself, in each form.
SINGLE = (
    *(Form(f"only-{point.replace('_', '-')}", (point,)) for point in POINTS),
    *(
        Form(f"{option}-{point.replace('_', '-')}", (point,), frozenset({option}))
        for option, points in OPTIONS.items()
        for point in points
    ),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all these packages."""
    folder = tmp_path_factory.mktemp("packages")
    for form in (*WHOLE, *SINGLE):
        for name, text in form.package().items():
            file = folder / form.name / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    return folder


def ran(folder: Path, *command: object, path: Iterable[Path] = ()) -> str:
    """Run a program of this environment in a folder; return what it printed, of one that fails all of it as a fault."""
    # As on its author's machine: without the verification that the environment of these tests asks for.
    own = {name: value for name, value in os.environ.items() if not name.startswith("KFRAMEWORK")}
    variables = own | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    arguments = [sys.executable, "-m", *map(str, command)]
    ended = subprocess.run(arguments, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.timeout(180)
@pytest.mark.parametrize("form", WHOLE, ids=lambda form: form.name)
def test_its_tests_pass(folder: Path, form: Form) -> None:
    root = folder / form.name
    assert " passed" in ran(root, "pytest", "-q", "-p", "no:cacheprovider", path=[root])


@pytest.mark.parametrize("form", WHOLE, ids=lambda form: form.name)
def test_its_example_can_be_simulated(folder: Path, form: Form) -> None:
    root, names = folder / form.name, Names(form.name)
    plugin = f"{names.module}:{names.plugin}"
    files = ("-f", "cluster.yaml", "--strict", "--config", "config.yaml")
    told = ran(root, "kframework", "simulate", *files, "--plugin", plugin, path=[root])
    assert told.count(" Running ") == 4 and "node(s) ran 2 pods already" in told


def test_a_pod_whose_group_never_starts_goes_to_sleep(folder: Path) -> None:
    root = folder / "only-permit"
    files = ("-f", "cluster.yaml", "--config", "config.yaml")
    told = ran(root, "kframework", "simulate", *files, "--plugin", "only_permit:OnlyPermit", path=[root])
    assert re.search(r"single +<none> +Pending +2 .* rejected due to timeout", told)


def test_every_configuration_can_be_used(folder: Path) -> None:
    roots = [folder / form.name for form in SINGLE]
    configurations = [root / "config.yaml" for root in roots]
    classes = [f"{names.module}:{names.plugin}" for names in (Names(form.name) for form in SINGLE)]
    given = [part for each in classes for part in ("--plugin", each)]
    told = ran(folder, "kframework", "config", "check", *configurations, *given, path=roots)
    assert told.count(": ok\n") == len(SINGLE)


def test_ruff_has_nothing_against_them(folder: Path) -> None:
    ran(folder, "ruff", "check", "--no-cache")
    ran(folder, "ruff", "format", "--no-cache", "--check")


@pytest.mark.timeout(180)
def test_mypy_has_nothing_against_them(folder: Path) -> None:
    cache = ROOT / ".mypy_cache" / "authors" / os.environ.get("PYTEST_XDIST_WORKER", "alone")
    files = [
        part for form in (*WHOLE, *SINGLE) for part in (f"{form.name}/{Names(form.name).module}", f"{form.name}/tests")
    ]
    ran(folder, "mypy", "--strict", "--config-file=", f"--cache-dir={cache}", *files)


def test_together_they_show_every_hook() -> None:
    modules = [form.package()[f"{Names(form.name).module}/plugin.py"] for form in WHOLE]
    methods = {
        node.name
        for module in modules
        for node in ast.walk(ast.parse(module))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.decorator_list
    }
    assert methods == {name for each in SPECIFICATIONS for name in vars(each) if not name.startswith("_")}


def test_a_dependency_stands_there_only_if_it_is_used() -> None:
    plain = Form("one", ("pre_enqueue",)).package()["pyproject.toml"]
    assert "numpy" not in plain and "pydantic" not in plain
    assert '"numpy>=2.4"' in Form("one", ("filter",), frozenset({"columnar"})).package()["pyproject.toml"]


def test_names_follow_from_one() -> None:
    names = names_of("gpu-h100-first")
    assert (names.distribution, names.module, names.plugin) == ("gpu-h100-first", "gpu_h100_first", "GpuH100First")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("FewPods", "'FewPods' is no name; write a letter, then small letters, digits and dashes, such as 'few-pods'"),
        (
            "few_pods",
            "'few_pods' is no name; write a letter, then small letters, digits and dashes, such as 'few-pods'",
        ),
        ("1st", "'1st' is no name; write a letter, then small letters, digits and dashes"),
        ("", "'' is no name; write a letter, then small letters, digits and dashes"),
        ("class", "'class' will not do, as 'class' is a word of Python; choose another, such as 'my-class'"),
        ("json", "'json' will not do, as there is a module 'json' already; choose another, such as 'my-json'"),
        ("kframework", "there is a module 'kframework' already"),
        ("node-name", "'node-name' will not do, as kube-scheduler has a plugin NodeName"),
        ("plugin", "'plugin' will not do, as its class Plugin would hide what it imports"),
        ("pod-info", "its class PodInfo would hide what it imports"),
        ("path", "its class Path would hide what it imports"),
        ("plugin-args", "its class PluginArgs would hide what it imports"),
        ("scenario", "its class Scenario would hide what it imports"),
    ],
)
def test_a_name_that_will_not_do_is_refused(name: str, told: str) -> None:
    with pytest.raises(ValueError) as refused:
        names_of(name)
    assert told in str(refused.value)
