"""A whole cluster in this process: memory, kubelets, volumes, and the API server in front of them."""

from __future__ import annotations

from collections.abc import Iterable

import anyio

from kframework.apiserver.server import ApiServer
from kframework.clock import Clock
from kframework.cluster.kubelet import Kubelet
from kframework.cluster.memory import MemoryCluster
from kframework.cluster.volume_controller import VolumeController
from kframework.objects.meta import ApiObject

__all__ = ["LocalCluster"]


class LocalCluster:
    """What a fake API needs to look alive: bound pods run and end, claims get volumes; `run` keeps it going."""

    def __init__(self, clock: Clock, objects: Iterable[ApiObject] = ()) -> None:
        self.memory: MemoryCluster = MemoryCluster(clock, objects)
        self.server: ApiServer = ApiServer(self.memory, clock)
        self._kubelet = Kubelet(self.memory, clock)
        self._volumes = VolumeController(self.memory)

    async def run(self) -> None:
        """Run pods and make volumes until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._kubelet.run)
            tasks.start_soon(self._volumes.run)
