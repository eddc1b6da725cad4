"""Here every remembered or incremental answer is compared with that of the slow search."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def answers_are_verified() -> Iterator[None]:
    """Let every search ask the plugins again, uncached, and compare."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KFRAMEWORK_VERIFY", "1")
        yield
