"""A scheduler that takes configurations while it runs, and plugins that say which of them decided."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from kframework import CycleState, NodeInfo, PendingPod, Plugin, PluginArgs, Status, Wait, hookimpl, unschedulable
from kframework.clock import LoopClock
from kframework.config.load import parse
from kframework.config.models import ExtenderSettings
from kframework.core.cycle.records import Decision, Observer
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.framework.handle import Handle
from kframework.framework.plugin import Watch
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, Namespace, Pod, PriorityClass
from kframework.observe.history import History
from kframework.scheduler.extender import Extender
from kframework.scheduler.scheduler import EngineFactory, Scheduler, http_extender
from kframework.scheduler.succession import Succession
from kframework.testing import make_node, make_pod

#: What plugins do, in order.
JOURNAL: list[str] = []


class RuleArgs(PluginArgs):
    """What a Rule does."""

    node: str = ""
    """The only node that it accepts, if it is not empty."""
    gate: str = ""
    """The names of pods that it keeps out begin with this."""
    holds: bool = False
    """Whether pods wait on Permit until they are allowed."""
    fails: bool = False
    """Whether it cannot start."""


class Rule(Plugin[RuleArgs]):
    """Does what its args say, and writes down what it is asked."""

    name = "Rule"
    watches: ClassVar[tuple[Watch, ...]] = ()

    def __init__(self, args: RuleArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.says = args.node or args.gate or "-"
        self.seen: list[str] = []
        handle.on_change(Namespace, lambda old, new: self.seen.append(new.metadata.name if new else "gone"))

    async def start(self) -> None:
        if self.args.fails:
            raise ConnectionError("no licence")
        JOURNAL.append(f"start {self.says}")
        self.handle.spawn(self.work())

    async def work(self) -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            JOURNAL.append(f"end of work {self.says}")

    async def close(self) -> None:
        JOURNAL.append(f"close {self.says}")

    @hookimpl
    def pre_enqueue(self, pod: PendingPod) -> Status | None:
        return unschedulable("gated") if self.args.gate and pod.name.startswith(self.args.gate) else None

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return unschedulable("other node") if self.args.node not in ("", node.name) else None

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Wait | None:
        return Wait(600.0) if self.args.holds else None

    @hookimpl
    def unreserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        JOURNAL.append(f"unreserve {pod.name} {self.says}")

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        return None

    @hookimpl
    def post_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        JOURNAL.append(f"post_bind {pod.name} {self.says}")


class WatchingRule(Rule):
    """Another plugin, which needs a kind that nothing else does."""

    name = "WatchingRule"
    watches: ClassVar[tuple[Watch, ...]] = (Watch(PriorityClass),)

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        names = [each.metadata.name for each in self.handle.objects(PriorityClass)]
        return None if names == ["gold"] else unschedulable(f"sees {names}")


class FedArgs(PluginArgs):
    """Which node it wants."""

    node: str = "a"
    """The node."""


class Fed(Plugin[FedArgs]):
    """Accepts the node that its source names, which takes a while to answer."""

    name = "Fed"

    def __init__(self, args: FedArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.wanted = handle.source("wanted", str, self.fetch, every=10.0)

    async def fetch(self) -> Mapping[str, str]:
        JOURNAL.append(f"fetch {self.args.node}")
        await asyncio.sleep(2.0)
        return {"node": self.args.node}

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return None if self.wanted["node"] == node.name else unschedulable("not wanted")


REGISTRY = Registry.with_plugins(Rule, WatchingRule, Fed)


def plugins() -> list[type[Plugin]]:
    """Return the classes."""
    return [Rule, WatchingRule, Fed]


def profile(
    name: str = "default-scheduler",
    plugin: str = "Rule",
    weight: int = 1,
    strategy: str = "LeastAllocated",
    **args: Any,
) -> str:
    """Return a profile of a plugin beside the default ones."""
    fit = {"scoringStrategy": {"type": strategy}}
    return (
        f"- schedulerName: {name}\n"
        f"  plugins:\n    multiPoint: {{enabled: [{{name: {plugin}}}, {{name: ImageLocality, weight: {weight}}}]}}\n"
        f"  pluginConfig: [{{name: {plugin}, args: {json.dumps(args)}}}, {{name: NodeResourcesFit, args: {fit}}}]\n"
    )


def document(*profiles: str, settings: str = "", options: str = "") -> str:
    """Return a configuration file with these profiles."""
    return (
        f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{settings}\n"
        f"profiles:\n{''.join(profiles)}"
        f"---\napiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\n{options}\n"
    )


class Stage:
    """A scheduler at work on nodes a and b."""

    def __init__(
        self,
        text: str,
        *observers: Observer,
        objects: Iterable[ApiObject] = (make_node("a"), make_node("b")),
        engine: EngineFactory[PodEngine] = PodEngine.from_configuration,
        registry: Registry | None = None,
        extender: Callable[[ExtenderSettings], Extender] = http_extender,
    ) -> None:
        clock = LoopClock(asyncio.get_running_loop())
        self.history = History()
        self.cluster = MemoryCluster(clock, objects)
        self.scheduler = Scheduler(
            parse(text),
            self.cluster,
            clock,
            registry=registry or REGISTRY,
            observers=[self.history, *observers],
            engine=engine,
            extender=extender,
            slice=0.0,
        )

    async def take(self, text: str) -> None:
        succession = Succession(self.scheduler, parse(text, "scheduler.yaml"), REGISTRY)
        await succession.take()

    async def add(self, name: str, **fields: Any) -> None:
        self.cluster.add(make_pod(name, **fields))
        await asyncio.sleep(0.1)

    def node_of(self, name: str) -> str:
        return next(pod.spec.node_name for pod in self.cluster.objects(Pod) if pod.metadata.name == name)

    def decisions(self) -> list[Decision]:
        return list(self.history.recent(100))[::-1]

    @property
    def rule(self) -> Rule:
        plugin = self.scheduler.profiles["default-scheduler"].plugins["Rule"]
        assert isinstance(plugin, Rule)
        return plugin
