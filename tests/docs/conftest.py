"""The environments that the documents are tried in: one each, as some of them install what they wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.clean_environment import CleanEnvironment, installed_environment


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> CleanEnvironment:
    """An environment with kframework and all distributions beside it installed from wheels."""
    return installed_environment(tmp_path_factory)


@pytest.fixture
def environment(installed: CleanEnvironment, tmp_path: Path) -> CleanEnvironment:
    """An environment that has the same, and may be changed."""
    return installed.layered(tmp_path / ".venv")
