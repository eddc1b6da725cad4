"""A lease: two candidates, requests that are slow, lost, or done after they were given up, SIGTERM, late renewals."""

from __future__ import annotations

import asyncio
from random import Random

import anyio

from kframework.client.transport import WriteFence
from kframework.clock import LoopClock
from kframework.config.models import LeaderElectionSettings as Settings
from kframework.errors import ClusterError
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Lease
from kframework.process.lease import LeaderElection
from tests.interleavings.delayed_cluster import DelayedCluster
from tests.interleavings.stage import this_loop

__all__ = ["lease"]

#: Short, so that much happens in few renewals.
SETTINGS = Settings.model_validate({"leaseDuration": "6s", "renewDeadline": "4s", "retryPeriod": "1s"})

#: How long things are in disorder, then quiet, in seconds, and how often a leader writes.
DISORDER, QUIET, WRITING = 8.0, 25.0, 1.5


class Candidate:
    """A process that contends for the lease, and writes all the time."""

    def __init__(self, name: str, store: MemoryCluster, problems: list[str]) -> None:
        self.name = name
        self.fence = WriteFence()
        self.rivals: list[Candidate] = []
        self._clock = LoopClock(this_loop())
        self._problems = problems
        self._started = self._stopped = 0
        # Whoever leads says so in an Event, which nobody waits for: it would only be more to explore.
        cluster = DelayedCluster(store, name, at_once=("create",), late=True)
        self.election = LeaderElection(
            cluster,
            SETTINGS,
            self._clock,
            identity=name,
            component="kube-scheduler",
            random=Random(name),
            on_started=self._start,
            on_stopped=self._stop,
        )

    async def run(self) -> None:
        """Contend, again and again: a process that has lost its lease is restarted."""
        while True:
            self.fence = WriteFence()
            self.fence.only_while(lambda: self.election.leading)
            await self.election.run()

    async def write(self) -> None:
        """Write again and again, whenever the fence allows it."""
        while True:
            await asyncio.sleep(WRITING)
            try:
                self.fence.check()
            except ClusterError:
                continue
            self._look("writes")

    def _start(self) -> None:
        self._started += 1
        self._look("starts to lead")

    def _stop(self) -> None:
        self._stopped += 1
        self.fence.close()
        if self._started != self._stopped:
            self._problems.append(f"{self.name} started {self._started} times and stopped {self._stopped} times")

    def _look(self, doing: str) -> None:
        for rival in self.rivals:
            if rival.election.leading:
                at = this_loop().time()
                self._problems.append(f"at {at:.3f} s {self.name} {doing} while {rival.name} leads")


async def lease() -> list[str]:
    """Let two contend; each stops at some point, and one of them restarts."""
    loop, problems = this_loop(), list[str]()
    store = MemoryCluster(LoopClock(loop))
    one, two = (Candidate(name, store, problems) for name in ("one", "two"))
    one.rivals, two.rivals = [two], [one]
    async with anyio.create_task_group() as tasks:
        for each in (one, two):
            tasks.start_soon(each.write)
        first, second = anyio.CancelScope(), anyio.CancelScope()
        tasks.start_soon(_within, first, one)
        tasks.start_soon(_within, second, two)
        loop.offer("init", ("SIGTERM to one", first.cancel), ("SIGTERM to two", second.cancel), awaited=False)
        await asyncio.sleep(DISORDER)
        loop.settling = True
        await asyncio.sleep(QUIET)
        leading = [each.name for each in (one, two) if each.election.leading]
        if len(leading) != 1:
            problems.append(f"in the end {leading} lead")
        (held,) = store.objects(Lease) or [Lease()]
        if leading and held.spec.holder_identity != leading[0]:
            problems.append(f"{leading} leads, and the lease is {held.spec.holder_identity}'s")
        tasks.cancel_scope.cancel()
    return problems


async def _within(scope: anyio.CancelScope, candidate: Candidate) -> None:
    with scope:
        await candidate.run()
