"""`kframework.run`: what the command does, from Python."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import kframework
from tests.extension_points.scripted import plugin

MINE = plugin("Mine", filter=kframework.unschedulable("node(s) were not mine"))
DOCUMENT = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Mine"}]}}}],
}

PROGRAM = """
import kframework

class Mine(kframework.Plugin):
    name = "Mine"

    @kframework.hookimpl
    def filter(self, state, pod, node):
        return kframework.unschedulable("node(s) were not mine")

kframework.run({config}, plugins=[Mine], embedded=True, dry_run=True, filenames=["cluster.yaml"], secure_port=0)
print("ended")
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {pods: '9'}}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: pod}\nspec: {containers: [{name: c}]}\n"
    )
    return file


@pytest.mark.slow
@pytest.mark.parametrize("config", ["None", repr(DOCUMENT)])
def test_program_schedules_until_a_signal(cluster: Path, config: str) -> None:
    command = [sys.executable, "-c", PROGRAM.format(config=config)]
    with subprocess.Popen(
        command, cwd=cluster.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        lines = [program.stdout.readline() for _ in range(3)]  # KUBECONFIG, the header and what a dry run says
        program.send_signal(signal.SIGTERM)
        out, err = program.communicate(timeout=30)
    assert "node(s) were not mine" in lines[-1]
    assert (program.returncode, out) == (0, "ended\n")
    assert err.splitlines()[-1] == "notice: Requested to terminate, exiting"


def test_options_of_the_embedded_api_require_it() -> None:
    with pytest.raises(ValueError, match="do not go with embedded=True"):
        kframework.run(embedded=True, kubeconfig="production")
    with pytest.raises(ValueError, match="write_kubeconfig go with embedded=True"):
        kframework.run(filenames=["cluster.yaml"])
