"""The process around a scheduler: its election and endpoints, its signals, its garbage, and an end in good order."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from random import Random
from types import TracebackType
from typing import Generic, cast

import anyio
from anyio.abc import TaskGroup

from kframework.client.cluster import Cluster
from kframework.client.dry_run import DryRunCluster
from kframework.clock import Clock, Seeds
from kframework.config.configuration import Configuration
from kframework.config.models import LeaderElectionSettings
from kframework.core.runtime.registry import Registry
from kframework.errors import KFrameworkError
from kframework.objects import Event
from kframework.observe.history import Reload
from kframework.process.http.endpoints import Listener, scheduler_routes, serve
from kframework.process.lease import RELEASE_TIMEOUT, LeaderElection, new_identity
from kframework.process.observers import Observers, PodObservers
from kframework.process.reload import FollowedConfiguration, Reloader
from kframework.process.servers import Server, dry_run_configuration
from kframework.process.signals import handle_signals
from kframework.scheduler.gc_policy import IdleCollector, gc_paused, reduced_gc
from kframework.scheduler.scheduler import E, Scheduler
from kframework.scheduler.watchdog import Watchdog

#: A coroutine that runs next to a scheduler until it is cancelled.
SideTask = Callable[[Scheduler[E]], Coroutine[object, object, None]]


class LeadershipLost(KFrameworkError):
    """Raised when another scheduler may lead; this one does not write any more."""


class Process(Generic[E]):
    """A scheduler process on a server, until SIGTERM or SIGINT, or until its lease is lost.

    `identity` is the holder name in the lease, by default a unique one; `listener` the address of the endpoints, if
    any, which show the data of the `observers`, whose engine schedules. With `report` it writes nothing, and reports
    the Events instead. `companions` run next to the scheduler while it leads. `log` receives the few lines for the
    user. A file that is `followed` is reloaded, which an engine of single pods can.
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
        companions: Iterable[SideTask[E]] = (),
        followed: FollowedConfiguration | None = None,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._adapt = dry_run_configuration if report is not None else lambda configuration: configuration
        self.configuration: Configuration = self._adapt(configuration)
        self.clock = clock
        self._report = report
        self._server = server
        self._identity = identity or new_identity()
        self._listener = listener
        self._observers: Observers[E] = observers or PodObservers()  # type: ignore[assignment]  # E is PodEngine by default
        self._registry = registry
        self._companions = tuple(companions)
        self._followed = followed
        self._log_line = log
        self._begin = asyncio.Event()
        self._stopping = self._synced = False

    async def run(self) -> None:
        """Run the scheduler; raises LeadershipLost, and ConfigError for unusable settings."""
        if self._listener is not None:
            self._listener.check()  # before the server prints anything
        async with AsyncExitStack() as stack:
            stack.enter_context(reduced_gc())
            with gc_paused():  # what is imported and created lives as long as the process
                leader = await self._prepare(stack)
            if leader is not None:
                await self._lead(leader)
            else:
                async with anyio.create_task_group() as tasks:
                    self._run_side_tasks(tasks)
                    await self.scheduler.run()
                    tasks.cancel_scope.cancel()
        self._log_line("Requested to terminate, exiting")

    async def _prepare(self, stack: AsyncExitStack) -> LeaderThread | None:
        """Connect, create the scheduler, and serve the endpoints; return the candidate if there is an election."""
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
        self._observers.attach(self.scheduler, self._log_line)
        self._collector = IdleCollector(self.clock)
        self.scheduler.on_idle = self._idle
        for notice in self.scheduler.profiles.warnings:
            self._log_line(notice)
        stack.enter_context(handle_signals(self.stop))
        count_slow_hook = self._observers.metrics.count_slow_hook
        self._watchdog = stack.enter_context(Watchdog(self.scheduler.profiles.plugins(), count_slow_hook))
        self._follow_file(stack)
        leader = self._leader()
        await self._serve(stack, leader)
        return leader

    def stop(self) -> None:
        """Shut down: `Scheduler.stop`, which also releases the lease; then the endpoints close."""
        self._stopping = True
        self.scheduler.stop()
        self._begin.set()

    def _idle(self) -> None:
        engine = self.scheduler.engine
        if not engine.synced:
            gc.freeze()  # listed objects live long: without this, the collector scans them while they arrive
            return
        self._collector.collect()
        if not self._synced:
            self._synced = True
            cluster = engine.cluster
            pods = len(cluster.pods) + len(engine.pending) - len(cluster.assumed)  # assumed pods are both
            self._log_line(f"synced with the cluster (nodes: {len(cluster.nodes)}, pods: {pods})")

    def _follow_file(self, stack: AsyncExitStack) -> None:
        if self._followed is not None:
            scheduler = cast("Scheduler", self.scheduler)
            reloader = Reloader(scheduler, self._followed, self._adapt, self._on_reload)
            stack.callback(asyncio.create_task(reloader.run()).cancel)

    def _on_reload(self, reload: Reload) -> None:
        self._watchdog.watch(self.scheduler.profiles.plugins())
        self._observers.on_reload(reload, self.scheduler.profiles)

    def _run_side_tasks(self, tasks: TaskGroup) -> None:
        for companion in self._companions:
            tasks.start_soon(companion, self.scheduler)

    async def _serve(self, stack: AsyncExitStack, leader: LeaderThread | None) -> None:
        if self._listener is None:
            return
        routes = scheduler_routes(
            self.configuration,
            synced=lambda: self.scheduler.engine.synced,
            starting=self._starting_plugin,
            stopping=lambda: self._stopping,
            election=leader.problem if leader is not None else None,
            authorization=self._server.rights.problem,
            on_check=self._observers.metrics.health.count_check,
        )
        shown = self._observers.routes(self.scheduler)
        url = await stack.enter_async_context(serve([*routes, *shown], self._listener))
        self._log_line(f"status page at {url}/ (health checks at {url}/livez and {url}/readyz)")

    def _starting_plugin(self) -> str | None:
        starting = self.scheduler.plugins.starting
        if starting is None:
            return None
        plugin, since = starting
        return f"plugin {plugin.name} has been starting for {self.clock.now() - since:.0f} s"

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
        """Stand by until the lease is ours, before caches are filled if they are to be delayed; then schedule."""
        self.scheduler.stand_by()
        #: The scope of work that runs only while this process leads.
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
        self._log_line(f"waiting for the lease {election.resource_namespace}/{election.resource_name}")
        with self._leading:
            await leader.wait_until_elected()
            # After a long pause of the process the clock alone decides, before the election's thread runs.
            self._server.fence.only_while(lambda: leader.leading)
            self._log_line(f"leading as {leader.identity}")
            self.scheduler.lead()
            async with anyio.create_task_group() as companions:
                self._run_side_tasks(companions)
                self._begin.set()
                await leader.wait_until_lost()
                raise LeadershipLost("Leaderelection lost")

    def _hand_over(self, leader: LeaderThread) -> None:
        """Let the next scheduler lead while this one still writes events, which cannot interfere."""
        self._server.fence.hand_over()
        self._leading.cancel()
        leader.release()


_log = logging.getLogger(__name__)

#: The interval of the scheduler loop's heartbeat, in seconds.
HEARTBEAT_INTERVAL = 1.0

#: How much longer than the renew deadline the scheduler's loop may block before it counts as hung, in seconds.
HANG_TOLERANCE = 10.0

#: The time the thread has at exit beyond the time for releasing the lease, in seconds.
CLOSE_TIMEOUT = 1.0


class LeaderThread:
    """A thread that competes for the lease while its context is entered; any exit releases the lease.

    `connect` opens the thread's own client, in that thread, and closes it. `on_lost` is called in that thread when the
    leadership ends unasked, before another candidate can have it and even if the scheduler's loop is blocked: it must
    only set a flag, after which nothing is written. Pending writes must be done before leaving.
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
        self._last_heartbeat: float = 0.0
        self._candidate = partial(
            LeaderElection,
            settings=settings,
            clock=clock,
            identity=identity,
            component=component,
            random=random,
            on_started=self._on_started,
            on_stopped=self._on_stopped,
            # Whether the scheduler's loop runs.
            may_lead=lambda: clock.now() - self._last_heartbeat <= settings.renew_deadline + HANG_TOLERANCE,
        )
        self._election: LeaderElection | None = None
        self._led = self._released = False
        self._failure: Exception | None = None
        self._won, self._lost, self._ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @property
    def leading(self) -> bool:
        return self._election is not None and self._election.leading

    def problem(self) -> str | None:
        return self._election.problem() if self._election is not None else None

    async def wait_until_elected(self) -> None:
        """Wait until this process leads; raises the error that ended the election before."""
        await self._won.wait()
        if self._failure is not None:
            raise self._failure

    async def wait_until_lost(self) -> None:
        """Wait until this process no longer leads; the log has the reason."""
        await self._lost.wait()

    # -- in the scheduler's thread ---------------------------------------------------------------------------------

    def release(self) -> None:
        """Release the lease before leaving; the caller must already have stopped writing."""
        self._released = True
        self._end()

    def _end(self) -> None:
        with suppress(RuntimeError):  # the thread's loop is closed: it has ended already
            self._loop.call_soon_threadsafe(self._candidacy.cancel)

    async def __aenter__(self) -> LeaderThread:
        self._scheduler_loop = asyncio.get_running_loop()
        self._loop = asyncio.new_event_loop()
        self._candidacy = anyio.CancelScope()
        self._last_heartbeat = self._clock.now()
        self._heartbeats = asyncio.create_task(self._send_heartbeats())
        # A daemon, so that a hung thread does not prevent the process from exiting.
        threading.Thread(target=self._run, name="leader-election", daemon=True).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._heartbeats.cancel()
        self._end()
        with anyio.move_on_after(RELEASE_TIMEOUT + CLOSE_TIMEOUT, shield=True):
            await self._ended.wait()

    async def _send_heartbeats(self) -> None:
        while True:
            self._last_heartbeat = self._clock.now()
            await asyncio.sleep(HEARTBEAT_INTERVAL)

    # -- in the election's thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._compete())
        except Exception as error:
            self._failure = error
            if self._led:
                _log.exception("leader election failed")
        finally:
            for event in (self._won, self._ended) if self._released else (self._won, self._lost, self._ended):
                self._log_line(event)

    async def _compete(self) -> None:
        """Compete for the lease until it is lost; the client is closed even on cancellation."""
        async with AsyncExitStack() as closing:
            with self._candidacy:
                cluster = await closing.enter_async_context(self._connect())
                self._election = self._candidate(cluster)
                await self._election.run()

    def _on_started(self) -> None:
        self._led = True
        self._log_line(self._won)

    def _on_stopped(self) -> None:
        if not self._released:
            self._on_lost()
            self._log_line(self._lost)

    def _log_line(self, event: asyncio.Event) -> None:
        with suppress(RuntimeError):  # that loop is closed: it did not wait for the end of this thread
            self._scheduler_loop.call_soon_threadsafe(event.set)
