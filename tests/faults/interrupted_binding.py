"""Binding cycles, struck at a point of one's choice: before a request is done, after it, or before a watch tells."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from random import Random

import anyio

from kframework.client.kube_cluster import KubeCluster
from kframework.client.transport import Request, Response, Stream, Transport
from kframework.clock import LoopClock, run_virtual
from kframework.errors import ClusterError
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kubelet import Kubelet
from kframework.in_memory.volume_controller import VolumeController
from kframework.objects import ApiObject, Pod
from kframework.scheduler.scheduler import Scheduler
from tests.faults.invariants import ApiChecker, EngineChecker, leftovers, state_differences
from tests.faults.pod_run import PLUGINS, configuration

__all__ = ["Interrupt", "InterruptedBinding", "Silence"]

#: How long points are counted, and how long a run takes, in seconds: longer than any backoff, and than
#: the five minutes after which a pod that no event wakes is tried again.
COUNTING, DURATION = 20.0, 400.0

#: How long watches are silent after a Silence, in seconds.
SILENCE = 15.0

#: What happens to the cluster; a ClusterError that it raises befalls the request that is under way.
Interrupt = Callable[[MemoryCluster], None]


class Silence(ClusterError):
    """Raised by a strike after which the request gets no answer, and the watches tell nothing for some seconds."""

    def __init__(self) -> None:
        super().__init__("no answer", status=0, retryable=True)


class InterruptingTransport:
    """A transport that counts points from `begin` on, and strikes at one of them, the first being 1."""

    def __init__(self, inner: Transport, at: int, strike: Callable[[], None]) -> None:
        self._inner = inner
        self._at = at
        self._strike = strike
        self._began = math.inf
        self._passed = 0
        self._silent_until = 0.0

    def begin(self) -> None:
        """Count from now on."""
        self._began = min(self._began, asyncio.get_running_loop().time())

    @property
    def reached(self) -> bool:
        """Whether the point of the strike was reached."""
        return self._passed >= self._at

    async def send(self, request: Request) -> Response:
        """Send a request, with a point before and a point after it."""
        await self._pass()
        response = await self._inner.send(request)
        await self._pass()
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """Follow a stream, with a point before every line."""
        async with self._inner.stream(request) as stream:
            yield Stream(stream.status, self._lines(stream.lines), stream.headers)

    async def _lines(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            await self._pass()
            await asyncio.sleep(max(self._silent_until - asyncio.get_running_loop().time(), 0.0))
            yield line

    async def _pass(self) -> None:
        await asyncio.sleep(0.001)
        if self._began <= asyncio.get_running_loop().time() < self._began + COUNTING:
            self._passed += 1
            if self._passed == self._at:
                try:
                    self._strike()
                except Silence:
                    self._silent_until = asyncio.get_running_loop().time() + SILENCE
                    raise

    async def close(self) -> None:
        """Give up all connections."""
        await self._inner.close()


class InterruptedBinding:
    """A cluster whose first binding cycle is struck at a point; `reached` tells whether there was such a point."""

    def __init__(self, objects: Collection[ApiObject], at: int, strike: Interrupt) -> None:
        self._objects = objects
        self._at = at
        self._strike = strike
        self.reached = False

    def run(self) -> list[str]:
        """Run until all is quiet, and return what did not hold."""
        return run_virtual(self._main)

    async def _main(self) -> list[str]:
        clock = LoopClock(asyncio.get_running_loop())
        store = MemoryCluster(clock, self._objects)
        points = InterruptingTransport(
            InProcessTransport(ApiServer(store, clock)), self._at, lambda: self._strike(store)
        )
        client = KubeCluster(points, clock, random=Random(0))
        scheduler = Scheduler(configuration(0), client, clock, registry=PLUGINS, slice=0.0)
        _when_launched(scheduler, points.begin)
        api_books, books = ApiChecker(store), EngineChecker(scheduler.engine)
        async with anyio.create_task_group() as controllers:
            controllers.start_soon(Kubelet(store, clock).run)
            controllers.start_soon(VolumeController(store).run)
            async with anyio.create_task_group() as scheduling:
                scheduling.start_soon(scheduler.run)
                await asyncio.sleep(DURATION)
                problems = [*leftovers(scheduler, books), *await state_differences(scheduler, client, books)]
                scheduler.stop()
            controllers.cancel_scope.cancel()
        self.reached = points.reached
        pending = [f"{pod.metadata.name} is bound to no node" for pod in store.objects(Pod) if not pod.spec.node_name]
        return [*api_books.problems, *books.problems, *problems, *pending]


def _when_launched(scheduler: Scheduler, call: Callable[[], None]) -> None:
    """Call back when the first binding cycle begins."""
    bind = scheduler.bind

    def called_back(reservation: object) -> None:
        call()
        bind(reservation)  # type: ignore[arg-type]  # it is what it was

    scheduler.bind = called_back  # type: ignore[method-assign]  # to see when
