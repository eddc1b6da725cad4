"""DefaultBinder: bind the pod through the API."""

from __future__ import annotations

from kframework import ClusterError, CycleState, PendingPod, Plugin, Status, error, hookimpl


class DefaultBinder(Plugin):
    """Bind a pod by creating its binding; a refusal fails the attempt with the API's own words."""

    name = "DefaultBinder"

    @hookimpl
    async def bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        try:
            await self.handle.api.bind(pod, node_name)
        except ClusterError as refusal:
            return error(str(refusal))
        return None
