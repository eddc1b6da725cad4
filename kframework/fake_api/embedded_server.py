"""The fake API server in the scheduler's process, without a socket, so that virtual time works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from kframework.client.cluster import Cluster
from kframework.client.kube_cluster import KubeCluster
from kframework.client.missing_rights import MissingRights
from kframework.client.transport import Request, Response, Stream, Transport, WriteFence
from kframework.clock import Clock
from kframework.fake_api.http_server import ServerOptions, run_cluster
from kframework.fake_api.server import ApiServer
from kframework.objects.manifest import Manifest
from kframework.objects.openapi.definitions import read_document
from kframework.process.servers import Connect, Server, per_process_random

# At import, because it would block the loop, and virtual time cannot account for a thread.
read_document()


class InProcessTransport(Transport):
    """Carries requests without a network; an answer takes one turn of the loop."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def send(self, request: Request) -> Response:
        await asyncio.sleep(0)
        return await self._server.answer(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        await asyncio.sleep(0)
        async with self._server.follow(request) as stream:
            yield stream

    async def close(self) -> None:
        """Do nothing: there are no connections."""


class EmbeddedServer(Server):
    """A fake API server in this process; `on_kubeconfig` receives the kubeconfig for other clients.

    `controllers` selects controllers as kube-controller-manager's flag does.
    """

    elect: Connect | None = None

    def __init__(
        self,
        manifest: Manifest,
        clock: Clock,
        options: ServerOptions,
        on_kubeconfig: Callable[[Path], None],
        controllers: Sequence[str] = ("*",),
    ) -> None:
        self._clock = clock
        self._running = partial(run_cluster, manifest, clock, options, on_kubeconfig, controllers)
        self.fence: WriteFence = WriteFence()
        self.rights: MissingRights = MissingRights(clock)

    @asynccontextmanager
    async def schedule(self) -> AsyncIterator[Cluster]:
        async with self._running() as local:
            yield KubeCluster(InProcessTransport(local.server), self._clock, random=per_process_random())
