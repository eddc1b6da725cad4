"""`kframework fit`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

CLUSTER = """
apiVersion: v1
kind: NodeList
items:
- metadata: {name: a}
  status: {capacity: {cpu: "4", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Pod
metadata: {name: low}
spec: {nodeName: a, containers: [{name: c, resources: {requests: {cpu: "3"}}}]}
"""
SMALL = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
SMALL += "spec: {containers: [{name: c, resources: {requests: {cpu: 500m}}}]}\n"
LARGE = SMALL.replace("500m", '"3"')


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    file = tmp_path / "web.yaml"
    file.write_text(SMALL)
    return file


def test_a_workload_that_fits(run: Command, cluster: Path, workload: Path) -> None:
    result = run("fit", "-f", cluster, "-f", workload, "--copies", "max")
    assert (result.code, result.errors) == (0, [])
    assert result.out == (
        "pod/web fits: 1 of 1 pod found a node.\n\n"
        "  POD          NODE\n  default/web  a\n\n"
        "COPIES: 2 fit, this one included. The next one does not, unless it evicts pods:\n"
        "  0/1 nodes are available: 1 Insufficient cpu.\n"
    )


def test_a_workload_that_does_not_fit(run: Command, cluster: Path, workload: Path) -> None:
    workload.write_text(LARGE)
    result = run("fit", "-f", cluster, "-f", workload)
    assert result.code == 1
    assert "pod/web does not fit: 0 of 1 pod found a node.\n" in result.out
    assert "WHY NOT default/web:\n  0/1 nodes are available: 1 Insufficient cpu." in result.out
    assert "WHAT WOULD HELP, each by itself:\n  - free 2 cpu on a (e.g. delete default/low)\n" in result.out


def test_json_has_everything(run: Command, cluster: Path, workload: Path) -> None:
    answer = json.loads(run("fit", "-f", cluster, "-f", workload, "-o", "json").out)
    assert (answer["fits"], answer["pods"]) == (True, [{"pod": "default/web", "node": "a", "message": ""}])


def test_a_workload_from_stdin_and_a_cluster_of_a_folder(run: Command, tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    (folder / "cluster.yaml").write_text(CLUSTER)
    assert run("fit", "-f", folder, "-f", "-", stdin=SMALL).code == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["-f", "web.yaml"], "name the cluster with another -f before it, or with --kubeconfig"),
        (["-f", "a.yaml", "-f", "web.yaml", "--kubeconfig", "k"], "give either files or a kubeconfig"),
        (["-f", "a.yaml", "-f", "web.yaml", "--context", "c"], "only with --kubeconfig"),
        (["-f", "web.yaml", "--kubeconfig", "k", "--devices", "d.yaml"], "the cluster has its own"),
        (["-f", "a.yaml", "-f", "web.yaml", "--engine", "none"], "no installed distribution offers 'none'"),
        (["-f", "a.yaml", "-f", "web.yaml", "--engine", "batch", "--plugin", "p:P"], "has its own plugins"),
        (["-f", "a.yaml", "-f", "web.yaml", "--copies", "0"], "write a number from 1 to 20000, or max"),
    ],
)
def test_wrong_usage_is_one_line(run: Command, arguments: list[str], problem: str) -> None:
    result = run("fit", *arguments)
    assert result.code == 2 and problem in result.errors[0]


def test_a_running_scheduler_is_asked_with_its_own_classes(
    run: Command, workload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    def answer(url: str, authority: str | None, path: str, body: bytes) -> bytes:
        asked.append(body)
        return b'{"workload": ["pod/web"], "fits": true, "pods": [{"pod": "default/web", "node": "a"}]}'

    monkeypatch.setattr("kframework.cli.fit.ask_scheduler", answer)
    workload.write_text(
        f"{SMALL}---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: high}}\n"
    )
    result = run("fit", "--scheduler", "http://127.0.0.1:1", "-f", workload)
    assert result.code == 0 and "default/web  a" in result.out
    assert result.errors == ["notice: ignored, as the scheduler knows its own: PriorityClass high"]
    assert json.loads(asked[0])["pods"][0]["metadata"]["name"] == "web"
