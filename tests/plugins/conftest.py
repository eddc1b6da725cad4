"""A scheduler's handle as far as the built-in plugins need one."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import cast

import pytest

from kframework import ClusterError, Handle, PendingPod
from kframework.framework.handle import COMPLETED


class FakeApi:
    """Notes what is bound, or refuses with the error it is given."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, str]] = []
        self.refusal: ClusterError | None = None
        self.answers_at_once = False

    def bind(self, pod: PendingPod, node_name: str) -> Awaitable[None]:
        """Note the binding."""
        if self.answers_at_once:
            self.bound.append((pod.uid, node_name))
            return COMPLETED
        return self._bind(pod, node_name)

    async def _bind(self, pod: PendingPod, node_name: str) -> None:
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
