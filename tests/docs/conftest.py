"""The environments that the documents are tried in: one each, as some of them install what they wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.clean_environment import CleanEnvironment, build_wheels, make_environment


@pytest.fixture
def environment(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> CleanEnvironment:
    """An environment with kframework and the example installed from wheels."""
    return make_environment(tmp_path / ".venv", build_wheels(tmp_path_factory.getbasetemp() / "wheels"))
