"""One scheduler on a faulty API, from its first request to its end: it crashes, is stopped, or loses its lease."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from random import Random
from typing import Generic, TypeVar

import anyio
import msgspec
from anyio.abc import TaskGroup

from kframework.client.flow_control import FlowControl
from kframework.client.kube_cluster import KubeCluster
from kframework.client.transport import FencedTransport, Transport, WriteFence
from kframework.clock import Clock
from kframework.config.configuration import Configuration
from kframework.config.models import ClientConnection
from kframework.core.cycle.records import AccountObserver, Binding, Decision, Observer
from kframework.core.engine import Engine
from kframework.core.runtime.registry import Registry
from kframework.observe.recording.writer import Recorder
from kframework.scheduler.extender import Extender
from kframework.scheduler.extender_http import HttpExtenderTransport
from kframework.scheduler.scheduler import EngineFactory, Scheduler
from kframework.values.status import Code

__all__ = ["SchedulerRun", "Termination"]

E = TypeVar("E", bound=Engine)

#: How long a scheduler that has lost its lease goes on at most, in seconds: it learns of nothing.
LEASE_LOSS_DELAY = 30.0

#: How long an event may be on its way, in seconds: it is tried twelve times.
EVENT_DELAY = 200.0


class Termination(StrEnum):
    """How the life of a scheduler ends before the world does."""

    CRASHED = "scheduler crashed"
    STOPPED = "scheduler stopped, and another configuration after it"
    DEPOSED = "scheduler without its lease beside another one"


class SchedulerRun(Observer, AccountObserver, Generic[E]):
    """A scheduler and its end; `counts` tells what of the kinds of trouble there was."""

    def __init__(
        self,
        configuration: Configuration,
        transport: Transport,
        clock: Clock,
        random: Random,
        *,
        registry: Registry,
        engine: EngineFactory[E],
        recorder: Recorder | None = None,
        extender: HttpExtenderTransport | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        #: The pods that were bound, by uid, and when, in seconds since 1970.
        self._bound: dict[str, float] = {}
        #: Until when all that it had to say must have been written.
        self._written_until = math.inf
        #: When the machine last stood still, and went on.
        self.jumped_at: float = -math.inf
        self.resumed_at: float = -math.inf
        self._random = random
        self._clock = clock
        self._fence = WriteFence()
        self._scope = anyio.CancelScope()
        self._ended = asyncio.Event()
        self._recorder = recorder
        controlled = FlowControl(FencedTransport(transport, self._fence), ClientConnection(qps=-1.0), clock)
        self.client = KubeCluster(controlled, clock, random=random, page=50)
        self.scheduler: Scheduler[E] = Scheduler(
            configuration,
            self.client,
            clock,
            registry=registry,
            observers=[self] if recorder is None else [self, recorder],
            slice=0.0,
            engine=engine,
            extender=lambda settings: Extender(settings, extender),  # type: ignore[arg-type]  # one, where any is asked
            fence=self._fence,
        )

    async def run(self) -> None:
        """Schedule until the end."""
        try:
            with self._scope:
                await self.scheduler.run()
        finally:
            if self._recorder is not None:
                self._recorder.close()
            self._ended.set()

    async def end(self, how: Termination, beside: TaskGroup) -> None:
        """End, or stop on request; a scheduler that lost the lease goes on for a while, and may write no more."""
        self.counts[str(how)] += 1
        now = self._clock.now()
        told_until = self.jumped_at if self.resumed_at == now else now  # it may end before it does anything more
        # An attempt that waits for an extender holds up what it has heard of bindings.
        told = self.scheduler.outbox.is_empty and self.scheduler.engine.pending_cycle is None
        self._written_until = told_until - (0.0 if told else EVENT_DELAY)
        if how is Termination.STOPPED:
            self.scheduler.stop()
            await self._ended.wait()
            return
        self._fence.close()
        if how is Termination.DEPOSED:
            beside.start_soon(self._notice)
        else:
            self._scope.cancel("the process is gone")
            await self._ended.wait()

    def pods_without_one_event(self, announced: Mapping[str, Collection[str]]) -> Iterator[str]:
        """List the pods that do not have exactly one Event about their binding."""
        for uid, at in self._bound.items():
            events = len(announced.get(uid, ()))
            if at < self._written_until and events != 1:
                yield f"{events} events say that {uid} was bound, which was at {at:.3f}"

    async def _notice(self) -> None:
        await asyncio.sleep(self._random.uniform(0.0, LEASE_LOSS_DELAY))
        self._scope.cancel("the lease was lost")

    def on_decision(self, decision: Decision) -> None:
        self.counts["attempts"] += 1
        self.counts["preemptions"] += bool(decision.victims)
        self.counts["pods nominated"] += bool(decision.nominated)
        self.counts["attempts that ended with an error"] += decision.code is Code.ERROR

    def on_binding(self, binding: Binding) -> None:
        self.counts["waits on Permit"] += binding.waited > 0.0
        if binding.code is Code.SUCCESS:
            self._bound[binding.uid] = binding.ended_at
        self.counts["binding cycles that failed"] += binding.code is not Code.SUCCESS

    def on_account(self, account: msgspec.Struct) -> None:
        self.counts["sessions"] += 1
