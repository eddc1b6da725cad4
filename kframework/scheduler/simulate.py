"""Simulation: the real scheduler on a cluster in memory, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

import anyio
import msgspec

from kframework.clock import Clock, LoopClock, run_virtual
from kframework.cluster.claim_controller import ClaimController
from kframework.cluster.kind_store import Change
from kframework.cluster.kubelet import Kubelet
from kframework.cluster.memory import MemoryCluster
from kframework.cluster.volume_controller import VolumeController
from kframework.config.configuration import Configuration
from kframework.config.load import default_configuration
from kframework.config.models import Extender as ExtenderSettings
from kframework.core.cycle.decision import Binding, Decision, Observer
from kframework.core.cycle.extending import ExtenderError
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.errors import ClusterError
from kframework.framework.status import Code
from kframework.objects import ApiObject, Pod
from kframework.scheduler.extender import Extender
from kframework.scheduler.garbage import collecting_rarely, spare
from kframework.scheduler.http_line import HttpLine
from kframework.scheduler.scheduler import E, MakeEngine, Scheduler
from kframework.state.pods import PodInfo

#: A simulation in which nothing has moved for so long is over, in virtual seconds.
STAGNATION = 3600.0


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


class Simulation(msgspec.Struct, frozen=True):
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

    def __init__(self, on_progress: Callable[[Progress], None], pods: int) -> None:
        self.decisions: list[Decision] = []
        self.bindings: list[Binding] = []
        self.attempts: dict[str, int] = {}
        #: How many pods there have been that had to be bound.
        self.pods = pods
        self._on_progress = on_progress
        self._bound = 0

    def decided(self, decision: Decision) -> None:
        self.decisions.append(decision)
        self.attempts[decision.uid] = decision.tries

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
) -> Simulation:
    """Schedule the pods among these objects until nothing moves any more, or for `duration` virtual seconds.

    `on_end` may look at the scheduler as it stands in the end, `engine` make another engine, or one that is recorded.
    Plugins are timed in `timed_share` of the attempts. `controllers` work beside those of volumes and claims.
    Deterministic: the same objects, configuration and plugins give the same decisions in every process.
    """
    run = _Run(
        list(objects),
        configuration or default_configuration(),
        duration,
        registry,
        tuple(observers),
        on_progress,
        on_end,
        engine,
        timed_share,
        controllers,
    )
    return run_virtual(run.main)


@dataclass
class _Run(Generic[E]):
    """One simulation while it runs."""

    objects: list[ApiObject]
    configuration: Configuration
    duration: float | None
    registry: Registry | None
    observers: tuple[Observer, ...]
    on_progress: Callable[[Progress], None]
    on_end: Callable[[Scheduler[E]], None]
    engine: MakeEngine[E]
    timed_share: float
    controllers: Sequence[MakeController]

    async def main(self) -> Simulation:
        """Run the cluster, its kubelets and controllers, and the scheduler until the end."""
        self._records = _Records(self.on_progress, sum(map(_is_waiting, self.objects)))
        self._retrying: tuple[str, ...] = ()
        self._stuck: dict[str, str] = {}
        self._clock = LoopClock(asyncio.get_running_loop())
        self._cluster = MemoryCluster(self._clock, self.objects)
        self._kubelet = Kubelet(self._cluster, self._clock)
        self._controllers: list[Controller] = [
            self._kubelet,
            VolumeController(self._cluster),
            ClaimController(self._cluster),
        ]
        self._controllers += [make(self._cluster, self._clock) for make in self.controllers]
        self._scheduler: Scheduler[E] = Scheduler(
            self.configuration,
            self._cluster,
            self._clock,
            registry=self.registry,
            observers=(self._records, *self.observers),
            slice=0.0,
            extender=lambda settings: SimulatedExtender(settings, self._cluster),
            engine=self.engine,
            timed_share=self.timed_share,
        )
        began = self._moved_at = self._clock.now()
        self._over = asyncio.Event()
        self._scheduler.on_idle = self._look
        for controller in self._controllers:
            controller.on_idle = self._look
        kinds = dict.fromkeys(kind for controller in self._controllers for kind in controller.kinds)
        self._cluster.subscribe([*kinds], self._note)
        with collecting_rarely():
            spare()
            async with anyio.create_task_group() as tasks:
                for controller in self._controllers:
                    tasks.start_soon(controller.run)
                tasks.start_soon(self._scheduler.run)
                if self.duration is None:
                    tasks.start_soon(self._give_up)
                with anyio.move_on_after(self.duration):
                    await self._over.wait()
                self.on_end(self._scheduler)
                tasks.cancel_scope.cancel()
            return self._result(self._clock.now() - began)

    def _look(self) -> None:
        """Look, whenever the scheduler or a controller idles, whether anything can still happen."""
        if self.duration is None and self._scheduler.settled and all(each.idle for each in self._controllers):
            self._over.set()

    async def _give_up(self) -> None:
        """End a simulation in which nothing moves any more although the scheduler is not done."""
        while True:
            still = self._clock.now() - self._moved_at
            if still >= STAGNATION and self._kubelet.idle:
                break
            await asyncio.sleep(max(STAGNATION - still, 1.0))
        self._retrying = self._scheduler.engine.retrying()
        self._stuck = {pod: why for pod in self._retrying if (why := self._why_stuck(pod))}
        self._over.set()

    def _why_stuck(self, pod: str) -> str:
        """Say where the binding of a pod is, and how its last one ended; "" if its last attempt led to none."""
        waiting = (each for each in self._scheduler.engine.cluster.waiting if each.pod.key == pod)
        where = "".join(reserved.whereabouts(self._clock.now()) for reserved in waiting)
        last = next((each for each in reversed(self._records.bindings) if each.pod == pod), None)
        tried = next((each.attempt for each in reversed(self._records.decisions) if each.pod == pod), 0)
        ended = last.message if last is not None and (where or last.attempt == tried) else ""
        return "; before, ".join(filter(None, (where, ended)))

    def _note(self, change: Change) -> None:
        """Note when an object last came, went, or came further."""
        old, new = change.old, change.new
        if old is None or new is None or _stage(old) != _stage(new):
            self._moved_at = self._clock.now()
        if old is None and new is not None:
            self._records.pods += _is_waiting(new)

    def _result(self, seconds: float) -> Simulation:
        outcomes = tuple(self._outcome(pod) for pod in self._cluster.objects(Pod))
        return Simulation(
            outcomes,
            tuple(self._records.decisions),
            tuple(self._records.bindings),
            seconds,
            self._retrying,
            self._stuck,
            self._scheduler.profiles.notices,
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
