"""`kframework explain` of jobs: from cluster files, from a recording, and with the account as data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kframework.cli import main

JOBS = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "2", memory: 4Gi, pods: "110"}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train, namespace: default}
spec:
  minAvailable: 4
  tasks:
  - name: worker
    replicas: 4
    template: {spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}
"""


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    file = tmp_path / "jobs.yaml"
    # Without overcommit its pods are made, though there is no room for all of them.
    (tmp_path / "plain.conf").write_text("actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n")
    file.write_text(JOBS)
    return file


def kframework(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[object, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit:
        main(list(map(str, arguments)))
    out, err = capsys.readouterr()
    return exit.value.code, out, err


def test_job_from_files_is_explained(capsys: pytest.CaptureFixture[str], jobs: Path) -> None:
    asked = ("explain", "train", "-f", jobs, "--engine", "batch", "--config", jobs.with_name("plain.conf"))
    code, out, err = kframework(capsys, *asked)
    assert code == 0, err
    assert "Job:       Job default/train\n" in out
    assert "  - allocate: discarded; 2 of the 4 tasks that it needs had a place\n" in out
    assert "  - set minAvailable to 2, now 4\n" in out
    data = json.loads(kframework(capsys, *asked, "-o", "json")[1])["explanation"]
    assert [turn["outcome"] for turn in data["turns"]] == ["discarded"]


def test_job_from_a_recording_is_explained(capsys: pytest.CaptureFixture[str], jobs: Path, tmp_path: Path) -> None:
    file, config = tmp_path / "run.rec", jobs.with_name("plain.conf")
    kframework(capsys, "batch", "simulate", "-f", jobs, "--config", config, "--record", file)
    code, out, err = kframework(capsys, "explain", "train-worker-0", "--recording", file)
    assert code == 0, err
    assert out.startswith("Pod:       default/train-worker-0\n")
    code, _, err = kframework(capsys, "explain", "nobody", "--recording", file)
    assert (code, err) == (1, "error: no job and no pod default/nobody belongs to this scheduler\n")
    code, _, err = kframework(capsys, "explain", "train", "--recording", file, "--attempt", 1)
    assert code == 2 and "only for recordings of the pod engine; this one is of batch" in err


def test_report_explains_jobs(capsys: pytest.CaptureFixture[str], jobs: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    kframework(capsys, "batch", "simulate", "-f", jobs, "--config", jobs.with_name("plain.conf"), "--report", page)
    assert "set minAvailable to 2, now 4" in page.read_text()


def test_pod_beyond_the_minimum_without_room_has_its_reason_and_remedy(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file, config = tmp_path / "jobs.yaml", tmp_path / "plain.conf"
    file.write_text(JOBS.replace("minAvailable: 4", "minAvailable: 1").replace("replicas: 4", "replicas: 3"))
    config.write_text("actions: 'enqueue, allocate'\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n")
    asked = ("explain", "train-worker-2", "-f", file, "--engine", "batch", "--config", config)
    code, out, err = kframework(capsys, *asked)
    assert code == 0, err
    assert "default/train-worker-2: 0/1 nodes are available: 1 Insufficient cpu.\n" in out
    assert "  - add cpu 1, as tried on node n1\n" in out
    assert "next session" not in out
