"""Plugins that depend on what is outside: on sources of every kind, and on services that their hooks call."""

from __future__ import annotations

import asyncio
import math
from collections import ChainMap, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Hashable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec
import numpy as np

from kframework import (
    ActionType,
    ClusterEvent,
    CycleState,
    EventResource,
    Handle,
    NodeInfo,
    NodeTable,
    PendingPod,
    Plugin,
    PluginArgs,
    Rows,
    Scores,
    Source,
    SourceChange,
    Status,
    hookimpl,
    unschedulable,
)
from kframework.clock import VIRTUAL_EPOCH
from kframework.framework.plugin import Reads
from kframework.framework.source import KeyedBy, WhenStale
from kframework.scheduler.timeouts import CANCEL_GRACE
from tests.faults.fault_schedule import FaultLog, FaultSchedule, Health

#: What is closed to pods; all else is open.
CLOSED = 0

APPS = ("web", "db", "batch")
NODES = ("node-0", "node-1", "node-2", "node-3", "node-4")

#: The limits of the configuration on what services and polls may take, in seconds.
LIMITS = {"start": 3.0, "pre_bind": 5.0, "post_bind": 4.0, "source": 6.0}

#: How long a pod waits on Permit at most, in seconds.
PATIENCE = 6.0


class UnprintableError(Exception):
    """Raised as an error, and answered, though it cannot even be put into words."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


def random_exception(random: Random) -> BaseException:
    """Make what a dead service raises."""
    return random.choice(
        [
            ConnectionError("no route to host"),
            TimeoutError(),
            RuntimeError(f"request {random.randint(1, 9)} refused"),
            asyncio.CancelledError(),
            ExceptionGroup("several", [KeyError("a"), OSError(5)]),
            StopAsyncIteration(),
            UnprintableError(),
        ]
    )


class Truth:
    """What a source would say at each moment, were it well: what changes changes until the cure."""

    def __init__(self, random: Random, keys: Sequence[str], cured: float) -> None:
        self._said: list[tuple[float, dict[str, int]]] = []
        at = 0.0
        values = {key: random.choice([CLOSED, 1, 1]) for key in keys if random.random() < 0.8}
        while at < cured:
            self._said.append((at, dict(values)))
            for key in random.sample(keys, k=min(len(keys), random.randint(1, 3))):
                values.pop(key, None)
                if random.random() < 0.8:
                    values[key] = random.choice([CLOSED, 1, 1, 2])
            at += random.expovariate(1 / 12)

    def at(self, now: float) -> dict[str, int]:
        """Return what it says at this moment, in seconds since 1970."""
        return dict([said for at, said in self._said if at <= now - VIRTUAL_EPOCH][-1])


class SourceDeclaration(msgspec.Struct, frozen=True, kw_only=True):
    """What a plugin with a source declares, and which of its hooks reads the source."""

    name: str
    by: KeyedBy
    hook: str
    reads: Reads
    signs: bool
    stream: bool
    hints: bool
    when_stale: WhenStale
    every: float
    jitter: float
    timeout: float | None
    retry: float
    stale_after: float

    @property
    def refresh_limit(self) -> float:
        """How long after the cure it is heard at the latest, in seconds: what goes on may run out, then it is retried.

        A generator without a timeout may be silent for any time; in this world it ends with the cure.
        """
        limit = self.timeout or (0.0 if self.stream else LIMITS["source"])
        return limit + 2 * CANCEL_GRACE + max(self.every, self.retry) * (1 + self.jitter) + 1.0


def declared(name: str, random: Random) -> SourceDeclaration:
    """Draw what a plugin declares."""
    by: KeyedBy = random.choice(("node", "pod", "key"))
    hook = random.choice(
        {
            "node": ["filter", "filter", "filter_nodes", "score"],
            "pod": ["pre_enqueue", "pre_filter", "filter", "permit"],
            "key": ["pre_enqueue", "pre_filter", "filter", "filter_nodes", "score", "reserve", "permit"],
        }[by]
    )
    stream, every = random.random() < 0.5, random.uniform(1.0, 8.0)
    reads: Reads = random.choice(["node", "pods", None])
    return SourceDeclaration(
        name=name,
        by=by,
        hook=hook,
        reads=reads,
        # By the whole pod, without its name, is signed who reads; that is too little for what is known by pod.
        signs=(by == "pod" and reads is not None) or random.random() < 0.4,
        stream=stream,
        hints=random.random() < 0.5,
        when_stale=random.choice(["reject", "ignore", "gate"]),
        every=every,
        jitter=random.choice([0.0, 0.1, 0.5]),
        timeout=random.choice([None, random.uniform(1.0, 5.0)]),
        retry=random.uniform(0.2, 3.0),
        stale_after=random.choice([every * 2, 20.0, math.inf]),
    )


class SourcePlugin(Plugin):
    """A plugin that uses a source; its class attributes are its declarations."""

    declared: ClassVar[SourceDeclaration]
    weather: ClassVar[FaultSchedule]
    truth: ClassVar[Truth]
    ledger: ClassVar[FaultLog]
    seed: ClassVar[str]

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        mine, self._random = self.declared, Random(f"{self.seed}/{self.name}")
        self.data: Source[int] = handle.source(
            "data",
            int,
            self.stream if mine.stream else self.poll,
            keyed_by=mine.by,
            every=mine.every,
            jitter=mine.jitter,
            timeout=mine.timeout,
            retry=mine.retry,
            stale_after=mine.stale_after,
            when_stale=mine.when_stale,
            wakes_pod=self.helps if mine.hints else None,
        )

    def poll(self) -> Awaitable[Mapping[str, int]]:
        self.ledger.fetches += 1
        if self.weather.at(self.handle.clock) is Health.DEAD and self._random.random() < 0.3:
            self.ledger.record(self.name, "data", Health.DEAD)
            raise random_exception(self._random)
        return self._poll()

    async def _poll(self) -> Mapping[str, int]:
        health = self.weather.at(self.handle.clock)
        if health is Health.HEALTHY:
            await asyncio.sleep(self._random.choice([0.0, 0.3]))
            return self._wrapped(self._values())
        self.ledger.record(self.name, "data", health)
        limit = self.declared.timeout or LIMITS["source"]
        # What it answers may be nonsense of any type: that is the fault.
        return await misbehave(health, limit, self._random, self._nonsense())  # type: ignore[no-any-return]

    async def stream(self) -> AsyncIterator[Mapping[str, int] | SourceChange[int]]:
        self.ledger.fetches += 1
        told: dict[str, int] | None = None
        while True:
            health, limit = self.weather.at(self.handle.clock), self.declared.timeout
            if health is Health.HEALTHY:
                values = self._values()
                yield self._wrapped(values) if told is None or self._random.random() < 0.5 else _change(told, values)
                told = values
                await asyncio.sleep(self._random.uniform(0.2, 0.8) * min(self.declared.every, limit or math.inf))
            elif health in (Health.DEAD, Health.WRONG) or limit is not None:
                self.ledger.record(self.name, "data", health)
                nonsense = await misbehave(health, limit or 0.0, self._random, self._nonsense())
                try:
                    yield nonsense
                finally:
                    # Not everybody cleans up in time.
                    await asyncio.sleep(self._random.choice([0.0, 0.5, 60.0]))
            else:
                await asyncio.sleep(self.weather.until(self.handle.clock))

    def _values(self) -> dict[str, int]:
        return self.truth.at(self.handle.clock.now())

    def _wrapped(self, values: dict[str, int]) -> Mapping[str, int]:
        return self._random.choice([values, MappingProxyType(values), OrderedDict(values), ChainMap(values)])

    def _nonsense(self) -> Any:
        keys = sorted(self._values()) or ["node-0"]
        nonsense: list[Any] = [
            None,
            "nonsense",
            [("a", 1)],
            {"node-0": "much"},
            {"web": math.nan},
            {1: 1},
            dict.fromkeys(keys, 1.5),
            {"web": 1, "db": UnprintableError()},
            dict.fromkeys(map(str, range(100)), 1),
        ]
        if self.declared.stream:
            nonsense += [
                SourceChange(values=None),  # type: ignore[arg-type]  # nonsense
                SourceChange({"web": 1, "node-0": 1}, (keys[0], [])),  # type: ignore[arg-type]  # nonsense
                SourceChange({"web": 1, "node-0": 1}, None),  # type: ignore[arg-type]  # nonsense
                SourceChange({"web": 1, "node-0": "full"}),
            ]
        return self._random.choice(nonsense)

    def open(self, key: str) -> bool:
        """Return whether this is open to pods."""
        return self.data.get(key, 1) != CLOSED

    def key(self, pod: PendingPod, node_name: str = "") -> str:
        """Return the conditions that the pod's fate depends on."""
        return {"node": node_name, "pod": pod.key, "key": pod.labels["app"]}[self.declared.by]

    def verdict(self, pod: PendingPod, node_name: str = "") -> Status | None:
        """Reject a pod to which what it asks for is closed."""
        return None if self.open(self.key(pod, node_name)) else unschedulable(f"closed by {self.name}")

    def helps(self, pod: PendingPod, change: SourceChange[int]) -> bool:
        """Return whether something has opened that concerns the pod."""
        if self.weather.fails_at_random(self.handle.clock, pod.uid):
            self.ledger.record(self.name, "queueing hint", Health.DEAD)
            raise random_exception(Random(pod.uid))
        by = self.declared.by
        keys = [*change.values, *change.removed] if by == "node" else [self.key(pod)]
        opened = (key for key in keys if change.values.get(key, CLOSED) or key in change.removed)
        return any(change.old.get(key, 1) == CLOSED for key in opened)

    @hookimpl
    def events_to_register(self) -> Sequence[ClusterEvent]:
        by_node = self.declared.by == "node"
        return [ClusterEvent(EventResource.NODE, ActionType.ADD)] if by_node else []


def _change(told: dict[str, int], values: dict[str, int]) -> SourceChange[int]:
    return SourceChange(
        {key: value for key, value in values.items() if told.get(key) != value},
        tuple(key for key in told if key not in values) * 2,
    )


async def misbehave(health: Health, limit: float, random: Random, nonsense: object) -> Any:
    """Do what an ailing service does."""
    if health is Health.DEAD:
        await asyncio.sleep(random.choice([0.0, 0.2]))
        raise random_exception(random)
    if health is Health.WRONG:
        return nonsense
    if health is Health.SLOW:
        await asyncio.sleep(limit * random.uniform(1.2, 3.0))
        return {}
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if health is Health.HANGING:
                raise
            if random.random() < 0.2:
                return {}


# -- the hooks that read a source, one in each plugin ------------------------------------------------------------------


def _pre_enqueue(self: SourcePlugin, pod: PendingPod) -> Status | None:
    return self.verdict(pod)


def _pre_filter(self: SourcePlugin, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
    return self.verdict(pod)


def _filter(self: SourcePlugin, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
    return self.verdict(pod, node.name)


def _filter_nodes(self: SourcePlugin, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
    names = (nodes[row].name for row in np.arange(nodes.capacity)[rows].tolist())
    return np.array([not self.open(self.key(pod, name)) for name in names], dtype=np.int64)


def _filter_status(self: SourcePlugin, pod: PendingPod, bits: int) -> Status:
    return unschedulable(f"closed by {self.name}")


def _score(self: SourcePlugin, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
    return 10 * self.data.get(self.key(pod, node.name), 1)


def _reserve(self: SourcePlugin, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
    return self.verdict(pod, node_name)


def _sign(self: SourcePlugin, pod: PendingPod) -> Hashable:
    return self.key(pod)


HOOKS: dict[str, dict[str, Any]] = {
    "pre_enqueue": {"pre_enqueue": _pre_enqueue},
    "pre_filter": {"pre_filter": _pre_filter},
    "filter": {"filter": _filter},
    "filter_nodes": {"filter_nodes": _filter_nodes, "filter_status": _filter_status},
    "score": {"score": _score},
    "reserve": {"reserve": _reserve},
    "permit": {"permit": _reserve},
}


def make_source_plugin(name: str, seed: str, pods: Sequence[str], cured: float, ledger: FaultLog) -> type[SourcePlugin]:
    """Make a plugin with a source."""
    random = Random(f"{seed}/{name}")
    mine = declared(name, random)
    hooks = HOOKS[mine.hook] | ({"sign": _sign} if mine.signs else {})
    keys = {"node": NODES, "pod": pods, "key": APPS}[mine.by]
    return type(
        name,
        (SourcePlugin,),
        {
            "name": name,
            "reads": mine.reads,
            "declared": mine,
            "weather": FaultSchedule(random, cured),
            "truth": Truth(random, keys, cured),
            "ledger": ledger,
            "seed": seed,
            **{hook: hookimpl(call) for hook, call in hooks.items()},
        },
    )
