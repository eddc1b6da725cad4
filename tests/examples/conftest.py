"""The environment that the example is tested in."""

from __future__ import annotations

import pytest

from tests.examples.clean_environment import CleanEnvironment, installed_environment


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> CleanEnvironment:
    """An environment with kframework and the example installed from wheels."""
    return installed_environment(tmp_path_factory)
