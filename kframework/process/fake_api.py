"""A cluster in this process, for whoever has none at hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio

from kframework.apiserver.in_process import InProcess
from kframework.apiserver.local import LocalCluster
from kframework.apiserver.published import Publication, published
from kframework.apiserver.server import ApiServer
from kframework.clock import Clock, SystemClock
from kframework.cluster import Cluster
from kframework.cluster.kube_cluster import KubeCluster
from kframework.cluster.missing_rights import MissingRights
from kframework.cluster.write_fence import WriteFence
from kframework.objects.manifest import Manifest
from kframework.process.process import signals
from kframework.process.servers import Connect, Server, chance


@asynccontextmanager
async def running(
    manifest: Manifest, clock: Clock, publication: Publication, say_where: Callable[[Path], None]
) -> AsyncIterator[ApiServer]:
    """Keep a cluster of these files going meanwhile, and say where its kubeconfig is; ConfigError if it cannot be."""
    local = LocalCluster(clock, manifest, publication.authorize)
    async with published(local.server, publication) as kubeconfig, anyio.create_task_group() as tasks:
        tasks.start_soon(local.run)
        say_where(kubeconfig)
        yield local.server
        tasks.cancel_scope.cancel()


class EmbeddedServer(Server):
    """A fake API server in this process; `say_where` is told of the kubeconfig by which others reach it too."""

    elect: Connect | None = None

    def __init__(
        self, manifest: Manifest, clock: Clock, publication: Publication, say_where: Callable[[Path], None]
    ) -> None:
        self._clock = clock
        self._running = partial(running, manifest, clock, publication, say_where)
        self.fence: WriteFence = WriteFence()
        self.rights: MissingRights = MissingRights(clock)

    @asynccontextmanager
    async def schedule(self) -> AsyncIterator[Cluster]:
        async with self._running() as server:
            yield KubeCluster(InProcess(server), self._clock, random=chance())


async def serve(manifest: Manifest, publication: Publication, say_where: Callable[[Path], None]) -> None:
    """Keep a cluster going until SIGTERM or SIGINT."""
    over = asyncio.Event()
    with signals(over.set):
        async with running(manifest, SystemClock(), publication, say_where):
            await over.wait()
