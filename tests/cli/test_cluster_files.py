"""Cluster files are read, and what is passed over is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from kframework.cli.cluster_files import read_cluster
from kframework.cli.logs import logging_to_stderr
from kframework.objects import Node


def test_what_is_passed_over_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.yaml"
    settings = "kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration"
    kinds = ["v1, kind: Node", "apps/v1, kind: Deployment", settings]
    file.write_text("\n---\n".join(f"{{apiVersion: {kind}, metadata: {{name: n}}}}" for kind in kinds))
    with logging_to_stderr():
        assert [type(each) for each in read_cluster([str(file)]).objects] == [Node]
    assert capsys.readouterr().err.splitlines() == [
        (
            "notice: passed over, as no scheduler reads them: 1 Deployment (apps/v1), "
            "1 KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1)"
        ),
        "notice: a KubeSchedulerConfiguration is given with --config",
    ]
    assert read_cluster([]).objects == []
