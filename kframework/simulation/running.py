"""The event loop of a simulation, which runs only on request: to the end, for a time, or to an attempt."""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import ClassVar, Generic, NamedTuple, TypeVar

import anyio
from anyio.abc import TaskGroup

from kframework.clock import Clock, VirtualTimeLoop, call_off_loop
from kframework.core.cycle.records import Decision
from kframework.errors import exit_on_debugger_quit
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kubelet import Kubelet
from kframework.objects import ApiObject
from kframework.scheduler.gc_policy import reduced_gc
from kframework.scheduler.scheduler import LOOP_SLICE, E, Scheduler
from kframework.simulation.controllers import Controller
from kframework.simulation.records import LivelockError, Records

T = TypeVar("T")

#: A simulation is over when nothing has moved for so long, in seconds.
IDLE_LIMIT = 3600.0


class TimeMode(NamedTuple):
    """The time of a simulation: its event loop, and how long the scheduler works before others run, in seconds."""

    create_loop: Callable[[], asyncio.AbstractEventLoop]
    slice: float


#: Time that jumps to the next thing that is due.
VIRTUAL = TimeMode(VirtualTimeLoop, 0.0)
#: The time of the machine, for benchmarks.
REAL = TimeMode(asyncio.new_event_loop, LOOP_SLICE)


class SimulationRun(Generic[E]):
    """Runs the schedulers and the controllers of a cluster.

    Attributes:
        is_over: whether nothing changed any more when the loop last stopped.
        retrying: the pods that were still being retried when nothing had moved for an hour.
        stuck: where the bindings of such pods were, and how their last ones ended.
    """

    def __init__(
        self,
        runner: asyncio.Runner,
        schedulers: Sequence[Scheduler[E]],
        controllers: Sequence[Controller],
        records: Records,
    ) -> None:
        self._runner = runner
        self._loop = runner.get_loop()
        self._schedulers = schedulers
        self._controllers = controllers
        #: Controllers that have more to do although nothing changes: pods that will end, actions that are due later.
        self._timed = [each for each in controllers if isinstance(each, Kubelet | Script)]
        self._records = records
        self._work: asyncio.Task[None] | None = None
        self._stops_at_end = False
        self.is_over: bool = False
        self.retrying: tuple[str, ...] = ()
        self.stuck: dict[str, str] = {}
        self._livelock: LivelockError | None = None
        for scheduler in schedulers:
            scheduler.on_idle = self._end_if_idle
        records.on_livelock = self._break_off
        self._tasks: TaskGroup | None = None
        #: The number of controllers that have not read the cluster yet, and seem idle.
        self._starting = len(controllers)
        for controller in controllers:
            controller.on_idle = self._end_if_idle

    def start(self, controllers: Sequence[Controller]) -> None:
        """Run more controllers, from the next run on."""
        self._controllers = (*self._controllers, *controllers)
        self._starting += len(controllers)
        for controller in controllers:
            controller.on_idle = self._end_if_idle
            if self._tasks is not None:
                self._loop.call_soon(self._tasks.start_soon, self._run_controller, controller)

    async def _run_controller(self, controller: Controller) -> None:
        self._starting -= 1
        await controller.run()

    def run_to_end(self, limit: float | None = None) -> None:
        """Run until nothing changes any more, for `limit` seconds at most."""
        self._stops_at_end = True
        check = self._loop.create_task(self._end_if_stuck())
        try:
            self.run_for(limit)
        finally:
            check.cancel()
            self._stops_at_end = False

    def run_until(self, work: Coroutine[object, object, T]) -> T:
        """Run until this work has ended, and return its result."""
        task = self._loop.create_task(work)
        task.add_done_callback(self._stop)
        self.run_for(None)
        return task.result()

    def step(self) -> Decision | None:
        """Run until the next attempt to schedule a pod has ended, and return it; None if there is none any more."""
        decisions: list[Decision] = []

        def stop(decision: Decision) -> None:
            decisions.append(decision)
            self._loop.stop()

        self._records.on_attempt = stop
        self._set_stepping(True)
        try:
            self.run_to_end()
        finally:
            self._set_stepping(False)
            self._records.on_attempt = lambda decision: None
        return decisions[0] if decisions else None

    def _set_stepping(self, is_stepping: bool) -> None:
        for scheduler in self._schedulers:
            scheduler.is_stepping = is_stepping

    def close(self) -> None:
        """Stop all that runs, and raise what any of it fails with."""
        try:
            if self._work is not None and not self._work.done():
                self._work.remove_done_callback(self._stop)
                self._work.cancel()
                with exit_on_debugger_quit(), suppress(asyncio.CancelledError):
                    call_off_loop(self._loop.run_until_complete, self._work)
        finally:
            call_off_loop(self._runner.close)

    def run_for(self, seconds: float | None) -> None:
        """Run for some seconds, whether anything changes or not, or until the loop is stopped."""
        self.is_over = False
        timer = None if seconds is None else self._loop.call_later(seconds, self._loop.stop)
        try:
            with exit_on_debugger_quit(), reduced_gc(), _stopped_by_interrupt(self._loop):
                if self._work is None:
                    self._work = self._loop.create_task(self._main())
                    self._work.add_done_callback(self._stop)
                call_off_loop(self._loop.run_forever)
                if self._work.done():
                    self._work.result()
                if self._livelock is not None:
                    raise self._livelock
        finally:
            if timer is not None:
                timer.cancel()

    async def _main(self) -> None:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            for controller in self._controllers:
                tasks.start_soon(self._run_controller, controller)
            for scheduler in self._schedulers:
                tasks.start_soon(scheduler.run)

    def _stop(self, work: asyncio.Task[object]) -> None:
        self._loop.stop()

    def _end_if_idle(self) -> None:
        if not self._stops_at_end or self._starting:
            return
        if all(each.is_idle for each in self._schedulers) and all(each.idle for each in self._controllers):
            self.retrying, self.stuck = (), {}
            self._end()

    async def _end_if_stuck(self) -> None:
        """End when nothing has moved for an hour, although a scheduler still has something to do."""
        now = self._schedulers[0].clock.now
        while True:
            still = now() - self._records.moved_at
            if still >= IDLE_LIMIT and all(each.idle for each in self._timed):
                retried = chain.from_iterable(each.engine.retried_pods() for each in self._schedulers)
                self.retrying = tuple(dict.fromkeys(retried))
                self.stuck = {pod: where for pod in self.retrying if (where := self._describe_binding(pod))}
                self._end()
            due = min((each.due for each in self._timed if each.due is not None), default=0.0)
            await asyncio.sleep(min(max(IDLE_LIMIT - still, due - now(), 1.0), IDLE_LIMIT))

    def _break_off(self, error: LivelockError) -> None:
        self._livelock = error
        self._loop.stop()

    def _end(self) -> None:
        self.is_over = True
        self._loop.stop()

    def _describe_binding(self, pod: str) -> str:
        """Describe the state of a pod's binding, and the end of its last one; "" if its last attempt led to none."""
        waiting = chain.from_iterable(each.engine.cluster.waiting for each in self._schedulers)
        now = self._schedulers[0].clock.now()
        where = "".join(each.describe_wait(now) for each in waiting if each.pod.key == pod)
        last = next((each for each in reversed(self._records.bindings) if each.pod == pod), None)
        tried = next((each.attempt for each in reversed(self._records.decisions) if each.pod == pod), 0)
        ended = last.message if last is not None and (where or last.attempt == tried) else ""
        return "; before, ".join(filter(None, (where, ended)))


@contextmanager
def _stopped_by_interrupt(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Stop the loop at the first SIGINT and raise KeyboardInterrupt then, so that no task is interrupted midway."""
    interrupts: list[int] = []

    def stop(number: int, frame: object) -> None:
        signal.signal(number, signal.default_int_handler)  # the next one interrupts a plugin that does not end
        interrupts.append(number)
        loop.stop()
        loop.call_soon_threadsafe(lambda: None)  # a loop that waits notices it now

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if interrupts:
        raise KeyboardInterrupt


#: Changes the cluster; any function of it will do.
Action = Callable[[MemoryCluster], Awaitable[object] | object]

#: An action, and the seconds after the start at which it happens.
TimedAction = tuple[float, Action]


class Script:
    """Changes a cluster at times in seconds since its creation; at 0 before the scheduler lists the cluster."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = ()

    def __init__(
        self,
        cluster: MemoryCluster,
        clock: Clock,
        actions: Iterable[TimedAction],
        is_settled: Callable[[], bool] = lambda: True,
    ) -> None:
        self.on_idle: Callable[[], None] = lambda: None
        self._is_settled = is_settled
        self._cluster = cluster
        self._clock = clock
        self._began = clock.now()
        self._actions = deque(sorted(actions, key=lambda timed: timed[0]))

    @property
    def idle(self) -> bool:
        """Whether no action is left, and the scheduler has what they published."""
        return not self._actions and self._is_settled()

    @property
    def due(self) -> float | None:
        """The time of the next action, in seconds since 1970; None if none is left."""
        return self._began + self._actions[0][0] if self._actions else None

    async def run(self) -> None:
        """Run each action at its time."""
        while self._actions:
            moment = self._actions[0][0]
            await asyncio.sleep(max(0.0, self._began + moment - self._clock.now()))
            while self._actions and self._actions[0][0] <= moment:
                done = self._actions[0][1](self._cluster)
                if inspect.isawaitable(done):
                    await done
                self._actions.popleft()
        self.on_idle()
