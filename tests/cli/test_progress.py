"""How far a simulation has come."""

from __future__ import annotations

import sys

import pytest

from kframework.cli.outcomes import progress
from kframework.simulation.records import Progress


def shown(capsys: pytest.CaptureFixture[str], *, alone: bool = True) -> str:
    with progress(alone=alone) as on_progress:
        on_progress(Progress(1, 3))
    return capsys.readouterr().err


def test_a_terminal_shows_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert "Pods bound" in shown(capsys)


@pytest.mark.parametrize(
    ("terminal", "environment", "alone"), [(False, "xterm", True), (True, "dumb", True), (True, "xterm", False)]
)
def test_nobody_else_does(
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
