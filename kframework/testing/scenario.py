"""Run the real scheduler on a cluster in memory, on virtual time, in a few lines.

    scenario = Scenario(nodes=[make_node("a"), make_node("b")], pods=[make_pod("web")], plugins=[FewestPods])
    scenario.at(5.0, patch(make_node("a"), {"spec": {"unschedulable": True}}))
    scenario.at(9.0, create(make_pod("late")))
    result = scenario.run()
    assert result.node_of("late") == "b"

Nothing is faked but the cluster: queue, cycle, binding and events are those of a real run, and an hour of backoff takes
milliseconds. The same scenario always ends the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial

import anyio.to_thread
import msgspec

from kframework.config.load import parse
from kframework.core.cycle.records import Binding, Decision, Observer
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.programmatic import plugin_sets
from kframework.framework.plugin import Plugin
from kframework.in_memory.claim_controller import ClaimController
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kubelet import Kubelet
from kframework.objects import ApiObject, Event, Node, Pod, PodCondition
from kframework.scheduler.read_only import with_read_only_objects
from kframework.simulation.controllers import ControllerFactory, volume_controller
from kframework.simulation.running import IDLE_LIMIT, Action, Script, TimedAction
from kframework.simulation.simulation import Simulation
from kframework.simulation.source_script import SourceScript, replace_source
from kframework.state.pods import QueuedPod
from kframework.testing.single_plugin import format_profile


def create(obj: ApiObject) -> Action:
    """Create an object."""
    return lambda cluster: cluster.add(obj)


def delete(obj: ApiObject) -> Action:
    """Delete the object of this name; a pod on a node first gets its grace period."""
    return lambda cluster: cluster.remove(type(obj), *_name(obj))


def patch(obj: ApiObject, changes: Mapping[str, object]) -> Action:
    """Merge changes, spelled as in YAML, into the object of this name, its status as well; None removes a field."""
    name, namespace = _name(obj)
    return lambda cluster: cluster.merge(type(obj), name, changes, namespace)


def _name(obj: ApiObject) -> tuple[str, str]:
    return obj.metadata.name, obj.metadata.namespace


class Scenario:
    """A simulation with a script: a cluster, a configuration, and events at given times.

    `plugins` are classes, enabled at every point they extend: they bind before the default plugins, replace their
    QueueSort plugin, and are behind them elsewhere. `args` and `weights` belong to them by name, as in YAML. With
    `config`, the text of a configuration file, the plugins are only on offer: the file selects those that run.
    `objects` are all but nodes and pods. Claims are made as by Kubernetes' own controllers, and volumes bound and made,
    unless `volume_controller` is False. `observers` are notified of decisions and bindings as they are made.
    """

    def __init__(
        self,
        *,
        nodes: Iterable[Node] = (),
        pods: Iterable[Pod] = (),
        objects: Iterable[ApiObject] = (),
        plugins: Iterable[type[Plugin]] = (),
        args: Mapping[str, Mapping[str, object]] | None = None,
        weights: Mapping[str, int] | None = None,
        config: str | None = None,
        volume_controller: bool = True,
        observers: Iterable[Observer] = (),
    ) -> None:
        self._observers = tuple(observers)
        self._volume_controller = volume_controller
        self._objects = [*objects, *nodes, *pods]
        self._plugins = list(plugins)
        sets = plugin_sets(self._plugins, weights or {})
        self._config = config if config is not None else format_profile(sets, args or {})
        self._actions: list[TimedAction] = []
        self._scripts: list[SourceScript] = []

    def at(self, seconds: float, action: Action) -> Scenario:
        """Schedule an action, in seconds after the start; at 0 it runs before the scheduler starts."""
        self._actions.append((seconds, action))
        return self

    def source(self, plugin: str, name: str, values: Mapping[str, object] | None = None) -> SourceScript:
        """Return a script for a source of a plugin, in every profile, that replaces its fetches."""
        script = SourceScript(plugin, name, values)
        self._scripts.append(script)
        return script

    def run(self, until: float | None = None) -> ScenarioResult:
        """Run from the start for `until` virtual seconds, or until there is nothing left to do.

        Raises ConfigError for an unusable plugin or configuration, RuntimeError in a running event loop; there use
        `await scenario.arun()`.
        """
        if asyncio._get_running_loop() is not None:
            raise RuntimeError("an event loop is already running: await scenario.arun() instead")
        with self._simulation() as simulation:
            if until is not None:
                simulation.run(until)
            else:
                # Pods that keep preempting each other would run forever.
                last = max((seconds for seconds, _ in self._actions), default=0.0)
                simulation.run_to_end(last + IDLE_LIMIT)
        queue, profiles = simulation.scheduler.engine.queue, simulation.scheduler.profiles
        return ScenarioResult(
            cluster=simulation.cluster,
            decisions=tuple(simulation.decisions),
            bindings=tuple(simulation.bindings),
            seconds=simulation.seconds,
            plugins=next(iter(profiles.values())).plugins,
            waiting={queued.pod.uid: (queue.queue_of(queued.pod.uid), queued) for queued in queue},
        )

    async def arun(self, until: float | None = None) -> ScenarioResult:
        """Run as `run` does, from an `async` test: on a thread with its own loop and time."""
        return await anyio.to_thread.run_sync(self.run, until)

    def _simulation(self) -> Simulation:
        volumes: tuple[ControllerFactory, ...] = (volume_controller,) if self._volume_controller else ()
        script = partial(Script, actions=self._actions, is_settled=self._is_settled)
        simulation = Simulation(
            self._objects,
            parse(self._config, "config"),
            plugins=self._plugins,
            observers=self._observers,
            engine=with_read_only_objects(PodEngine.from_configuration),
            controllers=[Kubelet, ClaimController, *volumes, script],
            workload_controllers=(),
        )
        for source in self._scripts:
            replace_source(source, simulation.scheduler.profiles)
        return simulation

    def _is_settled(self) -> bool:
        return all(source.is_settled() for source in self._scripts)


class ScenarioResult(msgspec.Struct, frozen=True):
    """The result of a scenario; pods are named `name`, or `namespace/name` outside the namespace `default`.

    `cluster` is as it was at the end, `seconds` the virtual time that passed. `decisions` and `bindings` are the
    scheduler's own records, `plugins` the instances of the first profile by name, `waiting` the queued pods by uid.
    """

    cluster: MemoryCluster
    decisions: tuple[Decision, ...]
    bindings: tuple[Binding, ...]
    seconds: float
    plugins: Mapping[str, Plugin]
    waiting: Mapping[str, tuple[str, QueuedPod]]

    def __repr__(self) -> str:
        pods = self.cluster.objects(Pod)
        bound = sum(bool(pod.spec.node_name) for pod in pods)
        return f"<ScenarioResult: {bound} of {len(pods)} pods bound, {self.seconds:g} s of virtual time>"

    def pod(self, name: str) -> Pod:
        """Return a pod as the cluster has it; ClusterError 404 if there is none."""
        namespace, _, short = name.rpartition("/")
        return self.cluster.read(Pod, short, namespace or "default")

    def node_of(self, name: str) -> str | None:
        """Return the node that a pod is bound to, None while there is none."""
        return self.pod(name).spec.node_name or None

    def condition_of(self, name: str, type: str = "PodScheduled") -> PodCondition | None:
        """Return a condition of a pod."""
        return next((each for each in self.pod(name).status.conditions if each.type == type), None)

    def message_of(self, name: str) -> str:
        """Return why a pod is not scheduled, from its condition; empty when it is."""
        condition = self.condition_of(name)
        return condition.message if condition is not None and condition.status == "False" else ""

    def state_of(self, name: str) -> str:
        """Return a pod's state: `bound`, its queue (`active`, `backoff`, `unschedulable`, `gated`), or `neither`."""
        if self.node_of(name) is not None:
            return "bound"
        return self.waiting.get(self.pod(name).metadata.uid, ("neither", None))[0]

    def queued(self, name: str) -> QueuedPod:
        """Return the queue's entry of a pod, with its rejectors for example; KeyError if it is not queued."""
        _, queued = self.waiting[self.pod(name).metadata.uid]
        return queued

    def decisions_on(self, name: str) -> list[Decision]:
        """List the attempts to schedule a pod, in order; also of a deleted one."""
        key = name if "/" in name else f"default/{name}"
        return [decision for decision in self.decisions if decision.pod == key]

    @property
    def events(self) -> list[Event]:
        """List the events that were recorded, in order."""
        return self.cluster.objects(Event)

    def events_on(self, name: str) -> list[tuple[str, str]]:
        """List (reason, note) of the events about a pod, in order."""
        namespace, _, short = name.rpartition("/")
        about = [e for e in self.events if (e.regarding.namespace, e.regarding.name) == (namespace or "default", short)]
        return [(event.reason, event.note) for event in about]
