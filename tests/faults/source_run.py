"""A whole run of plugins whose sources and services fail in all ways, until a moment at which all is cured."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import anyio
import msgspec
from msgspec.structs import replace

from kframework import ClusterError, PluginError
from kframework.clock import VIRTUAL_EPOCH, LoopClock, run_virtual
from kframework.config.configuration import Configuration
from kframework.config.load import parse
from kframework.config.models import camel
from kframework.core.cycle.records import Binding, Decision, Observer
from kframework.core.runtime.registry import Registry
from kframework.framework.plugin import Plugin
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.objects import ApiObject, Node, Pod
from kframework.observe.recording.pod_engine import recording_pod_engine_factory
from kframework.observe.recording.writer import Recorder
from kframework.scheduler.scheduler import Scheduler
from kframework.testing import make_node, make_pod
from tests.faults.fault_schedule import FaultLog, PlantedFault
from tests.faults.invariants import ApiChecker, EngineChecker, leftovers, state_differences
from tests.faults.service_plugins import SERVICES, ServicePlugin, make_service_plugin
from tests.faults.source_plugins import APPS, CLOSED, LIMITS, NODES, PATIENCE, SourcePlugin, make_source_plugin

#: When all is well, for good, in seconds.
CURED = 90.0

#: How many pods are made at most, and how many there is room for on a node.
PODS, ROOM = 24, 16

#: How long a scheduler may take to stop, in seconds.
STOPPED = 40.0

#: The longest rest of a pod, by the whole second in which it ends.
REST = 11.0

#: How long an attempt may take that began before all was well: Permit, two PreBind plugins, a bind without an answer.
ATTEMPT = PATIENCE + 2 * (LIMITS["pre_bind"] + 1.0) + 3.0

_log = logging.getLogger("kframework")
_OF_A_HOOK = re.compile(r"plugin '(\w+)', hook ([\w ]+): ")


class World(msgspec.Struct, frozen=True):
    """What one seed makes: the plugins, and the book of what befalls them."""

    seed: int
    sources: Sequence[type[SourcePlugin]]
    services: Sequence[type[ServicePlugin]]
    ledger: FaultLog

    @property
    def plugins(self) -> list[type[Plugin]]:
        """All plugins."""
        return [*self.sources, *self.services]

    @property
    def registry(self) -> Registry:
        """All plugins, on offer."""
        return Registry.with_plugins(*self.plugins)

    @property
    def refresh_deadline(self) -> float:
        """When all sources have been heard after the cure, in seconds."""
        return CURED + max(plugin.declared.refresh_limit for plugin in self.sources)


def make_plugins(seed: int) -> World:
    """Make the plugins of a seed; they are as often new as they are made, and fare the same each time."""
    random, ledger = Random(f"{seed}/plugins"), FaultLog()
    pods = [f"default/pod-{number}" for number in range(PODS)]
    sources = [make_source_plugin(f"Source{n}", f"{seed}", pods, CURED, ledger) for n in range(random.randint(1, 4))]
    numbers = sorted(random.sample(range(len(SERVICES)), k=random.randint(1, len(SERVICES))))
    return World(seed, sources, [make_service_plugin(n, f"{seed}", CURED, ledger) for n in numbers], ledger)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a run came to; nothing in `problems` if all that must hold did, `history` is the same for the same seed."""

    seed: int
    recordings: Sequence[Path]
    bound: int
    waiting: int
    occurred: Counter[str]
    problems: list[str]
    history: list[object]

    def __str__(self) -> str:
        return "\n  ".join(
            [f"seed {self.seed} fails; its inboxes are {[*map(str, self.recordings)]}", *self.problems[:20]]
        )


def run(seed: int, folder: Path) -> Report:
    """Run the world of a seed to its end; the inbox is recorded in the folder."""
    with _capture_warnings() as lines:
        return run_virtual(SourceRun(make_plugins(seed), folder, lines).main)


def configuration(world: World) -> Configuration:
    """Make the default profile with all plugins, and little time for them."""
    names = ", ".join(f"{{name: {plugin.name}}}" for plugin in world.plugins)
    return parse(f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {{enabled: [{names}]}}
---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
seed: {world.seed}
podMaxInUnschedulablePodsDuration: 10h
hookTimeouts: {{{", ".join(f"{camel(hook)}: {seconds}s" for hook, seconds in LIMITS.items())}}}
""")


@contextmanager
def _capture_warnings() -> Iterator[list[logging.LogRecord]]:
    """Keep what is logged as a warning, or worse, from everybody else: it is much."""
    kept = _KeepingHandler(logging.WARNING)
    loggers = [logging.getLogger(name) for name in ("kframework", "asyncio")]
    for logger in loggers:
        logger.addHandler(kept)
        logger.propagate = False
    try:
        yield kept.lines
    finally:
        for logger in loggers:
            logger.removeHandler(kept)
            logger.propagate = True


class _KeepingHandler(logging.Handler):
    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.lines: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record)


class SourceRun(Observer):
    """One run."""

    def __init__(self, world: World, folder: Path, lines: list[logging.LogRecord]) -> None:
        self._world = world
        self._random = Random(f"{world.seed}/world")
        self._folder = folder
        self._lines = lines
        self._recordings: list[Path] = []
        self._decisions: list[Decision] = []
        self._bindings: list[Binding] = []
        self._failures: Counter[str] = Counter()
        self._complaints: list[str] = []
        # A scheduler that stops while plugins fail is followed by another one.
        self._stops = sorted(self._random.uniform(5.0, CURED) for _ in range(self._random.choice([0, 0, 0, 1, 2])))

    def on_decision(self, decision: Decision) -> None:
        self._decisions.append(decision)

    def on_binding(self, binding: Binding) -> None:
        self._bindings.append(binding)

    async def main(self) -> Report:
        """Let all happen until the cure, wait until what follows from it must be over, and look."""
        self._clock = LoopClock(asyncio.get_running_loop())
        self._store = MemoryCluster(self._clock, map(_node, NODES[:3]))
        self._store.faults.append(self._inject_faults)
        books = ApiChecker(self._store)
        async with anyio.create_task_group() as change:
            change.start_soon(self._change)
            ends = [*self._stops, self._world.refresh_deadline + ATTEMPT + 2 * REST]
            while ends:
                if await self._run_scheduler(ends[0]):
                    ends.pop(0)
                await asyncio.sleep(1.0)
        pods = self._store.objects(Pod)
        return Report(
            seed=self._world.seed,
            recordings=self._recordings,
            bound=sum(bool(pod.spec.node_name) for pod in pods),
            waiting=sum(not pod.spec.node_name for pod in pods),
            occurred=self._world.ledger.kinds,
            problems=[*self._complaints, *books.problems, *self._misattributed_faults(), *_leftover_tasks()],
            history=self._story(),
        )

    async def _run_scheduler(self, end: float) -> bool:
        """Live the life of a scheduler; False if it could not be started."""
        recording = self._folder / f"outside-{self._world.seed}-{len(self._recordings)}.jsonl.gz"
        recorder = Recorder(recording)
        scheduler = Scheduler(
            configuration(self._world),
            self._store,
            self._clock,
            registry=self._world.registry,
            observers=[self, recorder],
            slice=0.0,
            engine=recording_pod_engine_factory(recorder),
        )
        books, faults = EngineChecker(scheduler.engine), list[PluginError]()
        try:
            async with anyio.create_task_group() as scheduling:
                scheduling.start_soon(self._end, scheduler, books, end)
                await scheduler.run()
                scheduling.cancel_scope.cancel()
        except* PluginError as group:
            faults += _flatten(group)
        finally:
            recorder.close()
        for fault in faults:
            _log.error("%s", fault)
        if faults:
            return False
        self._recordings.append(recording)
        self._complaints += books.problems
        self._failures.update({source.plugin: source.failures for source in scheduler.engine.sources})
        return True

    async def _end(self, scheduler: Scheduler, books: EngineChecker, end: float) -> None:
        """Look at a scheduler at the end of its life, and stop it."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(end - loop.time(), 1.0))
        if end > CURED:
            self._complaints += leftovers(scheduler, books)
            self._complaints += await state_differences(scheduler, self._store, books)
            self._complaints += [*self._wrongly_pending(), *self._bound_late(), *self._leaked_reservations(scheduler)]
        scheduler.stop()
        await asyncio.sleep(STOPPED)
        self._complaints.append(f"the scheduler that was stopped after {end:.0f} s does not end")
        for task in asyncio.all_tasks():
            task.cancel()

    async def _change(self) -> None:
        """Let pods and nodes come and go."""
        random, loop, number = self._random, asyncio.get_running_loop(), 0
        while (pause := random.expovariate(PODS / CURED)) + loop.time() < CURED:
            await asyncio.sleep(pause)
            chance = random.random()
            if chance < 0.7 and number < PODS:
                self._store.add(_pod(f"pod-{number}", random.choice(APPS)))
                number += 1
            elif chance < 0.8 and (pods := self._store.objects(Pod)):
                self._store.remove(Pod, random.choice(pods).metadata.name, "default", grace=0)
            elif chance > 0.9:
                self._replace_node(random.choice(NODES))

    def _replace_node(self, name: str) -> None:
        """Take a node away with its pods, or bring it."""
        if self._store.find(Node, name) is None:
            self._store.add(_node(name))
        elif len(self._store.objects(Node)) > 1:
            self._store.remove(Node, name)
            for pod in self._store.objects(Pod):
                if pod.spec.node_name == name:
                    self._store.remove(Pod, pod.metadata.name, "default", grace=0)

    def _inject_faults(self, method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        """Let some bindings fail, or get no answer."""
        if method != "bind" or self._clock.now() >= VIRTUAL_EPOCH + CURED or self._random.random() > 0.3:
            return None
        status = self._random.choice([0, 409, 500, 504])
        error = ClusterError(f"binding failed with {status}", status=status, retryable=True)
        return Fault(error=error, delay=self._random.choice([0.0, 0.5]), done=status in (0, 409, 504))

    def _wrongly_pending(self) -> Iterator[str]:
        """Name the pods that wait although something is open to them."""
        for pod in self._store.objects(Pod):
            if not pod.spec.node_name and (nodes := [*self._allowed_nodes(pod)]):
                last = [decision for decision in self._decisions if decision.uid == pod.metadata.uid][-1:]
                yield f"{pod.metadata.name} waits, but {nodes} are open to it: {last}"

    def _allowed_nodes(self, pod: Pod) -> Iterator[str]:
        """List the nodes on which a pod may be, slowly and plainly."""
        for node in self._store.objects(Node):
            name = node.metadata.name
            on_it = [each for each in self._store.objects(Pod) if each.spec.node_name == name]
            if len(on_it) < ROOM and all(self._is_open(plugin, pod, name) for plugin in self._world.sources):
                yield name

    def _is_open(self, plugin: type[SourcePlugin], pod: Pod, node_name: str) -> bool:
        """Return whether a plugin lets a pod on a node, by what its source says in the end."""
        of_pod, truth = f"{pod.metadata.namespace}/{pod.metadata.name}", plugin.truth.at(self._clock.now())
        key = {"node": node_name, "pod": of_pod, "key": pod.metadata.labels["app"]}[plugin.declared.by]
        return plugin.declared.hook == "score" or truth.get(key, 1) != CLOSED

    def _bound_late(self) -> Iterator[str]:
        """Name the pods that were bound in the end, but rested for too long between two attempts since the cure."""
        refresh_deadline, pods = (
            VIRTUAL_EPOCH + self._world.refresh_deadline,
            {pod.metadata.uid for pod in self._store.objects(Pod)},
        )
        ended = {decision.uid: refresh_deadline for decision in self._decisions}
        for at, uid, popped in sorted(self._attempts()):
            if popped and uid in pods and at > ended[uid] + REST:
                yield f"{uid} was tried {at - ended[uid]:.3f} s after all was well, or after its last attempt"
            ended[uid] = max(ended[uid], at)

    def _attempts(self) -> Iterator[tuple[float, str, bool]]:
        """List when attempts began, and when their bindings ended."""
        yield from ((decision.popped_at, decision.uid, True) for decision in self._decisions)
        yield from ((binding.ended_at, binding.uid, False) for binding in self._bindings)

    def _leaked_reservations(self, scheduler: Scheduler) -> Iterator[str]:
        """Name what was reserved for pods that are not bound."""
        unbound = {pod.metadata.uid for pod in self._store.objects(Pod) if not pod.spec.node_name}
        for _, plugin in scheduler.profiles.plugins():
            if isinstance(plugin, ServicePlugin):
                kept = sorted(plugin.claimed.keys() & unbound)
                yield from (f"{plugin.name} holds what it has reserved for {uid}" for uid in kept)

    def _misattributed_faults(self) -> Iterator[str]:
        """List the faults without blame, and the blame without a fault."""
        occurred, reported = self._world.ledger.occurred, self._told()
        beside = {plugin.name for plugin in self._world.services if plugin.parallel_pre_bind}
        for blame in sorted(occurred | reported):
            # What is broken off, with its scheduler or by another PreBind plugin that fails first, need not be
            # reported.
            fewer = bool(self._stops) or blame.plugin in beside
            wrong = reported[blame] > occurred[blame] or (reported[blame] < occurred[blame] and not fewer)
            if wrong:
                yield f"{blame} was reported {reported[blame]} times, and struck {occurred[blame]} times"

    def _told(self) -> Counter[PlantedFault]:
        """Count whom the sources' messages and the log blame."""
        reported = Counter(
            {PlantedFault(plugin, "data"): failures for plugin, failures in self._failures.items() if failures}
        )
        for line in self._lines:
            if line.name != "kframework.scheduler.sources":
                found = _OF_A_HOOK.match(line.getMessage())
                reported[PlantedFault(*found.groups()) if found else PlantedFault("nobody", line.getMessage())] += 1
        return reported

    def _story(self) -> list[object]:
        """Return what happened, without what was measured."""
        decisions = [replace(each, started=0, timings=(), plugins=()) for each in self._decisions]
        bindings = [replace(each, started=0, steps=(), plugins=()) for each in self._bindings]
        lines = [line.getMessage() for line in self._lines]
        return [*decisions, *bindings, *lines, *sorted(self._world.ledger.occurred.items())]


def _flatten(group: BaseExceptionGroup[PluginError]) -> Iterator[PluginError]:
    """List what a group of groups is made of."""
    for error in group.exceptions:
        yield from _flatten(error) if isinstance(error, BaseExceptionGroup) else [error]


def _node(name: str) -> Node:
    return make_node(name, cpu=ROOM, memory="32Gi", pods=50)


def _pod(name: str, app: str) -> Pod:
    pod = make_pod(name, cpu=1, labels={"app": app})
    return replace(pod, metadata=replace(pod.metadata, uid=""))


def _leftover_tasks() -> Iterator[str]:
    return (f"{task!r} is left" for task in asyncio.all_tasks() if task is not asyncio.current_task())
