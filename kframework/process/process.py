"""The process around a scheduler: its election and endpoints, its signals, its garbage, and an end in good order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AsyncExitStack
from functools import partial
from typing import Generic

import anyio
from anyio.abc import TaskGroup

from kframework.clock import Clock, Seeds
from kframework.config.configuration import Configuration
from kframework.core.runtime.registry import Registry
from kframework.errors import KFrameworkError
from kframework.objects import Event
from kframework.process.http.endpoints import Listener, scheduler_routes, serve
from kframework.process.leader_thread import LeaderThread
from kframework.process.lease import new_identity
from kframework.process.observers import Observers, PodObservers
from kframework.process.servers import DryRunServer, Server, without_binding
from kframework.process.signals import signals
from kframework.scheduler.garbage import Collector, collecting_rarely
from kframework.scheduler.scheduler import E, Scheduler
from kframework.scheduler.watchdog import Watchdog

#: Works beside a scheduler until it is cancelled.
Companion = Callable[[Scheduler[E]], Coroutine[object, object, None]]


class LeadershipLost(KFrameworkError):
    """Raised when another scheduler may lead by now: this one writes nothing any more."""


class Process(Generic[E]):
    """Schedules on a server until SIGTERM or SIGINT, or until its lease is lost.

    `identity` is what the lease will name, a name of its own if none is given; `listener` where the endpoints are, if
    there are any, which show what the `observers` see, whose engine it is that schedules. With `report` it writes
    nothing, and reports the Events instead. `companions` run beside the scheduler while it leads. `tell` gets the few
    lines that its user should see.
    """

    def __init__(
        self,
        configuration: Configuration,
        server: Server,
        clock: Clock,
        *,
        identity: str = "",
        listener: Listener | None = None,
        observers: Observers[E] | None = None,
        registry: Registry | None = None,
        report: Callable[[Event], None] | None = None,
        companions: Iterable[Companion[E]] = (),
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        if report is not None:
            configuration, server = without_binding(configuration), DryRunServer(server, clock, report)
        self.configuration = configuration
        self.clock = clock
        self._server = server
        self._identity = identity or new_identity()
        self._listener = listener
        self._observers: Observers[E] = observers or PodObservers()  # type: ignore[assignment]  # E is PodEngine by default
        self._registry = registry
        self._companions = tuple(companions)
        self._tell = tell
        self._begin = asyncio.Event()
        self._stopping = self._synced = False

    async def run(self) -> None:
        """Schedule; raises LeadershipLost, and ConfigError for what cannot be used."""
        async with AsyncExitStack() as stack:
            cluster = await stack.enter_async_context(self._server.schedule())
            self.scheduler: Scheduler[E] = Scheduler(
                self.configuration,
                cluster,
                self.clock,
                registry=self._registry,
                observers=self._observers.all,
                fence=self._server.fence,
                engine=self._observers.engine,
                timed_share=self._observers.timed_share,
            )
            self._collector = Collector(self.clock)
            self.scheduler.on_idle = self._idle
            for notice in self.scheduler.profiles.notices:
                self._tell(notice)
            stack.enter_context(collecting_rarely())
            stack.enter_context(signals(self.stop))
            stack.enter_context(Watchdog(self.scheduler.profiles.plugins(), self._observers.slow))
            leader = self._leader()
            await self._serve(stack, leader)
            if leader is None:
                await self._schedule()
            else:
                await self._lead(leader)
        self._tell("Requested to terminate, exiting")

    def stop(self) -> None:
        """End in good order: `Scheduler.stop`, on the way of which the lease is given up; then the endpoints close."""
        self._stopping = True
        self.scheduler.stop()
        self._begin.set()

    def _idle(self) -> None:
        engine = self.scheduler.engine
        if not engine.synced:
            return
        self._collector.collect()
        if not self._synced:
            self._synced = True
            pods = engine.cluster.pods.keys() | engine.pending.keys()
            self._tell(f"in step with the cluster (nodes: {len(engine.cluster.nodes)}, pods: {len(pods)})")

    async def _schedule(self) -> None:
        async with anyio.create_task_group() as tasks:
            self._accompany(tasks)
            await self.scheduler.run()
            tasks.cancel_scope.cancel()

    def _accompany(self, tasks: TaskGroup) -> None:
        for companion in self._companions:
            tasks.start_soon(companion, self.scheduler)

    # -- endpoints -------------------------------------------------------------------------------------------------

    async def _serve(self, stack: AsyncExitStack, leader: LeaderThread | None) -> None:
        if self._listener is None:
            return
        routes = scheduler_routes(
            self.configuration,
            synced=lambda: self.scheduler.engine.synced,
            starting=self._starting,
            stopping=lambda: self._stopping,
            election=leader.problem if leader is not None else None,
            authorization=self._server.rights.problem,
            checked=self._observers.checked,
        )
        shown = self._observers.routes(self.scheduler)
        url = await stack.enter_async_context(serve([*routes, *shown], self._listener))
        self._tell(f"see it work at {url}/ (health checks at {url}/livez and {url}/readyz)")

    def _starting(self) -> str | None:
        """Say which plugin is being started, and for how long already."""
        starting = self.scheduler.starting
        if starting is None:
            return None
        plugin, since = starting
        return f"plugin {plugin} has been starting for {self.clock.now() - since:.0f} s"

    # -- leader election -------------------------------------------------------------------------------------------

    def _leader(self) -> LeaderThread | None:
        election = self.configuration.settings.leader_election
        if not election.leader_elect or self._server.elect is None:
            return None
        return LeaderThread(
            self._server.elect,
            election,
            self.clock,
            identity=self._identity,
            component=self.configuration.profiles[0].scheduler_name,
            random=Seeds(self.configuration.options.seed).generator(f"leader election {self._identity}"),
            on_lost=self._server.fence.close,
        )

    async def _lead(self, leader: LeaderThread) -> None:
        """Stand by until the lease is ours, or do not even begin before if caches are to be delayed; then schedule."""
        self.scheduler.stand_by()
        #: What is done while this process leads, and only then.
        self._leading = anyio.CancelScope()
        self.scheduler.on_finished = partial(self._hand_over, leader)
        if not self.configuration.settings.delay_cache_until_active:
            self._begin.set()
        async with leader, anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow_lease, leader)
            await self._begin.wait()
            if not self._stopping:
                await self.scheduler.run()
            tasks.cancel_scope.cancel()

    async def _follow_lease(self, leader: LeaderThread) -> None:
        election = self.configuration.settings.leader_election
        self._tell(f"waiting for the lease {election.resource_namespace}/{election.resource_name}")
        with self._leading:
            await leader.won()
            # A process that stood still for long is told by the clock alone, before the election's thread has a turn.
            self._server.fence.only_while(lambda: leader.leading)
            self._tell(f"leading as {leader.identity}")
            self.scheduler.take_over()
            async with anyio.create_task_group() as companions:
                self._accompany(companions)
                self._begin.set()
                await leader.lost()
                raise LeadershipLost("Leaderelection lost")

    def _hand_over(self, leader: LeaderThread) -> None:
        """Let the next one lead while events are still written here: they disturb nobody."""
        self._server.fence.hand_over()
        self._leading.cancel()
        leader.release()
