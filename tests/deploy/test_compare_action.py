"""The GitHub Action that compares configurations in pull requests: its steps are run as a runner runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.examples.clean_environment import ROOT

FOLDER = ROOT / "deploy" / "compare-action"
ACTION: dict[str, Any] = yaml.safe_load((FOLDER / "action.yaml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]

KIND = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PACKED = f"""{KIND}profiles:
- pluginConfig: [{{name: NodeResourcesFit, args: {{scoringStrategy: {{type: MostAllocated}}}}}}]
"""
CONFIG = "schedulers/main.yaml"
#: Where the program of GitHub is expected; it writes down what it is called with.
GH = """#!/bin/sh
echo "$*" > "$GH_CALLS"
while [ "$1" != --body-file ]; do shift; done
cat "$2" >> "$GH_CALLS"
"""


class Job(NamedTuple):
    """What a job came to: its exit code, its log, its summary, and the call of gh."""

    code: int
    log: str
    summary: str
    comment: str


class Runner:
    """A runner of composite actions, in the clone of a repository with a pull request."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clone = folder / "clone"
        self._git(folder, "init", "--quiet", "--initial-branch", "main", "origin")
        self.commit(folder / "origin", {CONFIG: KIND, "cluster.yaml": cluster()})
        self._git(folder, "clone", "--quiet", "origin", "clone")
        (folder / "bin").mkdir()
        (folder / "bin" / "gh").write_text(GH)
        (folder / "bin" / "gh").chmod(0o755)

    def commit(self, repository: Path, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (repository / name).parent.mkdir(parents=True, exist_ok=True)
            (repository / name).write_text(text)
        self._git(repository, "add", "--all")
        person = ("-c", "user.name=A", "-c", "user.email=a@example.com")
        self._git(repository, *person, "commit", "--quiet", "--message", "change")

    def run(self, **given: str) -> Job:
        """Run all steps with these inputs, and stop at the first that fails."""
        inputs = {name: each.get("default", "") for name, each in ACTION["inputs"].items()}
        inputs |= {name.replace("_", "-"): value for name, value in given.items()}
        assert inputs.keys() == ACTION["inputs"].keys()
        context = {
            **{f"inputs.{name}": str(value) for name, value in inputs.items()},
            "github.base_ref": "main",
            "github.event.pull_request.number": "7",
            "github.token": "secret",
        }
        code, log = 0, ""
        for step in STEPS:
            done = self._step(step, context)
            code, log = done.returncode, log + done.stdout
            if code:
                break
            for line in self._read(f"output-{step.get('id')}").splitlines():
                name, _, value = line.partition("=")
                context[f"steps.{step['id']}.outputs.{name}"] = value
        return Job(code, log, self._read("summary"), self._read("gh-calls"))

    def _step(self, step: dict[str, Any], context: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        assert step["shell"] == "bash"
        environment = {
            **os.environ,
            "PATH": f"{self.folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RUNNER_TEMP": str(self.folder),
            "GITHUB_ACTION_PATH": str(FOLDER),
            "GITHUB_PATH": str(self.folder / "path"),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary"),
            "GITHUB_OUTPUT": str(self.folder / f"output-{step.get('id')}"),
            "GH_CALLS": str(self.folder / "gh-calls"),
            **{name: self._evaluate(str(value), context) for name, value in step.get("env", {}).items()},
        }
        # An expression in a script could run what the title of a pull request says.
        assert "${{" not in step["run"]
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        return subprocess.run(
            command,
            cwd=self.clone,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def _evaluate(self, text: str, context: Mapping[str, str]) -> str:
        while (found := re.search(r"\$\{\{ ([\w.-]+) \}\}", text)) is not None:
            text = text.replace(found[0], context[found[1]])
        return text

    def _read(self, name: str) -> str:
        file = self.folder / name
        return file.read_text() if file.exists() else ""

    def _git(self, folder: Path, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=folder, check=True)


def cluster() -> str:
    status = "status: {allocatable: {memory: 8Gi, pods: 9, cpu: "
    nodes = [
        f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\n{status}{cpu}}}}}"
        for name, cpu in (("large", 16), ("small", 4))
    ]
    container = "{name: c, resources: {requests: {cpu: 1}}}"
    pod = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec: {{containers: [{container}]}}"
    return "\n---\n".join([*nodes, pod])


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


pytestmark = pytest.mark.tool("git")


@pytest.mark.slow
def test_change_is_compared_with_the_base_branch_and_commented(runner: Runner) -> None:
    runner.commit(runner.clone, {CONFIG: PACKED})
    job = runner.run(config=CONFIG, filenames="cluster.yaml\n", fail_over="1%")
    assert job.code == 1 and "error: 1 of 1 pods move, which is more than 1%" in job.log
    assert job.summary.startswith("### This change moves 1 of 1 pod\n")
    call, _, body = job.comment.partition("\n")
    assert call.startswith("pr comment 7 --edit-last --create-if-none --body-file ")
    assert body == job.summary and f"main/{CONFIG}" in body


@pytest.mark.slow
def test_change_of_a_recorded_scheduler_passes_below_the_limit(runner: Runner) -> None:
    recorded = ["kframework", "simulate", "-f", "cluster.yaml", "--record", "run.rec", "-o", "name"]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    subprocess.run(recorded, cwd=runner.clone, env=environment, check=True, capture_output=True)
    runner.commit(runner.clone, {CONFIG: PACKED, "new.yaml": PACKED})
    job = runner.run(config=CONFIG, recording="run.rec", fail_over="100%", comment="false")
    assert (job.code, job.comment) == (0, "") and "This change moves 1 of 1 pod" in job.summary
    new = runner.run(config="new.yaml", recording="run.rec")
    assert new.code == 0 and "::notice::new.yaml is not in main" in new.log
    assert "compared with the recorded configuration" in new.comment


@pytest.mark.slow
def test_faulty_configuration_fails_without_a_comment(runner: Runner) -> None:
    runner.commit(runner.clone, {CONFIG: PACKED.replace("MostAllocated", "Most")})
    job = runner.run(config=CONFIG, filenames="cluster.yaml")
    assert (job.code, job.comment, job.summary) == (1, "", "")
    assert f"error: {CONFIG}:4: " in job.log and "scoringStrategy.type: Unsupported value" in job.log


def test_installation_takes_the_repository_of_the_action(tmp_path: Path) -> None:
    script = STEPS[0]["run"]
    assert (FOLDER / "../..").resolve() == ROOT and "$GITHUB_ACTION_PATH/../.." in script
    for name in ("python3", "pip"):  # neither may be called where kframework is there
        (tmp_path / name).write_text("#!/bin/sh\nexit 9\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin", "RUNNER_TEMP": str(tmp_path)}
    assert subprocess.run(["bash", "-ec", script], env=environment, check=False, capture_output=True).returncode == 0
    without = {**environment, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert subprocess.run(["bash", "-ec", script], env=without, check=False, capture_output=True).returncode == 9
