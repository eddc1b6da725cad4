"""The package of a new plugin: it does what it says.

Type checkers have nothing against it: framework/test_type_checking.py.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from kframework.cli.new.command import ALL_POINTS, FILTER_AND_SCORE, Example, Names, derive_names, render_package
from kframework.framework.hookspecs import SPECIFICATIONS

pytestmark = pytest.mark.slow

EXAMPLES: Mapping[str, Example] = {"few-pods": FILTER_AND_SCORE, "every-point": ALL_POINTS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package of each example."""
    folder = tmp_path_factory.mktemp("packages")
    for package_name, example in EXAMPLES.items():
        for name, text in render_package(Names(package_name), example).items():
            file = folder / package_name / name
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
@pytest.mark.parametrize("name", EXAMPLES)
def test_tests_of_a_new_package_pass(folder: Path, name: str) -> None:
    assert " passed" in ran(folder / name, "pytest", "-q", "-p", "no:cacheprovider", path=[folder / name])


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_of_a_new_package_can_be_simulated(folder: Path, name: str) -> None:
    root, names = folder / name, Names(name)
    files = ("-f", "cluster.yaml", "--strict", "--config", "config.yaml")
    told = ran(root, "kframework", "simulate", *files, "--plugin", f"{names.module}:{names.plugin}", path=[root])
    assert told.count(" Running ") == 4 and "node(s) ran 2 pods already" in told


def test_ruff_has_nothing_against_them(folder: Path) -> None:
    ran(folder, "ruff", "check", "--no-cache")
    ran(folder, "ruff", "format", "--no-cache", "--check")


#: What its comment names: another form of `filter`, and the hooks about PodGroups.
LEFT_OUT = {
    *(
        "filter_domains",
        "filter_more",
        "placement_feasible",
        "placement_generate",
        "placement_score",
        "pod_group_post_filter",
    ),
}


def test_larger_one_shows_every_hook() -> None:
    module = render_package(Names("every-point"), ALL_POINTS)["every_point/plugin.py"]
    methods = {
        node.name
        for node in ast.walk(ast.parse(module))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.decorator_list
    }
    hooks = {name for each in SPECIFICATIONS for name in vars(each) if not name.startswith("_")}
    assert methods.isdisjoint(LEFT_OUT) and methods | LEFT_OUT == hooks
    assert all(f"`{name}`" in module for name in LEFT_OUT)


@pytest.mark.parametrize("name", EXAMPLES)
def test_dependency_is_listed_if_and_only_if_it_is_imported(name: str) -> None:
    files = render_package(Names(name), EXAMPLES[name])
    plugin, project = files[f"{Names(name).module}/plugin.py"], files["pyproject.toml"]
    for library in ("numpy", "pydantic"):
        assert bool(re.search(rf"^(import|from) {library} ", plugin, re.M)) == (f'"{library}>=' in project)


def test_names_of_a_package_follow_from_one() -> None:
    names = derive_names("gpu-h100-first")
    assert (names.distribution, names.module, names.plugin) == ("gpu-h100-first", "gpu_h100_first", "GpuH100First")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("FewPods", "'FewPods' is not a valid name; use a-z, 0-9 and dashes, after a letter, such as 'few-pods'"),
        (
            "few_pods",
            "'few_pods' is not a valid name; use a-z, 0-9 and dashes, after a letter, such as 'few-pods'",
        ),
        ("1st", "'1st' is not a valid name; use a-z, 0-9 and dashes, after a letter"),
        ("", "'' is not a valid name; use a-z, 0-9 and dashes, after a letter"),
        ("kframework-sdk", "'kframework-sdk' cannot be used: it is the distribution of kframework; choose another"),
        ("class", "'class' cannot be used: 'class' is a Python keyword; choose another, such as 'my-class'"),
        ("json", "'json' cannot be used: a module 'json' already exists; choose another, such as 'my-json'"),
        ("kframework", "a module 'kframework' already exists"),
        ("node-name", "'node-name' cannot be used: kube-scheduler has a plugin NodeName"),
        ("plugin", "'plugin' cannot be used: its class Plugin would hide what it imports"),
        ("pod-info", "its class PodInfo would hide what it imports"),
        ("path", "its class Path would hide what it imports"),
        ("plugin-args", "its class PluginArgs would hide what it imports"),
        ("scenario", "its class Scenario would hide what it imports"),
    ],
)
def test_name_that_will_not_do_is_refused(name: str, told: str) -> None:
    with pytest.raises(ValueError) as refused:
        derive_names(name)
    assert told in str(refused.value)
