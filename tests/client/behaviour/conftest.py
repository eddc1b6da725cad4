"""Every test of this folder runs on every way to a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module

import pytest

from kframework.client.reflector import ReconnectBackoff
from kframework.clock import VirtualTimeLoop
from tests.client.behaviour.ways import WAYS, Stage


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(ReconnectBackoff, "INITIAL", 0.01)
    if request.param == "http":
        import_module("kubernetes_asyncio.client")  # before a loop runs, which the import would hold up
    return str(request.param)


@pytest.fixture
def anyio_backend(way: str) -> object:
    """Run on virtual time where there is no network."""
    return "asyncio" if way == "http" else ("asyncio", {"loop_factory": VirtualTimeLoop})


@pytest.fixture
async def stage(way: str) -> AsyncIterator[Stage]:
    async with WAYS[way]() as stage:
        yield stage
