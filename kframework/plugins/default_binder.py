"""DefaultBinder: bind the pod through the API."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import ClassVar

from kframework.errors import ClusterError
from kframework.framework.cycle_state import CycleState
from kframework.framework.handle import COMPLETED
from kframework.framework.plugin import Plugin, hookimpl
from kframework.state.pods import PendingPod
from kframework.values.status import Status, error


class DefaultBinder(Plugin):
    """Bind a pod by creating its binding; if that fails, the attempt fails with the API's message."""

    name = "DefaultBinder"
    binds_through_api: ClassVar[bool] = True
    #: Each request has its own limit, and a bind without an answer must be read back however long that takes.
    own_timeouts: ClassVar[frozenset[str]] = frozenset({"bind"})

    @hookimpl
    def bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Awaitable[Status | None] | None:
        binding = self.handle.api.bind(pod, node_name)
        return None if binding is COMPLETED else _status(binding)


async def _status(binding: Awaitable[None]) -> Status | None:
    try:
        await binding
    except ClusterError as refusal:
        return error(str(refusal))
    return None
