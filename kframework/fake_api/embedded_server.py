"""The fake API server that is scheduled on in the process of its scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from kframework.client.cluster import Cluster
from kframework.client.kube_cluster import KubeCluster
from kframework.client.missing_rights import MissingRights
from kframework.client.write_fence import WriteFence
from kframework.clock import Clock
from kframework.fake_api.in_process import InProcess
from kframework.fake_api.published import Publication
from kframework.fake_api.serving import running
from kframework.objects.manifest import Manifest
from kframework.process.servers import Connect, Server, chance


class EmbeddedServer(Server):
    """A fake API server in this process; `say_where` is told of the kubeconfig by which others reach it too.

    `controllers` names those that run, as kube-controller-manager's flag does.
    """

    elect: Connect | None = None

    def __init__(
        self,
        manifest: Manifest,
        clock: Clock,
        publication: Publication,
        say_where: Callable[[Path], None],
        controllers: Sequence[str] = ("*",),
    ) -> None:
        self._clock = clock
        self._running = partial(running, manifest, clock, publication, say_where, controllers)
        self.fence: WriteFence = WriteFence()
        self.rights: MissingRights = MissingRights(clock)

    @asynccontextmanager
    async def schedule(self) -> AsyncIterator[Cluster]:
        async with self._running() as server:
            yield KubeCluster(InProcess(server), self._clock, random=chance())
