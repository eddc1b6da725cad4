"""What worlds with a scheduler have in common: the scheduler, a cluster at the other end, the others, and the books."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial

import anyio

from kframework.client.cluster import Cluster
from kframework.clock import LoopClock
from kframework.config.configuration import Configuration
from kframework.config.load import parse
from kframework.core.runtime.registry import Registry
from kframework.errors import ClusterError
from kframework.framework.plugin import Plugin
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, Node, Pod
from kframework.objects.requests import allocatable
from kframework.objects.requests import on_node_requests as requests
from kframework.scheduler.extender import Extender
from kframework.scheduler.extender_http import HttpExtenderTransport
from kframework.scheduler.scheduler import Scheduler, http_extender
from tests.faults.invariants import ApiChecker, EngineChecker, leftovers, state_differences
from tests.interleavings.delayed_cluster import DelayedCluster
from tests.interleavings.loop import ExploringLoop

__all__ = ["Act", "Stage", "this_loop"]

#: Something that others do to the cluster, and what it is called.
Act = tuple[str, Callable[[], object]]

#: For how long things are in disorder, and how long all is quiet before the books are closed, in seconds.
DISORDER, QUIET = 20.0, 120.0


def this_loop() -> ExploringLoop:
    """Return the loop that explores."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ExploringLoop)
    return loop


class Stage:
    """A scheduler with its cluster.

    `plugins` run beside the built-in ones; `at_once` are methods of the API that are not explored.
    `connect` makes another client of the cluster than that one; `line` leads to an extender, if
    there is one.
    """

    def __init__(
        self,
        objects: Sequence[ApiObject],
        plugins: Sequence[type[Plugin]] = (),
        *,
        at_once: Sequence[str] = ("record_event", "patch_pod_status"),
        connect: Callable[[MemoryCluster], Cluster] | None = None,
        line: HttpExtenderTransport | None = None,
    ) -> None:
        self.loop = this_loop()
        self.clock = LoopClock(self.loop)
        self.store = MemoryCluster(self.clock)
        self.api_books = ApiChecker(self.store)
        self.store.load(objects)
        self.client = DelayedCluster(self.store, at_once=at_once)
        #: How often each plugin was started, and how often closed.
        self.lives: dict[str, Counter[str]] = {}
        configuration = _configuration(*(plugin.name for plugin in plugins), extender=line is not None)
        registry = Registry.with_plugins(*plugins) if plugins else _INSTALLED
        extender = http_extender if line is None else partial(Extender, transport=line)
        client = self.client if connect is None else connect(self.store)
        self.scheduler = Scheduler(configuration, client, self.clock, registry=registry, slice=0.0, extender=extender)
        self._books = EngineChecker(self.scheduler.engine)
        self._count_lives()
        self.store.subscribe([Pod], self._kubelet)

    def act(self, *acts: Act, who: str = "others") -> None:
        """Do this to the cluster, one step after the other; steps about deleted objects are skipped."""
        for label, do in acts:
            self.loop.offer(who, (label, partial(_tolerant, do)), awaited=False)

    async def run(self, *problems: Callable[[], Iterator[str]]) -> list[str]:
        """Let it happen, and return what does not hold when all is quiet."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.scheduler.run)
            await asyncio.sleep(DISORDER)
            self.loop.settling = True
            await asyncio.sleep(QUIET)
            found = [
                *leftovers(self.scheduler, self._books),
                *await state_differences(self.scheduler, self.store, self._books),
            ]
            found += [each for problem in problems for each in problem()]
            self.scheduler.stop()
        return [*found, *self.ended()]

    async def run_until_stopped(self) -> list[str]:
        """Run until the scheduler is stopped, and return the broken invariants."""
        await self.scheduler.run()
        self.loop.settling = True
        done = list(self.client.sent)
        await asyncio.sleep(QUIET)
        bindings = self.api_books.bindings
        found = [f"{one} was sent after the end" for one in self.client.sent[len(done) :]]
        waiting = self.scheduler.engine.cluster.waiting
        found += [f"{uid} is assumed, but was never bound" for uid in self._books.assumed if uid not in bindings]
        found += [f"{waiting!r} is left"] if len(waiting) else []
        return [*found, *self.ended()]

    def ended(self) -> Iterator[str]:
        """Complain of what must not be when the scheduler has ended, in good order or not."""
        yield from (*self.api_books.problems, *self._books.problems)
        for plugin, counts in self.lives.items():
            if counts["started"] != counts["closed"]:
                yield f"{plugin} was started {counts['started']} times and closed {counts['closed']} times"
        yield from (f"{task!r} is left" for task in asyncio.all_tasks() if task is not asyncio.current_task())

    def lost(self) -> Iterator[str]:
        """Complain of every pod that is on no node though one has room for it, or would have if it preempted."""
        pods = [pod for pod in self.store.objects(Pod) if pod.metadata.deletion_timestamp is None]
        for pod in pods:
            if not pod.spec.node_name:
                for node in self.store.objects(Node):
                    others = (each for each in pods if each.spec.node_name == node.metadata.name)
                    if _room(node, [each for each in others if _priority(each) >= _priority(pod)], pod):
                        yield f"{pod.metadata.name} is on no node, though it could be on {node.metadata.name}"

    def collect(self, node_name: str) -> None:
        """Delete the pods of a node that is gone."""
        for pod in self.store.objects(Pod):
            if pod.spec.node_name == node_name:
                self.store.remove(Pod, pod.metadata.name, pod.metadata.namespace, grace=0)

    def _kubelet(self, change: Change) -> None:
        """Let pods end that are being deleted."""
        pod = change.new
        if isinstance(pod, Pod) and pod.metadata.deletion_timestamp is not None:
            name, uid = pod.metadata.name, pod.metadata.uid
            self.act((f"{name} ends", lambda: self.store.remove(Pod, name, uid=uid, grace=0)), who=f"kubelet {name}")

    def _count_lives(self) -> None:
        for _, plugin in self.scheduler.profiles.plugins():
            self._count(plugin, "start", "started")
            self._count(plugin, "close", "closed")

    def _count(self, plugin: Plugin, method: str, done: str) -> None:
        """Count how often a plugin was started, and how often it was asked to close."""
        do, counts = getattr(plugin, method), self.lives.setdefault(plugin.name, Counter())

        async def counted() -> None:
            counts[done] += method == "close"
            await do()
            counts[done] += method == "start"

        if getattr(type(plugin), method) is not getattr(Plugin, method):
            setattr(plugin, method, counted)


_INSTALLED = Registry.from_installed()


#: The built-in plugins that worlds have: what decides about room, binds and preempts. More would only cost time.
_BUILT_IN = ("PrioritySort", "NodeUnschedulable", "NodeName", "NodeResourcesFit", "DefaultPreemption", "DefaultBinder")


@lru_cache
def _configuration(*plugins: str, extender: bool = False) -> Configuration:
    extenders = "{urlPrefix: http://extender, filterVerb: filter, bindVerb: bind, nodeCacheCapable: true}"
    enabled = ", ".join(f"{{name: {name}}}" for name in (*plugins, *_BUILT_IN))
    return parse(f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      disabled: [{{name: "*"}}]
      enabled: [{enabled}]
extenders: [{extenders if extender else ""}]
---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
seed: 0
""")


def _room(node: Node, pods: Sequence[Pod], pod: Pod) -> bool:
    used = sum(requests(each)["cpu"] for each in pods)
    return used + requests(pod)["cpu"] <= allocatable(node)["cpu"]


def _priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def _tolerant(do: Callable[[], object]) -> None:
    try:
        do()
    except ClusterError as error:
        if error.status not in (404, 409):
            raise
