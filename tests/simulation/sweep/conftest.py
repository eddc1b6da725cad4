"""Runs in the process of the tests."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True)
def uncollected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave garbage after a run: in a worker a collection takes 40 ms, in a process with many tests seconds."""
    monkeypatch.setattr(gc, "collect", lambda: 0)
