"""A scheduler whose metrics are looked at, on a cluster in memory and on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import anyio

from kframework.clock import LoopClock, run_virtual
from kframework.config.configuration import Configuration
from kframework.config.load import default_configuration
from kframework.core.cycle.records import Binding, Decision
from kframework.core.runtime.registry import Registry
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject
from kframework.observe.metrics.metrics import Metrics
from kframework.observe.metrics.series import Series
from kframework.scheduler.scheduler import Scheduler
from tests.observe.metrics.exposition import count_of, sum_of, values

__all__ = ["Rig", "ran"]


class Rig:
    """The scheduler, its metrics, and all that it decided."""

    def __init__(
        self,
        objects: Iterable[ApiObject],
        *,
        configuration: Configuration | None = None,
        registry: Registry | None = None,
    ) -> None:
        clock = LoopClock(asyncio.get_running_loop())
        self.cluster = MemoryCluster(clock, objects)
        self.metrics = Metrics()
        self.decisions: list[Decision] = []
        self.bindings: list[Binding] = []
        self.scheduler = Scheduler(
            configuration or default_configuration(),
            self.cluster,
            clock,
            registry=registry,
            observers=[self, self.metrics.attempts],
            slice=0.0,
            timed_share=1.0,
        )
        self.series: tuple[Series, ...] = self.metrics.attach(self.scheduler.engine)

    def on_decision(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def on_binding(self, binding: Binding) -> None:
        self.bindings.append(binding)

    async def settle(self) -> None:
        """Let everything happen that is due within some seconds of virtual time: a pod's first rest ends."""
        await asyncio.sleep(20)

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        return values(self.series, name)

    def count_of(self, name: str) -> dict[tuple[str, ...], float]:
        return count_of(self.series, name)

    def sum_of(self, name: str) -> dict[tuple[str, ...], float]:
        return sum_of(self.series, name)


async def nothing(rig: Rig) -> None:
    """Do no more."""


def ran(
    *objects: ApiObject,
    then: Callable[[Rig], Awaitable[None]] = nothing,
    configuration: Configuration | None = None,
    registry: Registry | None = None,
) -> Rig:
    """Schedule until nothing is left to do, then go on as `then` says while the scheduler runs."""

    async def main() -> Rig:
        rig = Rig(objects, configuration=configuration, registry=registry)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(rig.scheduler.run)
            await rig.settle()
            await then(rig)
            tasks.cancel_scope.cancel()
        return rig

    return run_virtual(main)
