"""A whole cluster in this process: memory, kubelets, controllers, and the API server in front of them."""

from __future__ import annotations

from collections.abc import Iterable

import anyio

from kframework.apiserver.reports import reported
from kframework.apiserver.server import ApiServer
from kframework.clock import Clock
from kframework.cluster.disruption_controller import DisruptionController
from kframework.cluster.kubelet import Kubelet
from kframework.cluster.memory import MemoryCluster
from kframework.cluster.volume_controller import VolumeController
from kframework.objects.meta import ApiObject

__all__ = ["LocalCluster"]


class LocalCluster:
    """What a fake API needs to look alive: pods run and end, claims get volumes, budgets count; `run` does it."""

    def __init__(self, clock: Clock, objects: Iterable[ApiObject] = ()) -> None:
        self.memory: MemoryCluster = MemoryCluster(clock, objects)
        self.server: ApiServer = ApiServer(self.memory, clock, reported)
        self._kubelet = Kubelet(self.memory, clock)
        self._volumes = VolumeController(self.memory)
        self._disruptions = DisruptionController(self.memory)

    async def run(self) -> None:
        """Run pods, make volumes and reckon budgets until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._kubelet.run)
            tasks.start_soon(self._volumes.run)
            tasks.start_soon(self._disruptions.run)
