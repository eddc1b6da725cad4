"""A real API server for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.api import Api
from tests.end_to_end.servers import RealServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RealServer]:
    """Start kube-apiserver and etcd."""
    with RealServer.started(tmp_path) as server:
        yield server


@pytest.fixture
def api(server: RealServer) -> Api:
    """Ask the server as its administrator."""
    return Api(server.kubeconfig)
