"""The fake API and CEL can be taken out of an installed copy: who needs neither may ignore them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.docs.blocks import blocks
from tests.end_to_end.processes import Kubectl, Running, until
from tests.end_to_end.servers import started

#: What is taken out; the selectors of devices stand on CEL.
REMOVED = ("fake_api", "cel")

CLUSTER, CONFIG = (str(ROOT / "examples" / name / "demo.yaml") for name in ("clusters", "configs"))

ONE_POD = """
apiVersion: v1
kind: Node
metadata: {name: only}
status: {allocatable: {cpu: "1", memory: 1Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: web, image: web}]}
"""

#: Runs commands one after the other, in one process.
EACH = """
from kframework.cli import main
for command in {0!r}:
    try:
        main(command)
    except SystemExit as end:
        assert not end.code, (command, end.code)
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def without_rooms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that finds kframework without these rooms."""
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "kframework", site / "kframework", ignore=shutil.ignore_patterns(*REMOVED))
    return environment(site)


def environment(*first: Path) -> dict[str, str]:
    path = os.pathsep.join([*map(str, first), os.environ.get("PYTHONPATH", "")])
    return {name: value for name, value in os.environ.items() if name != "KUBECONFIG"} | {"PYTHONPATH": path}


def output_of(*arguments: str, env: dict[str, str], folder: Path) -> str:
    """Run Python in a folder that is not the checkout, where it would find kframework first."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=env, cwd=folder, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_removed_packages_cannot_be_imported(without_rooms: dict[str, str], tmp_path: Path) -> None:
    code = "import importlib.util as u; print([u.find_spec(f'kframework.{name}') for name in ('fake_api', 'cel')])"
    assert output_of("-c", code, env=without_rooms, folder=tmp_path).strip() == "[None, None]"


def test_files_are_simulated_explained_and_replayed_without_them(without_rooms: dict[str, str], tmp_path: Path) -> None:
    def outputs(env: dict[str, str], recording: Path) -> str:
        files = ("-f", CLUSTER, "--config", CONFIG)
        commands = (
            ("simulate", *files, "-o", "json", "--record", str(recording)),
            ("explain", "default/solve-3", *files),
            ("replay", str(recording)),
        )
        return output_of("-c", EACH.format(commands), env=env, folder=tmp_path).replace(str(recording), "FILE")

    assert outputs(without_rooms, tmp_path / "without") == outputs(environment(), tmp_path / "with")


@pytest.mark.tool("kubectl")
def test_pods_of_a_cluster_are_scheduled_without_them(without_rooms: dict[str, str], tmp_path: Path) -> None:
    with started("fake", tmp_path) as server:
        command = (
            sys.executable,
            "-m",
            "kframework",
            "run",
            "--kubeconfig",
            str(server.kubeconfig),
            "--secure-port",
            "0",
        )
        with Running("run", *command, environment=without_rooms):
            kubectl = Kubectl(server.kubeconfig)
            kubectl("apply", "-f", "-", stdin=ONE_POD)
            until(lambda: kubectl("get", "pod", "web", "-o", "jsonpath={.spec.nodeName}") == "only")


def test_tutorial_plugin_passes_its_tests_without_them(without_rooms: dict[str, str], tmp_path: Path) -> None:
    for block in blocks((ROOT / "docs/tutorial/first-plugin.md").read_text()):
        if block.file is not None:
            (tmp_path / block.file).parent.mkdir(exist_ok=True)
            (tmp_path / block.file).write_text(block.text)
    env = without_rooms | {"PYTHONPATH": os.pathsep.join([without_rooms["PYTHONPATH"], str(tmp_path)])}
    assert "8 passed" in output_of("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", env=env, folder=tmp_path)
