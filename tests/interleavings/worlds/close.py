"""A stop at any point: while plugins start, while pods are bound, wait or are written about, while a plugin closes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from functools import partial

from kframework import CycleState, PendingPod, Plugin, Wait, hookimpl
from kframework.objects import Pod
from kframework.testing import make_node, make_pod
from tests.interleavings.reserving_plugin import Reserving, unbalanced
from tests.interleavings.stage import DISORDER, Stage, this_loop

__all__ = ["close"]


class Connected(Reserving):
    """Connect to something outside, hear it, and hang on to it."""

    name = "Connected"

    def __init__(self, args: object, handle: object) -> None:
        super().__init__(args, handle)
        self.handle.source("heard", int, self._hear)

    async def start(self) -> None:
        self.handle.spawn(self._follow())
        await this_loop().come("its server", "Connected is connected")

    async def close(self) -> None:
        await this_loop().come("its server", "Connected has said goodbye")

    async def _hear(self) -> Mapping[str, int]:
        await this_loop().come("its data", "Connected hears its data", ("its data are refused", OSError("refused")))
        return {"one": 1}

    async def _follow(self) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(0)

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Wait | None:
        return Wait(600) if pod.name == "patient" else None

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        await this_loop().come(f"its server for {pod.name}", f"Connected has prepared {pod.name}")


class Streaming(Plugin):
    """Follow a stream that breaks now and then."""

    name = "Streaming"

    def __init__(self, args: object, handle: object) -> None:
        super().__init__(args, handle)  # type: ignore[arg-type]  # they are what a plugin gets
        self.handle.source("stream", int, self._stream)

    async def start(self) -> None:
        await asyncio.sleep(0)

    async def close(self) -> None:
        await asyncio.sleep(0)

    async def _stream(self) -> AsyncIterator[Mapping[str, int]]:
        for number in range(3):
            await this_loop().come("a stream", f"the stream tells {number}", ("the stream breaks", OSError("broken")))
            yield {"one": number}

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: object) -> None:
        return None


async def close() -> list[str]:
    """Stop a scheduler that has three pods: one is bound, one waits on Permit, one finds no room."""
    pods = make_pod("one", cpu=1), make_pod("patient", cpu=1), make_pod("large", cpu=5)
    stage = Stage([make_node("a", cpu=4), *pods], [Connected, Streaming], at_once=())
    loop, scheduler = stage.loop, stage.scheduler
    stage.act(("one is deleted", lambda: stage.store.remove(Pod, "one")), who="a user")
    loop.offer("init", ("SIGTERM", partial(loop.call_soon, scheduler.stop)), awaited=False)
    loop.call_later(DISORDER, partial(loop.call_soon, scheduler.stop))
    return [*await stage.run_until_stopped(), *unbalanced(stage)]
