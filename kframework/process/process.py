"""The process around a scheduler: its election and endpoints, its signals, its garbage, and an end in good order."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from random import Random
from types import TracebackType
from typing import Generic

import anyio
from anyio.abc import TaskGroup

from kframework.client.cluster import Cluster
from kframework.client.dry_run import DryRunCluster
from kframework.clock import Clock, Seeds
from kframework.config.configuration import Configuration
from kframework.config.models import LeaderElection as LeaderElectionSettings
from kframework.core.runtime.registry import Registry
from kframework.errors import KFrameworkError
from kframework.objects import Event
from kframework.process.http.endpoints import Listener, scheduler_routes, serve
from kframework.process.lease import RELEASING, LeaderElection, new_identity
from kframework.process.observers import Observers, PodObservers
from kframework.process.servers import Server, without_binding
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
        self.configuration: Configuration = configuration if report is None else without_binding(configuration)
        self.clock = clock
        self._report = report
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
            if self._report is not None:
                cluster = DryRunCluster(cluster, self.clock, self._report)
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
            stack.enter_context(Watchdog(self.scheduler.profiles.plugins(), self._observers.metrics.slow))
            leader = self._leader()
            await self._serve(stack, leader)
            if leader is not None:
                await self._lead(leader)
            else:
                async with anyio.create_task_group() as tasks:
                    self._accompany(tasks)
                    await self.scheduler.run()
                    tasks.cancel_scope.cancel()
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

    def _accompany(self, tasks: TaskGroup) -> None:
        for companion in self._companions:
            tasks.start_soon(companion, self.scheduler)

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
            checked=self._observers.metrics.health.checked,
        )
        shown = self._observers.routes(self.scheduler)
        url = await stack.enter_async_context(serve([*routes, *shown], self._listener))
        self._tell(f"see it work at {url}/ (health checks at {url}/livez and {url}/readyz)")

    def _starting(self) -> str | None:
        starting = self.scheduler.starting
        if starting is None:
            return None
        plugin, since = starting
        return f"plugin {plugin} has been starting for {self.clock.now() - since:.0f} s"

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


_log = logging.getLogger(__name__)

#: How often the scheduler's loop shows that it runs, in seconds.
BEAT = 1.0

#: How much longer than the renew deadline the scheduler's loop may stand still before it counts as hung, in seconds.
PATIENCE = 10.0

#: What is left to the thread on leaving beyond the time for giving up the lease, in seconds.
CLOSING = 1.0


class LeaderThread:
    """Contends for the lease while its context is entered; leaving it, for whatever reason, gives the lease up.

    `connect` opens the thread's own client, in that thread, and closes it. `on_lost` is called in that thread when the
    leadership ends unasked, before anyone else can have it and however long the scheduler's loop stands still by then:
    it must only set a flag, after which nothing is written any more. What has to be written is written before leaving.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Cluster]],
        settings: LeaderElectionSettings,
        clock: Clock,
        *,
        identity: str,
        component: str,
        random: Random,
        on_lost: Callable[[], None],
    ) -> None:
        self.identity = identity
        self._connect = connect
        self._clock = clock
        self._on_lost = on_lost
        self._beaten: float = 0.0
        self._candidate = partial(
            LeaderElection,
            settings=settings,
            clock=clock,
            identity=identity,
            component=component,
            random=random,
            on_started=self._started,
            on_stopped=self._stopped,
            # Whether the scheduler's loop runs.
            may_lead=lambda: clock.now() - self._beaten <= settings.renew_deadline + PATIENCE,
        )
        self._election: LeaderElection | None = None
        self._led = self._released = False
        self._failure: Exception | None = None
        self._won, self._lost, self._ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @property
    def leading(self) -> bool:
        """Whether this process leads now; any thread may ask."""
        return self._election is not None and self._election.leading

    def problem(self) -> str | None:
        """Say if the leadership ought to have been renewed or ended long ago; any thread may ask."""
        return self._election.problem() if self._election is not None else None

    async def won(self) -> None:
        """Wait until this process leads; raises what put an end to the election before."""
        await self._won.wait()
        if self._failure is not None:
            raise self._failure

    async def lost(self) -> None:
        """Wait until this process leads no more; the log says why."""
        await self._lost.wait()

    # -- in the scheduler's thread ---------------------------------------------------------------------------------

    def release(self) -> None:
        """Give the lease up before leaving; whoever asks for it writes nothing any more by which two would lead."""
        self._released = True
        self._end()

    def _end(self) -> None:
        with suppress(RuntimeError):  # the thread's loop is closed: it has ended already
            self._loop.call_soon_threadsafe(self._contending.cancel)

    async def __aenter__(self) -> LeaderThread:
        self._scheduler_loop = asyncio.get_running_loop()
        self._loop = asyncio.new_event_loop()
        self._contending = anyio.CancelScope()
        self._beaten = self._clock.now()
        self._beating = asyncio.create_task(self._beat())
        # A daemon, so that a thread that cannot end does not keep the process from ending.
        threading.Thread(target=self._run, name="leader-election", daemon=True).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._beating.cancel()
        self._end()
        with anyio.move_on_after(RELEASING + CLOSING, shield=True):
            await self._ended.wait()

    async def _beat(self) -> None:
        while True:
            self._beaten = self._clock.now()
            await asyncio.sleep(BEAT)

    # -- in the election's thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._contend())
        except Exception as error:
            self._failure = error
            if self._led:
                _log.exception("leader election broke down")
        finally:
            for event in (self._won, self._ended) if self._released else (self._won, self._lost, self._ended):
                self._tell(event)

    async def _contend(self) -> None:
        """Contend for the lease until it is lost; the client is closed even when that is cancelled."""
        async with AsyncExitStack() as closing:
            with self._contending:
                cluster = await closing.enter_async_context(self._connect())
                self._election = self._candidate(cluster)
                await self._election.run()

    def _started(self) -> None:
        self._led = True
        self._tell(self._won)

    def _stopped(self) -> None:
        if not self._released:
            self._on_lost()
            self._tell(self._lost)

    def _tell(self, event: asyncio.Event) -> None:
        with suppress(RuntimeError):  # that loop is closed: nobody waited until this thread had ended
            self._scheduler_loop.call_soon_threadsafe(event.set)
