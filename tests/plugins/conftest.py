"""A scheduler's handle as far as the built-in plugins need one."""

from __future__ import annotations

from typing import cast

import pytest

from kframework import ClusterError, Handle, PendingPod


class FakeApi:
    """Notes what is bound, or refuses with the error it is given."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, str]] = []
        self.refusal: ClusterError | None = None

    async def bind(self, pod: PendingPod, node_name: str) -> None:
        """Note the binding."""
        if self.refusal is not None:
            raise self.refusal
        self.bound.append((pod.uid, node_name))


class FakeHandle:
    """Holds nothing but the API."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api


@pytest.fixture
def api() -> FakeApi:
    """The API behind the handle."""
    return FakeApi()


@pytest.fixture
def handle(api: FakeApi) -> Handle:
    """A handle with an API."""
    return cast("Handle", FakeHandle(api))
