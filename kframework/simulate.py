"""Simulation: the real scheduler on a cluster in memory, on virtual time."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterable

import anyio
import msgspec

from kframework.clock import LoopClock, run_virtual
from kframework.cluster.kubelet import Kubelet
from kframework.cluster.memory import MemoryCluster
from kframework.cluster.shelf import Change
from kframework.cluster.volume_controller import VolumeController
from kframework.config import Configuration, default_configuration
from kframework.config import Extender as ExtenderSettings
from kframework.decision import Binding, Decision
from kframework.errors import ClusterError
from kframework.extender import Extender, ExtenderError
from kframework.http_line import HttpLine
from kframework.objects import ApiObject, Pod
from kframework.pod_engine import PodEngine
from kframework.registry import Registry
from kframework.scheduler import MakeEngine, Observer, Scheduler
from kframework.state.pods import PodInfo
from kframework.status import Code

__all__ = ["Outcome", "Progress", "SimulatedExtender", "Simulation", "simulate"]

#: A simulation in which nothing has moved for so long is over, in virtual seconds.
STAGNATION = 3600.0


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
    the pods that were still retried when the simulation gave up on them.
    """

    outcomes: tuple[Outcome, ...]
    decisions: tuple[Decision, ...]
    bindings: tuple[Binding, ...]
    seconds: float
    retrying: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


class Progress(msgspec.Struct, frozen=True):
    """How far a simulation has come: pods bound so far, of those that were pending at the start."""

    bound: int
    pods: int


class _Records:
    """Keeps every decision and binding, and how often each pod was tried."""

    def __init__(self, on_progress: Callable[[Progress], None], pods: int) -> None:
        self.decisions: list[Decision] = []
        self.bindings: list[Binding] = []
        self.attempts: dict[str, int] = {}
        self._on_progress = on_progress
        self._pods = pods
        self._bound = 0

    def decided(self, decision: Decision) -> None:
        """Keep an attempt."""
        self.decisions.append(decision)
        self.attempts[decision.uid] = decision.tries

    def bound(self, binding: Binding) -> None:
        """Keep a binding cycle."""
        self.bindings.append(binding)
        self._bound += binding.code == Code.SUCCESS
        self._on_progress(Progress(self._bound, self._pods))


class SimulatedExtender(Extender):
    """An extender that is really asked; what it binds is bound in the cluster in memory, which it knows nothing of."""

    def __init__(self, settings: ExtenderSettings, cluster: MemoryCluster) -> None:
        super().__init__(settings, HttpLine(settings))
        self._cluster = cluster

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Have the pod bound to the node; raises ExtenderError."""
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
    on_end: Callable[[Scheduler], None] = lambda scheduler: None,
    engine: MakeEngine = PodEngine.of,
    timed_share: float = 0.0,
) -> Simulation:
    """Schedule the pods among these objects until nothing moves any more, or for `duration` virtual seconds.

    `on_end` may look at the scheduler as it stands in the end, `engine` make an engine that is recorded. Plugins are
    timed in `timed_share` of the attempts. Deterministic: the same objects, configuration and plugins give the same
    decisions in every process.
    """
    configuration = configuration or default_configuration()
    run = _Run(list(objects), configuration, duration, registry, observers, on_progress, on_end, engine, timed_share)
    return run_virtual(run.main)


class _Run:
    """One simulation while it runs."""

    def __init__(
        self,
        objects: list[ApiObject],
        configuration: Configuration,
        duration: float | None,
        registry: Registry | None,
        observers: Iterable[Observer],
        on_progress: Callable[[Progress], None],
        on_end: Callable[[Scheduler], None],
        engine: MakeEngine,
        timed_share: float,
    ) -> None:
        self._objects = objects
        self._configuration = configuration
        self._duration = duration
        self._registry = registry
        self._observers = tuple(observers)
        pods = sum(isinstance(obj, Pod) and not obj.spec.node_name for obj in objects)
        self._records = _Records(on_progress, pods)
        self._on_end = on_end
        self._timed_share = timed_share
        self._engine = engine
        self._moved_at = 0.0
        self._retrying: tuple[str, ...] = ()

    async def main(self) -> Simulation:
        """Run the cluster, its kubelets and volumes, and the scheduler until the end."""
        self._clock = LoopClock(asyncio.get_running_loop())
        self._cluster = MemoryCluster(self._clock, self._objects)
        self._kubelet = Kubelet(self._cluster, self._clock)
        self._volumes = VolumeController(self._cluster)
        self._scheduler = Scheduler(
            self._configuration,
            self._cluster,
            self._clock,
            registry=self._registry,
            observers=(self._records, *self._observers),
            slice=0.0,
            extender=lambda settings: SimulatedExtender(settings, self._cluster),
            engine=self._engine,
            timed_share=self._timed_share,
        )
        began = self._moved_at = self._clock.now()
        self._over = asyncio.Event()
        self._scheduler.on_idle = self._volumes.on_idle = self._look
        self._cluster.subscribe([Pod], self._note)
        # What was loaded lives as long as the simulation: the collector need not walk it again and again.
        gc.freeze()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._kubelet.run)
                tasks.start_soon(self._volumes.run)
                tasks.start_soon(self._scheduler.run)
                if self._duration is None:
                    tasks.start_soon(self._give_up)
                with anyio.move_on_after(self._duration):
                    await self._over.wait()
                self._on_end(self._scheduler)
                tasks.cancel_scope.cancel()
        finally:
            gc.unfreeze()
        return self._result(self._clock.now() - began)

    def _look(self) -> None:
        """Look, whenever the scheduler idles, whether anything can still happen."""
        if self._duration is not None:
            return
        if self._scheduler.settled and self._kubelet.due is None and self._volumes.idle:
            self._over.set()

    async def _give_up(self) -> None:
        """End a simulation in which nothing moves any more although the scheduler is not done."""
        while True:
            still = self._clock.now() - self._moved_at
            if still >= STAGNATION and self._kubelet.due is None:
                break
            await asyncio.sleep(max(STAGNATION - still, 1.0))
        engine = self._scheduler.engine
        self._retrying = tuple(p.key for p in engine.handlers.pending.values() if not engine.queue.dormant(p.uid))
        self._over.set()

    def _note(self, change: Change) -> None:
        """Note when a pod was last created, bound, ended or deleted."""
        old, new = change.old, change.new
        if not isinstance(old, Pod) or not isinstance(new, Pod):
            self._moved_at = self._clock.now()
        elif old.spec.node_name != new.spec.node_name or old.status.phase != new.status.phase:
            self._moved_at = self._clock.now()

    def _result(self, seconds: float) -> Simulation:
        outcomes = tuple(self._outcome(pod) for pod in self._cluster.objects(Pod))
        return Simulation(
            outcomes,
            tuple(self._records.decisions),
            tuple(self._records.bindings),
            seconds,
            self._retrying,
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
