"""Whole commands: how they are started."""

from __future__ import annotations

import sys

import pytest

from benchmarks import whole_commands

pytestmark = pytest.mark.slow


def test_modules_are_compiled_once_in_any_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    asking = [sys.executable, "-c", "import sys; print(sys.dont_write_bytecode)"]
    monkeypatch.setattr(whole_commands, "_kframework", lambda *arguments: asking)
    with whole_commands._start_command("run") as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"False\n"
