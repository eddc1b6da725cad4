"""`kframework batch compare`."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kframework.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "training.yaml"


def run(*arguments: object) -> object:
    with pytest.raises(SystemExit) as exit:
        main(["batch", "compare", *map(str, arguments)])
    return exit.value.code


def test_table_has_a_column_for_each_engine(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-f", EXAMPLE) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["POD", "ENGINE", "SESSIONS"]
    assert {"evictions", "CPU time", "fairness (Jain)"} <= {row[:33].strip() for row in rows}


def test_numbers_are_written_as_json_and_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("-f", EXAMPLE, "-o", "json", "--duration", "1h", "--picture", tmp_path / "both.svg") == 0
    numbers = json.loads(capsys.readouterr().out)
    assert [numbers[name]["completed"] for name in ("pod engine", "sessions")] == [2, 2]
    assert {"p50", "p99"} == numbers["sessions"]["gang_waiting"].keys()
    root = ElementTree.parse(tmp_path / "both.svg").getroot()
    assert len(root.findall("{http://www.w3.org/2000/svg}svg")) == 2


def test_pod_configuration_without_profile_for_the_jobs_is_rejected(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "pods.yaml"
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    assert run("-f", EXAMPLE, "--pod-config", config) == 2
    assert "the schedulerName of the jobs, 'volcano'" in capsys.readouterr().err
