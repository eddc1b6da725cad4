"""One browser for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.observe.web.chromium import Browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser.running(tmp_path_factory.mktemp("chromium")) as running:
        yield running
