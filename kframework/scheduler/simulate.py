"""Simulation: the real scheduler on a cluster in memory, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from typing import Generic, Protocol

import anyio
import msgspec

from kframework.clock import Clock, LoopClock, VirtualTimeLoop, beside_running_loop
from kframework.config.configuration import Configuration
from kframework.config.load import default_configuration
from kframework.config.models import Extender as ExtenderSettings
from kframework.core.cycle.decision import Binding, Decision, Observer
from kframework.core.cycle.extending import ExtenderError
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.errors import ClusterError, quitting
from kframework.in_memory.claim_controller import ClaimController
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.in_memory.kubelet import Kubelet
from kframework.in_memory.volume_controller import VolumeController
from kframework.objects import (
    ApiObject,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from kframework.scheduler.extender import Extender
from kframework.scheduler.garbage import collecting_rarely, spare
from kframework.scheduler.http_line import HttpLine
from kframework.scheduler.scheduler import E, MakeEngine, Scheduler
from kframework.state.pods import PodInfo
from kframework.values.status import Code

#: A simulation in which nothing has moved for so long is over, in virtual seconds.
STAGNATION = 3600.0

#: What says which pods to make.
_WORKLOADS = (DaemonSet, Deployment, Job, ReplicaSet, ReplicationController, StatefulSet)
#: Controllers that act only if they are named: no scheduler looks at what they make, and what has become of pods is
#: told in the end, of those that are over too.
_UNASKED = tuple(
    f"-{name}"
    for name in (
        "endpoints",
        "endpointslice",
        "serviceaccount",
        "root-ca-certificate-publisher",
        "pod-garbage-collector",
    )
)


class Controller(Protocol):
    """What keeps things in order beside the scheduler: the kubelets, a maker of volumes, a maker of a job's pods."""

    #: Called whenever all is done that can be done.
    on_idle: Callable[[], None]

    @property
    def kinds(self) -> Sequence[type[ApiObject]]:
        """The kinds that it follows."""
        ...

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do until something changes."""
        ...

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        ...


#: Makes a controller of a cluster.
MakeController = Callable[[MemoryCluster, Clock], Controller]


class Outcome(msgspec.Struct, frozen=True):
    """Where a pod went.

    `pod` is `namespace/name`; `node` is None while it is pending, and `message` then says why.
    """

    pod: str
    node: str | None
    message: str
    attempts: int
    profile: str = ""
    phase: str = ""


class SimulationResult(msgspec.Struct, frozen=True):
    """What a simulation came to.

    `outcomes` lists every pod in the order of its creation, `seconds` is the virtual time that passed, `retrying` names
    the pods that were still retried when the simulation gave up on them, and `stuck` says of those among them that had
    got as far as their binding where it was, as `in Quota.pre_bind for 40 s`, and how it ended before.
    """

    outcomes: tuple[Outcome, ...]
    decisions: tuple[Decision, ...]
    bindings: tuple[Binding, ...]
    seconds: float
    retrying: tuple[str, ...] = ()
    stuck: Mapping[str, str] = {}
    notices: tuple[str, ...] = ()


class Progress(msgspec.Struct, frozen=True):
    """How far a simulation has come: pods bound so far, of those that there have been without a node."""

    bound: int
    pods: int


class _Records:
    """Keeps every decision and binding, and how often each pod was tried."""

    def __init__(self, on_progress: Callable[[Progress], None], pods: int, on_decision: Callable[[], None]) -> None:
        self.decisions: list[Decision] = []
        self.bindings: list[Binding] = []
        self.attempts: dict[str, int] = {}
        #: How many pods there have been that had to be bound.
        self.pods = pods
        self._on_progress = on_progress
        self._on_decision = on_decision
        self._bound = 0

    def decided(self, decision: Decision) -> None:
        self.decisions.append(decision)
        self.attempts[decision.uid] = decision.tries
        self._on_decision()

    def bound(self, binding: Binding) -> None:
        self.bindings.append(binding)
        self._bound += binding.code == Code.SUCCESS
        self._on_progress(Progress(self._bound, self.pods))


class SimulatedExtender(Extender):
    """An extender that is really asked; what it binds is bound in the cluster in memory, which it knows nothing of."""

    def __init__(self, settings: ExtenderSettings, cluster: MemoryCluster) -> None:
        super().__init__(settings, HttpLine(settings))
        self._cluster = cluster

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        await super().bind(pod, node_name)
        try:
            await self._cluster.bind(pod.namespace, pod.name, pod.uid, node_name)
        except ClusterError as error:
            raise ExtenderError(str(error)) from error


def simulate(
    objects: Iterable[ApiObject],
    configuration: Configuration | None = None,
    *,
    duration: float | None = None,
    registry: Registry | None = None,
    observers: Iterable[Observer] = (),
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_end: Callable[[Scheduler[E]], None] = lambda scheduler: None,
    engine: MakeEngine[E] = PodEngine.of,  # type: ignore[assignment]  # E is PodEngine where none is given
    timed_share: float = 0.0,
    controllers: Sequence[MakeController] = (),
) -> SimulationResult:
    """Schedule the pods among these objects until nothing moves any more, or for `duration` virtual seconds.

    `on_end` may look at the scheduler as it stands in the end, `engine` make another engine, or one that is recorded.
    Plugins are timed in `timed_share` of the attempts. `controllers` work beside those of volumes and claims.
    Deterministic: the same objects, configuration and plugins give the same decisions in every process.
    """
    run = SimulatedRun(
        objects,
        configuration or default_configuration(),
        registry=registry,
        observers=observers,
        on_progress=on_progress,
        engine=engine,
        timed_share=timed_share,
        controllers=controllers,
    )
    with closing(run), collecting_rarely():
        spare()
        if duration is None:
            run.run()
        else:
            run.run_for(duration)
        on_end(run.scheduler)
        return run.result


class SimulatedRun(Generic[E]):
    """The scheduler on a cluster in memory, on a virtual time that passes only while it is told to go on.

    Whoever makes one closes it; until then all that there is can be looked at, and changed, between two steps.
    """

    def __init__(
        self,
        objects: Iterable[ApiObject],
        configuration: Configuration,
        *,
        registry: Registry | None = None,
        observers: Iterable[Observer] = (),
        on_progress: Callable[[Progress], None] = lambda progress: None,
        engine: MakeEngine[E] = PodEngine.of,  # type: ignore[assignment]  # as for `simulate`
        timed_share: float = 0.0,
        controllers: Iterable[MakeController] = (),
        workload_controllers: Sequence[str] = ("*",),
    ) -> None:
        self._runner = asyncio.Runner(loop_factory=VirtualTimeLoop)
        try:
            self._loop = self._runner.get_loop()
            objects = list(objects)
            self._records = _Records(on_progress, sum(map(_is_waiting, objects)), self._decided)
            self.clock: LoopClock = LoopClock(self._loop)
            self.cluster: MemoryCluster = MemoryCluster(self.clock, objects)
            self._kubelet = Kubelet(self.cluster, self.clock)
            self._controllers: list[Controller] = [
                self._kubelet,
                VolumeController(self.cluster),
                ClaimController(self.cluster),
                *_workload_controllers(workload_controllers, objects, self.cluster, self.clock),
                *(make(self.cluster, self.clock) for make in controllers),
            ]
            self.scheduler: Scheduler[E] = Scheduler(
                configuration,
                self.cluster,
                self.clock,
                registry=registry,
                observers=(self._records, *observers),
                slice=0.0,
                extender=lambda settings: SimulatedExtender(settings, self.cluster),
                engine=engine,
                timed_share=timed_share,
            )
        except BaseException:
            self._runner.close()
            raise
        self._began = self._moved_at = self.clock.now()
        self._retrying: tuple[str, ...] = ()
        self._stuck: dict[str, str] = {}
        #: What the loop stops for: the next decision, that nothing moves any more, or neither.
        self._stops_at_decision = self._stops_at_end = False
        #: Whether nothing moves any more.
        self.is_over: bool = False
        self._work: asyncio.Task[None] | None = None
        self.scheduler.on_idle = self._look
        for controller in self._controllers:
            controller.on_idle = self._look
        kinds = dict.fromkeys(kind for controller in self._controllers for kind in controller.kinds)
        self.cluster.subscribe([*kinds], self._note)

    # -- going on --------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """The virtual time that has passed."""
        return self.clock.now() - self._began

    def run(self) -> None:
        """Go on until nothing moves any more."""
        self._stops_at_end = True
        self._go_on()

    def run_for(self, seconds: float) -> None:
        """Go on for so many virtual seconds, whether anything moves or not."""
        timer = self._loop.call_later(seconds, self._loop.stop)
        try:
            self._go_on()
        finally:
            timer.cancel()

    def step(self) -> Decision | None:
        """Go on until the next attempt to schedule a pod has ended, and return it; None if there is none any more."""
        before = len(self._records.decisions)
        self._stops_at_decision = self._stops_at_end = True
        self._go_on()
        made = self._records.decisions[before:]
        return made[0] if made else None

    def _go_on(self) -> None:
        self.is_over = False
        with quitting():
            try:
                if self._work is None:
                    self._work = self._loop.create_task(self._main())
                    self._work.add_done_callback(self._stop)
                beside_running_loop(self._loop.run_forever)
            finally:
                self._stops_at_decision = self._stops_at_end = False
            if self._work.done():
                self._work.result()

    async def _main(self) -> None:
        async with anyio.create_task_group() as tasks:
            for controller in self._controllers:
                tasks.start_soon(controller.run)
            tasks.start_soon(self.scheduler.run)
            tasks.start_soon(self._give_up)

    def close(self) -> None:
        """Stop all that runs, and raise what anything of it fails with."""
        try:
            if self._work is not None and not self._work.done():
                self._work.remove_done_callback(self._stop)
                self._work.cancel()
                with quitting(), suppress(asyncio.CancelledError):
                    beside_running_loop(self._loop.run_until_complete, self._work)
        finally:
            beside_running_loop(self._runner.close)

    def _stop(self, work: asyncio.Task[None]) -> None:
        self._loop.stop()

    # -- where it ends ---------------------------------------------------------------------------------------------

    def _decided(self) -> None:
        if self._stops_at_decision:
            self._loop.stop()

    def _look(self) -> None:
        """Look, whenever the scheduler or a controller idles, whether anything can still happen."""
        if self._stops_at_end and self.scheduler.settled and all(each.idle for each in self._controllers):
            self._retrying, self._stuck = (), {}
            self._end()

    def _end(self) -> None:
        self.is_over = True
        self._loop.stop()

    async def _give_up(self) -> None:
        """End a simulation in which nothing moves any more although the scheduler is not done."""
        while True:
            still = self.clock.now() - self._moved_at
            if still >= STAGNATION and self._kubelet.idle and self._stops_at_end:
                self._retrying = self.scheduler.engine.retrying()
                self._stuck = {pod: why for pod in self._retrying if (why := self._why_stuck(pod))}
                self._end()
            await asyncio.sleep(max(STAGNATION - still, 1.0))

    def _why_stuck(self, pod: str) -> str:
        """Say where the binding of a pod is, and how its last one ended; "" if its last attempt led to none."""
        waiting = (each for each in self.scheduler.engine.cluster.waiting if each.pod.key == pod)
        where = "".join(reserved.whereabouts(self.clock.now()) for reserved in waiting)
        last = next((each for each in reversed(self._records.bindings) if each.pod == pod), None)
        tried = next((each.attempt for each in reversed(self._records.decisions) if each.pod == pod), 0)
        ended = last.message if last is not None and (where or last.attempt == tried) else ""
        return "; before, ".join(filter(None, (where, ended)))

    def _note(self, change: Change) -> None:
        """Note when an object last came, went, or came further."""
        old, new = change.old, change.new
        if old is None or new is None or _stage(old) != _stage(new):
            self._moved_at = self.clock.now()
        if old is None and new is not None:
            self._records.pods += _is_waiting(new)

    # -- what came of it -------------------------------------------------------------------------------------------

    @property
    def result(self) -> SimulationResult:
        """What it has come to so far."""
        return SimulationResult(
            tuple(self._outcome(pod) for pod in self.cluster.objects(Pod)),
            tuple(self._records.decisions),
            tuple(self._records.bindings),
            self.seconds,
            self._retrying,
            self._stuck,
            self.scheduler.profiles.notices,
        )

    def _outcome(self, pod: Pod) -> Outcome:
        metadata, spec = pod.metadata, pod.spec
        messages = [c.message for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"]
        return Outcome(
            f"{metadata.namespace}/{metadata.name}",
            spec.node_name or None,
            "" if spec.node_name else (messages[0] if messages else ""),
            self._records.attempts.get(metadata.uid, 0),
            spec.scheduler_name,
            pod.status.phase,
        )


def _workload_controllers(
    names: Sequence[str], objects: Sequence[ApiObject], cluster: MemoryCluster, clock: Clock
) -> Iterable[Controller]:
    """Make the controllers of workloads that are named, if there are any that say what pods to make."""
    makes_pods = (isinstance(each, _WORKLOADS) and each.spec.template.spec for each in objects)
    if not any(makes_pods) and not any(isinstance(each, CronJob) for each in objects):
        return ()
    from kframework.in_memory.garbage_collector import GarbageCollector  # most simulations do without
    from kframework.in_memory.workloads.selection import selected

    controllers = selected((*names, *_UNASKED), cluster, clock)
    return *controllers, GarbageCollector(cluster)


def _is_waiting(subject: ApiObject) -> bool:
    """Return whether this is a pod that needs a node."""
    return isinstance(subject, Pod) and not subject.spec.node_name


def _stage(subject: ApiObject) -> tuple[object, ...]:
    """Return how far an object has come: where a pod is, and its phase, which kinds call phase or state.

    Whatever else changes may change for ever, as the words of a condition do.
    """
    place = subject.spec.node_name if isinstance(subject, Pod) else ""
    status = getattr(subject, "status", None)
    state = getattr(status, "state", "")
    return place, getattr(status, "phase", ""), getattr(state, "phase", state)
