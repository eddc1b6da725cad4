"""The scheduler: an engine, a cluster, and the tasks between them, wired in one task group."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from functools import partial
from time import perf_counter, perf_counter_ns
from typing import Generic

import anyio
import msgspec
from anyio.abc import TaskGroup
from typing_extensions import TypeVar

from kframework.client.cluster import Cluster, RunBinder
from kframework.client.transport import WriteFence
from kframework.clock import Clock
from kframework.config.configuration import Configuration
from kframework.config.models import ExtenderSettings
from kframework.core.cycle.records import Binding, Decision, GroupDecision, Observer
from kframework.core.cycle.results import Eviction, Reservation
from kframework.core.cycle.run import Run, RunBinding
from kframework.core.engine import Engine
from kframework.core.host import Host, PodEvent
from kframework.core.plugin_handle import ProfilesFactory, profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.profiles import Profiles, watched_kinds
from kframework.core.runtime.registry import Registry
from kframework.core.runtime.timing import current_attempt
from kframework.errors import ClusterError
from kframework.framework.suspendable import Suspendable, run_async
from kframework.objects import ApiObject, Pod, PodCondition
from kframework.scheduler.background import BackgroundTasks, Workers
from kframework.scheduler.binding import BindingCycle
from kframework.scheduler.cluster_api import ClusterApi
from kframework.scheduler.cooperative import MESSAGES_PER_TURN, apply_in_turns
from kframework.scheduler.event_recorder import EventRecorder
from kframework.scheduler.eviction import Disruptor, EvictionTask, GangEviction
from kframework.scheduler.extender import Extender
from kframework.scheduler.extender_http import HttpExtenderTransport
from kframework.scheduler.extenders import Extenders
from kframework.scheduler.observers import NotifiedObservers
from kframework.scheduler.outbox import Outbox
from kframework.scheduler.running_plugins import RunningPlugins
from kframework.scheduler.shadows import RunningShadows
from kframework.scheduler.timeouts import guard_cancellation
from kframework.state.inbox import Deleted, Message
from kframework.state.pods import PodInfo
from kframework.values.status import Code, Status

#: How long the loop works before other tasks run, in seconds.
LOOP_SLICE = 0.002
#: The number of binding cycles that begin before other tasks run; these take 1 to 1.5 ms.
BINDINGS_PER_TURN = 16

#: The time limits of a stopping scheduler for binding cycles and evictions, then for statuses, and in total for events,
#: in seconds; with the closing of plugins (`hookTimeouts.close`) that is within a pod's default grace period.
DRAIN_TIMEOUT, STATUS_TIMEOUT, EVENT_TIMEOUT = 10.0, 5.0, 20.0

#: How long to wait for the watch to report the last bindings, in seconds. The next leader sees them at about the same
#: time as this scheduler, and would overcommit nodes by bindings that it has not seen.
CONFIRM_TIMEOUT = 0.25

#: The engine of a scheduler: by default the one that schedules one pod at a time.
E = TypeVar("E", bound=Engine, default=PodEngine)

T = TypeVar("T")

#: Creates the engine for a configuration.
EngineFactory = Callable[[Configuration, Clock, Host, Extenders, ProfilesFactory], E]


def http_extender(settings: ExtenderSettings) -> Extender:
    """Return an extender that is called over HTTP; raises ConfigError."""
    return Extender(settings, HttpExtenderTransport(settings))


class Scheduler(Host, Generic[E]):
    """A scheduler of a cluster's pods by a configuration, until it is stopped or cancelled.

    `slice` is how long it works before other tasks run, in seconds; 0 lets them run after every cycle, as virtual time
    needs. `on_idle` is called whenever it becomes idle. `extender` creates the client of each extender of the
    configuration. Nothing is written unless `fence` is open. In `timed_share` of the attempts plugins are timed, for
    observers.
    """

    def __init__(
        self,
        configuration: Configuration,
        cluster: Cluster,
        clock: Clock,
        *,
        registry: Registry | None = None,
        observers: Iterable[Observer] = (),
        slice: float = LOOP_SLICE,
        extender: Callable[[ExtenderSettings], Extender] = http_extender,
        engine: EngineFactory[E] = PodEngine.from_configuration,  # type: ignore[assignment]  # E is PodEngine by default
        fence: WriteFence | None = None,
        timed_share: float = 0.0,
    ) -> None:
        self.configuration: Configuration = configuration
        self.clock = clock
        self.cluster = cluster
        self._create_extender = extender
        self.extenders: Extenders = self.create_extenders(configuration)
        registry = registry or Registry.from_installed()
        compiled = profiles_factory(configuration, registry, self)
        self.engine: E = engine(configuration, clock, self, self.extenders, compiled)
        self._observers = NotifiedObservers(observers)
        self._run_binder: RunBinder | None = cluster if isinstance(cluster, RunBinder) else None
        self.engine.timed_share = timed_share
        if isinstance(self.engine, PodEngine):
            self.engine.hook_tracer = self._observers.hook_tracer
        self.profiles: Profiles = self.engine.profiles
        #: The kinds that are followed.
        self.kinds: list[type[ApiObject]] = list(
            dict.fromkeys([*watched_kinds(self.profiles), *(watch.kind for watch in self.engine.watches)])
        )
        self.shadows: RunningShadows = RunningShadows(configuration, registry, self.engine, self)
        self.shadows.attach()
        self.kinds += [kind for kind in self.shadows.kinds if kind not in self.kinds]
        #: Whether the kinds are listed that only a later configuration watches.
        self.listed: dict[type[ApiObject], asyncio.Event] = {}
        self._woken = asyncio.Event()
        # Waiters for an idle scheduler must check again once everything is written.
        jitter = self.engine.seeds.generator("jitter")
        self.outbox: Outbox = Outbox(cluster, clock, jitter, self._woken.set, fence)
        #: The plugins from their start to their end.
        self.plugins: RunningPlugins = RunningPlugins(clock, self.engine.seeds, configuration.options.hook_timeouts)
        self.recorder: EventRecorder = EventRecorder(clock, self.outbox.record, self.outbox.record_run)
        self._api = ClusterApi(cluster, self.outbox, configuration.options.gates)
        self.on_idle: Callable[[], None] = lambda: None
        #: Called when it has stopped and writes only events: from then on another scheduler may lead.
        self.on_finished: Callable[[], None] = lambda: None
        #: Whether to place pods one by one, never in runs, for step-by-step inspection.
        self.is_stepping: bool = False
        #: Set once its plugins are started.
        self.started: asyncio.Event = asyncio.Event()
        self._whole_slice = slice
        self._slice = 0.0 if configuration.shadows else slice  # bindings begin before a shadow's turn
        self._tasks: TaskGroup | None = None
        self._workers: Workers | None = None
        #: Reserved pods whose binding cycles begin after the engine's current step.
        self._reserved: deque[Reservation | Run] = deque()
        self._under_way = 0  # waiting binding cycles, and evictions
        #: Coroutines spawned by hooks, without those of `start`.
        self._background = BackgroundTasks(self._woken.set)
        #: Whether it only watches the cluster, as a standby replica.
        self.standing_by: bool = False
        self._stopping = False
        self._start_scope: anyio.CancelScope | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it is idle until the cluster changes or a timer expires."""
        return self.engine.is_idle and not self._under_way and not self._background and self.outbox.is_empty

    def stand_by(self) -> None:
        """Watch the cluster, but schedule nothing until `lead`."""
        self.standing_by = True

    def lead(self) -> None:
        """Schedule."""
        self.standing_by = False
        self._woken.set()

    def stop(self) -> None:
        """Schedule no more pods, and end `run` once all work in progress is complete and written.

        Work that takes too long is undone, as are pods that wait on Permit; nothing is written about it.
        """
        self._stopping = True
        if self._start_scope is not None:
            self._start_scope.cancel("the scheduler stops")
        self._woken.set()

    async def run(self) -> None:
        """Start the plugins, follow the cluster, and schedule; PluginError for a plugin that cannot start."""
        self.engine.inbox.wake = self._woken.set
        async with anyio.create_task_group() as tasks:
            self._tasks = self.plugins.tasks = tasks
            try:
                with anyio.CancelScope() as self._start_scope:
                    if self._stopping:
                        self._start_scope.cancel("the scheduler stops")
                    await self.extenders.start()
                    await self.plugins.start(self.profiles.plugins())
                    await self.plugins.feed(self.profiles.sources(), self.engine.offer)
                if self._start_scope.cancelled_caught:
                    tasks.cancel_scope.cancel()
                    return
                self.started.set()
                self.shadows.start(tasks)
                tasks.start_soon(self.outbox.run)
                tasks.start_soon(self.recorder.run)
                self.watch(tuple(self.kinds), self.on_message)
                async with anyio.create_task_group() as cycles:
                    self._workers = Workers(cycles)
                    try:
                        await self._loop()
                        over = anyio.current_time() + EVENT_TIMEOUT
                        await self._finish()
                    finally:
                        # Together: a binding cycle may wait for coroutines that its plugin spawned.
                        self._background.cancel()
                        cycles.cancel_scope.cancel()
                self.on_finished()
                with anyio.CancelScope(deadline=over):
                    # The cluster is not watched any more: aborted work must not produce events.
                    while not self.outbox.is_empty:
                        self._woken.clear()
                        await self._woken.wait()
                tasks.cancel_scope.cancel()
                self.engine.apply_messages()  # undoes aborted work without writing about it
            finally:
                with anyio.CancelScope(shield=True):
                    await self._close()

    async def _close(self) -> None:
        """Close the plugins, then the extenders; all, even if one raises."""
        faults = await self.plugins.close()
        with anyio.move_on_after(self.plugins.timeouts.close):
            await self.extenders.close()
            await self.plugins.close_retired_extenders()
        await self.shadows.close()
        if faults:
            raise ExceptionGroup("plugins could not be closed", faults)

    # -- another configuration -------------------------------------------------------------------------------------

    def create_extenders(self, configuration: Configuration) -> Extenders:
        """Create the clients of a configuration's extenders; raises ConfigError."""
        return Extenders(map(self._create_extender, configuration.settings.extenders))

    def follow_configuration(self, configuration: Configuration, extenders: Extenders) -> None:
        """Go on with another configuration, as the engine does from now on."""
        self.configuration, self.extenders = configuration, extenders
        self.plugins.timeouts = configuration.options.hook_timeouts

    def follow_shadows(self, shadows: RunningShadows) -> None:
        """Let these shadows decide instead of those before."""
        assert self._tasks is not None
        self._tasks.start_soon(self.shadows.close)
        self.shadows = shadows
        shadows.attach()
        shadows.start(self._tasks)
        self._slice = 0.0 if self.configuration.shadows else self._whole_slice

    def watch(self, kinds: Collection[type[ApiObject]], offer: Callable[[Message], None]) -> None:
        """Watch these kinds until the scheduler ends."""
        assert self._tasks is not None
        self._tasks.start_soon(partial(self.cluster.watch, kinds, offer, ended_pods=self.engine.ended_pods))

    async def _loop(self) -> None:
        while not self._stopping:
            if len(self.engine.inbox) > MESSAGES_PER_TURN:
                await apply_in_turns(self.engine)
            began, supposed = perf_counter(), bool(self.engine.cluster.statements)
            while self._step():
                if self.engine.pending_cycle is not None:
                    await run_async(self.engine.pending_cycle)
                while self._begin_bindings():  # of a large group: other tasks run in between
                    await asyncio.sleep(0)
                    self.engine.apply_messages()
                # Waiters for the end of a session run before the next one begins.
                before, supposed = supposed, bool(self.engine.cluster.statements)
                if perf_counter() - began >= self._slice or before > supposed:
                    break
            else:
                self.plugins.close_retired()
                self.on_idle()
                await self._sleep()
                continue
            self.plugins.close_retired()
            await asyncio.sleep(0)

    def _step(self) -> bool:
        if self.standing_by or self._api.is_busy:
            self.engine.apply_messages()
            return False
        return self.engine.step()

    async def _finish(self) -> None:
        """Wait for work in progress, status writes and reports of bindings, each for a limited time."""
        waiting = self.engine.cluster.waiting
        with anyio.move_on_after(DRAIN_TIMEOUT):
            # A pod may wait on Permit for minutes, so it is not awaited here.
            await self._apply_messages_until(lambda: self._under_way <= sum(1 for _ in waiting.awaiting_permit()))
        with anyio.move_on_after(STATUS_TIMEOUT):
            await self._apply_messages_until(lambda: self.outbox.only_events_left)
        with anyio.move_on_after(CONFIRM_TIMEOUT):
            await self._apply_messages_until(lambda: len(self.engine.cluster.assumed) <= self._under_way)

    async def _apply_messages_until(self, over: Callable[[], bool]) -> None:
        while True:
            self.engine.apply_messages()
            if over():
                return
            await self._sleep()

    async def _sleep(self) -> None:
        if len(self.engine.inbox):
            await asyncio.sleep(0)
            return
        timer = None
        if (deadline := self.engine.deadline) is not None:
            # A timer that fires early by the rounding of two clocks only repeats the loop.
            delay = max(deadline - self.clock.now(), 0.0)
            timer = asyncio.get_running_loop().call_later(delay, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            self._woken.clear()
            if timer is not None:
                timer.cancel()

    def on_message(self, message: Message) -> None:
        """Queue a message of the cluster; a deleted pod ends its event series."""
        self.engine.offer(message)
        if type(message) is Deleted and isinstance(message.obj, Pod):
            self.recorder.pod_ended(message.obj.metadata.uid)

    # -- the host of the engine ------------------------------------------------------------------------------------

    @property
    def api(self) -> ClusterApi:
        return self._api

    def bind(self, reservation: Reservation) -> None:
        self._reserved.append(reservation)

    @property
    def can_bind_runs(self) -> bool:
        if self.is_stepping:
            return False
        return self._run_binder is not None and self._run_binder.can_bind_runs and not len(self.extenders)

    def bind_run(self, run: Run) -> None:
        self._observers.report_run(run)
        self._reserved.append(run)

    def _begin_bindings(self) -> bool:
        """Begin some binding cycles of the pods that the last step placed; return whether others are left."""
        for _ in range(min(len(self._reserved), BINDINGS_PER_TURN)):
            reservation = self._reserved.popleft()
            if isinstance(reservation, Run):
                self._bind_reserved_run(reservation)
                break  # it is as much work as many cycles
            current_attempt.set(reservation.trace)
            try:
                self._begin_binding(reservation)
            finally:
                current_attempt.set(None)
        return bool(self._reserved)

    def _bind_reserved_run(self, run: Run) -> None:
        """Bind the pods of a run together if the cluster can, else one by one."""
        if self._run_binder is None or not self.outbox.release_statuses(run):
            self.engine.bind_individually(run)
            return
        started = perf_counter_ns()
        refused = self._run_binder.bind_run(run)
        errors = {index: Status(Code.ERROR, (str(error),)) for index, error in refused.items()}
        bound = RunBinding(run, self.clock.now(), started, perf_counter_ns() - started, errors)
        self.engine.offer(bound)
        self._observers.report_run_binding(bound)

    def _begin_binding(self, reservation: Reservation) -> None:
        """Run a binding cycle until it must wait, and the rest of it in a task."""
        bind_first = self._bind_by_extenders if len(self.extenders) else None
        timeouts = self.plugins.timeouts
        arguments = reservation, self.engine.offer, self.clock, self._publish_nomination, timeouts
        steps = BindingCycle(*arguments, self.outbox.wait_for_engine_writes, bind_first).steps()
        if reservation.trace.hook_context is not None:
            # A traced cycle finds its span in the context, which belongs to the task.
            assert self._workers is not None
            self._workers.start_in_own_task(self._track(self._continue_binding(steps, None)))
            return
        try:
            question = next(steps)
        except StopIteration as end:
            self._observers.report_binding(end.value)
        else:
            self._start_work(self._continue_binding(steps, question))

    async def _continue_binding(self, steps: Suspendable[Binding], question: Awaitable[object] | None) -> None:
        self._observers.report_binding(await run_async(steps, question))

    def _start_work(self, work: Awaitable[None]) -> None:
        assert self._workers is not None
        self._workers.start(self._track(work))

    def _track(self, work: Awaitable[None]) -> Awaitable[None]:
        self._under_way += 1
        return self._tracked(work)

    async def _tracked(self, work: Awaitable[None]) -> None:
        try:
            await guard_cancellation(work)
        finally:
            self._under_way -= 1
            if self._stopping or not self._under_way:
                self._woken.set()

    async def _bind_by_extenders(self, reservation: Reservation) -> Status | None:
        await self.outbox.wait_for_write(reservation.pod.uid)
        try:
            self.outbox.fence.check()
            status = await self.extenders.bind(reservation.pod, reservation.node_name)
            # Perhaps only the answer was lost: then the pod's room must not be given away.
            failed = status is not None and status.code == Code.ERROR
            if failed and await self._api.read_back(reservation.pod) == reservation.node_name:
                return None
        except ClusterError as refusal:
            return Status(Code.ERROR, (str(refusal),))
        return status

    def _publish_nomination(self, reservation: Reservation) -> None:
        """Write the node that the pod is about to be bound to into its status (KEP-5278)."""
        if reservation.pod.status.nominated_node_name != reservation.node_name:
            self.outbox.patch_status(reservation.pod, None, reservation.node_name)

    def patch_status(self, pod: PodInfo, condition: PodCondition | None, nominated_node_name: str | None) -> None:
        self.outbox.patch_status(pod, condition, nominated_node_name)

    def record(self, event: PodEvent) -> None:
        self.recorder.record(event)

    def record_run(self, bound: RunBinding) -> None:
        self.recorder.record_run(bound)

    def evict(self, eviction: Eviction) -> None:
        disruptor, engine = Disruptor(self.cluster, self.outbox), self.engine
        self._start_work(EvictionTask(eviction, disruptor, engine.cluster.waiting, engine.offer, self.record).run())

    def evict_gang(self, pods: Sequence[PodInfo], note: str) -> None:
        self._start_work(GangEviction(pods, note, Disruptor(self.cluster, self.outbox), self.record).run())

    def report_decision(self, decision: Decision) -> None:
        self._observers.report_decision(decision)

    def report_group_decision(self, decision: GroupDecision) -> None:
        self._observers.report_group_decision(decision)

    def report_account(self, account: msgspec.Struct) -> None:
        self._observers.report_account(account)

    def write(self, key: str, call: Callable[[], Awaitable[object]], refused: Callable[[ClusterError], None]) -> None:
        self.outbox.write(key, call, refused)

    def spawn(self, coroutine: Coroutine[object, object, None], by: str) -> None:
        assert self._tasks is not None
        if not self.plugins.spawn(coroutine, by):
            self._tasks.start_soon(self._background.register(coroutine, by))

    async def shield(self, work: Awaitable[T]) -> T:
        return await self._background.shield(work)
