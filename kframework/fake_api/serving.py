"""A cluster in this process, for whoever has none at hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from kframework.clock import Clock, SystemClock
from kframework.fake_api.local import LocalCluster
from kframework.fake_api.published import Publication, published
from kframework.fake_api.server import ApiServer
from kframework.fake_api.state_file import StateFile
from kframework.objects.manifest import Manifest
from kframework.process.signals import signals


@asynccontextmanager
async def running(
    manifest: Manifest,
    clock: Clock,
    publication: Publication,
    say_where: Callable[[Path], None],
    controllers: Sequence[str] = ("*",),
    state: StateFile | None = None,
) -> AsyncIterator[ApiServer]:
    """Keep a cluster of these files going meanwhile, and say where its kubeconfig is; ConfigError if it cannot be."""
    local = LocalCluster(clock, manifest, publication.authorize, controllers, state)
    async with published(local.server, publication) as kubeconfig, anyio.create_task_group() as tasks:
        tasks.start_soon(local.run)
        say_where(kubeconfig)
        yield local.server
        tasks.cancel_scope.cancel()


async def serve(
    manifest: Manifest,
    publication: Publication,
    say_where: Callable[[Path], None],
    controllers: Sequence[str] = ("*",),
    state: StateFile | None = None,
) -> None:
    """Keep a cluster going until SIGTERM or SIGINT."""
    over = asyncio.Event()
    with signals(over.set):
        async with running(manifest, SystemClock(), publication, say_where, controllers, state):
            await over.wait()
