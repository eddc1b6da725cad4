"""What all tests of actions have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _sessions_run_to_their_end(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail where an action has raised: a session that ends early looks like one that found nothing."""
    yield
    assert "ended early" not in caplog.text
