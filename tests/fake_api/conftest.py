"""The fake API server is tested on virtual time, but where there are sockets."""

from __future__ import annotations

import pytest

from kframework.clock import VirtualTimeLoop


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}
