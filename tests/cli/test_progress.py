"""How far a simulation has come."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kframework.cli.outcomes import progress
from kframework.simulation.records import Progress
from tests.cli.conftest import Command

CLUSTER = "{apiVersion: v1, kind: Node, metadata: {name: a}}"


def shown(capsys: pytest.CaptureFixture[str], *, alone: bool = True) -> str:
    with progress(alone=alone) as on_progress:
        on_progress(Progress(1, 3))
    return capsys.readouterr().err


def test_terminal_shows_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert "Pods bound" in shown(capsys)


@pytest.mark.parametrize(
    ("terminal", "environment", "alone"), [(False, "xterm", True), (True, "dumb", True), (True, "xterm", False)]
)
def test_progress_is_not_shown_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    terminal: bool,
    environment: str,
    alone: bool,
) -> None:
    monkeypatch.setenv("TERM", environment)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert shown(capsys, alone=alone) == ""


def test_terminal_shows_that_files_are_read(run: Command, cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert "Reading files" in run("simulate", "-f", cluster).err
    assert "Reading files" not in run("simulate", "-f", cluster, "-v", "2").err
