"""The environment that the example is tested in, made once per session."""

from __future__ import annotations

import pytest

from tests.examples.clean_environment import CleanEnvironment, build_wheels, make_environment


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> CleanEnvironment:
    """An environment with kframework and the example installed from wheels."""
    base = tmp_path_factory.getbasetemp()
    return make_environment(base / "environment", build_wheels(base / "wheels"))
