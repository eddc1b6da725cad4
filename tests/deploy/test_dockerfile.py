"""The image's recipe, as far as it can be tried without a container engine: its files, its commands, its versions."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kframework.cli import app
from tests.deploy.command_lines import parse
from tests.examples.clean_environment import ROOT

DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


class Step(NamedTuple):
    """An instruction, and what it says."""

    instruction: str
    text: str


def steps() -> Iterator[Step]:
    """Yield the instructions of the Dockerfile, lines that go on joined."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text())
    for line in text.splitlines():
        if line and not line.startswith("#"):
            yield Step(*line.split(" ", 1))


def said(instruction: str) -> list[str]:
    return [step.text for step in steps() if step.instruction == instruction]


def copied() -> list[str]:
    """List what is copied from the repository, relative to its root."""
    sources = [text.split()[:-1] for text in said("COPY") if not text.startswith("--from")]
    return [name for names in sources for name in names]


def commands() -> Iterator[list[str]]:
    for text in said("RUN"):
        for command in text.split("&&"):
            yield shlex.split(command)


def pins() -> dict[str, str]:
    lines = (DEPLOY / "constraints.txt").read_text().splitlines()
    pinned = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pinned}


def test_base_is_one_exact_version() -> None:
    (argument,) = said("ARG")
    name, _, base = argument.partition("=")
    assert {text.split()[0] for text in said("FROM")} == {f"${{{name}}}"}
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base)


def test_base_may_be_named_by_digest() -> None:
    """An argument before the first FROM counts for each of them."""
    assert [step.instruction for step in steps()][:2] == ["ARG", "FROM"]
    assert "--build-arg PYTHON=python@sha256:" in (DEPLOY / "README.md").read_text()


def test_image_does_not_run_as_root() -> None:
    assert [text for text in said("USER") if re.fullmatch(r"[1-9]\d*:[1-9]\d*", text)] == said("USER")[-1:]


def test_image_runs_a_script_of_the_project() -> None:
    (entry,), (command,) = said("ENTRYPOINT"), said("CMD")
    (script,) = shlex.split(entry.strip("[]"))
    assert script in PROJECT["scripts"]
    parse(app, shlex.split(command.strip("[]")))


def test_copied_files_exist_and_are_not_ignored() -> None:
    everything, *rules = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert everything == "*"
    assert [name for name in copied() if not (ROOT / name).exists()] == []
    assert [f"!{name}" for name in copied() if f"!{name}" not in rules] == []


@pytest.mark.slow
def test_pip_knows_the_flags() -> None:
    for command in commands():
        if command[0].endswith("pip"):
            options = subprocess.run(
                [sys.executable, "-m", "pip", command[1], "--help"], capture_output=True, text=True, check=True
            ).stdout
            flags = [word for word in command if word.startswith("--")]
            assert flags and [flag for flag in flags if flag not in options] == []


@pytest.mark.timeout(120)
def test_wheel_can_be_built_of_what_is_copied(tmp_path: Path) -> None:
    for name in copied():
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / Path(name).name)
    (command,) = (command for command in commands() if command[:2] == ["pip", "wheel"])
    # uv_build looks for its program on the PATH.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    subprocess.run(
        [sys.executable, "-m", *command], cwd=tmp_path, check=True, capture_output=True, env=os.environ | {"PATH": path}
    )
    (wheel,) = (tmp_path / "dist").iterdir()
    assert wheel.name.startswith(f"kframework_sdk-{PROJECT['version']}-")


def needed(requirement: Requirement, found: set[str]) -> None:
    """Add what a requirement takes here, down to the last dependency."""
    name = canonicalize_name(requirement.name)
    if name in found:
        return
    found.add(name)
    for text in distribution(name).requires or ():
        below = Requirement(text)
        extras = ("", *requirement.extras)
        if below.marker is None or any(below.marker.evaluate({"extra": extra}) for extra in extras):
            needed(below, found)


def test_every_dependency_is_pinned_to_a_version_that_the_project_takes() -> None:
    found: set[str] = set()
    needed(Requirement("kframework-sdk[otlp]"), found)
    assert found - pins().keys() == {"kframework-sdk"}
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    for text in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["otlp"], *backend]:
        requirement = Requirement(text)
        assert requirement.specifier.contains(pins()[canonicalize_name(requirement.name)]), text
