"""Random worlds whose plugins wait, wake, fail, touch objects and write status: no pod is tried without end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable
from contextlib import suppress
from random import Random
from zlib import crc32

import pytest

from kframework import (
    ActionType,
    ClusterEvent,
    Code,
    CycleState,
    EventResource,
    Handle,
    NodeInfo,
    NodeTable,
    Nominate,
    PendingPod,
    Plugin,
    QueueingHint,
    Status,
    Wait,
    hookimpl,
    unschedulable,
)
from kframework.core.queue.scheduling_queue import SchedulingQueue
from kframework.errors import ClusterError
from kframework.framework.answers import Diagnosis
from kframework.framework.plugin import PluginArgs, Watch
from kframework.objects import ApiObject, Namespace, Node, ObjectMeta, Pod
from kframework.simulation.records import LivelockError
from kframework.simulation.simulation import Simulation
from kframework.testing import make_node, make_pod
from tests.support.scale import seeds

#: The most attempts of a pod within a second, and for how many seconds a world goes on.
ATTEMPTS, SECONDS = 24, 60.0

#: The points at which a plugin rejects pods, and those at which it does something besides.
REJECTING = ("pre_filter", "filter", "reserve", "permit", "pre_bind", "")
POINTS = (*REJECTING[:-1], "post_filter", "unreserve", "post_bind")


class Watchful(Plugin):
    """Stops the simulation once a pod is tried far too often within a second."""

    name = "Watchful"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._calls = Counter[tuple[str, int]]()

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> None:
        key = (pod.name, int(self.handle.clock.now()))
        self._calls[key] += 1
        if self._calls[key] == 8 * ATTEMPTS:
            asyncio.get_running_loop().stop()


class Busy(Plugin):
    """A plugin with habits, drawn by its name: it rejects pods or holds them up, and changes the cluster meanwhile."""

    watches = (
        Watch(Namespace, verbs=("create", "delete")),
        Watch(Node, verbs=("patch",)),
        Watch(Pod, verbs=("patch",)),
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        draw = self._draw = Random(crc32(self.name.encode()))
        self._hint = draw.choice([None, QueueingHint.QUEUE, QueueingHint.SKIP])
        resources = [EventResource.NODE, EventResource.ASSIGNED_POD, EventResource.TARGET_POD, EventResource.ANY]
        self._resources = draw.sample([*resources, "Namespace"], draw.randint(0, 3))
        self._rejects_at = draw.choice(REJECTING)
        #: None: it raises.
        self._code = draw.choice([Code.UNSCHEDULABLE, Code.PENDING, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, None])
        self._until = handle.clock.now() + draw.choice([10.0, 30.0, SECONDS])
        self._waits = draw.choice([0.0, 0.0, 0.001, 0.3, 5.0])
        self._allows_after = draw.choice([None, 0.0, 0.2])
        habits = draw.sample([self.touch, self.create, self.delete, self.report, self.invalidate], draw.randint(1, 3))
        self._habits = {habit: draw.choice(POINTS) for habit in habits} | {self.wake: draw.choice(["post_bind", ""])}
        self._nominates = draw.random() < 0.2
        self._turn = 0

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        answer = self._hint
        hint = None if answer is None else lambda pod, old, new: answer
        return [ClusterEvent(resource, ActionType.ALL, hint) for resource in self._resources]

    def act(self, point: str, pod: PendingPod) -> None:
        """Follow the habits of a point."""
        self._turn += 1
        for habit, at in self._habits.items():
            if at == point:
                habit(pod)

    def wake(self, pod: PendingPod) -> None:
        self.handle.activate(self.handle.pending.values())

    def touch(self, pod: PendingPod) -> None:
        self.write(self.handle.api.patch(Node, "n0", self.note))

    def report(self, pod: PendingPod) -> None:
        self.write(self.handle.api.patch(Pod, pod.name, self.note, pod.namespace))

    def create(self, pod: PendingPod) -> None:
        metadata = ObjectMeta(name=f"{self.name}-{self._turn}".lower())
        self.write(self.handle.api.create(Namespace(metadata=metadata)))

    def delete(self, pod: PendingPod) -> None:
        for each in list(self.handle.objects(Namespace))[-1:]:
            self.write(self.handle.api.delete(Namespace, each.metadata.name))

    def invalidate(self, pod: PendingPod) -> None:
        self.handle.invalidate()

    @property
    def note(self) -> dict[str, object]:
        return {"metadata": {"annotations": {f"example.com/{self.name}": f"{self._turn}"}}}

    def write(self, call: Awaitable[object]) -> None:
        """Write in the background, and ignore errors."""

        async def write() -> None:
            with suppress(ClusterError):
                await call

        self.handle.spawn(write())

    def answer(self, point: str, pod: PendingPod) -> Status | None:
        """Act, and reject every other pod."""
        self.act(point, pod)
        if point != self._rejects_at or self.handle.clock.now() > self._until or crc32(pod.name.encode()) % 2:
            return None
        if self._code is None:
            raise ValueError("fails for a time")
        return Status(self._code, (f"{self.name} rejects at {point}",))

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        return self.answer("pre_filter", pod)

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return self.answer("filter", pod)

    @hookimpl
    def post_filter(self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> Nominate | None:
        self.act("post_filter", pod)
        return Nominate("n0") if self._nominates else None

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        return self.answer("reserve", pod)

    @hookimpl
    def unreserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self.act("unreserve", pod)

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | Wait | None:
        status = self.answer("permit", pod)
        if status is not None or not self._waits:
            return status
        if self._allows_after is not None:
            self.handle.spawn(self.allow(pod.uid, self._allows_after))
        return Wait(self._waits)

    async def allow(self, uid: str, after: float) -> None:
        await asyncio.sleep(after)
        waiting = self.handle.waiting_pod(uid)
        if waiting is not None:
            waiting.allow(self.name)

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        return self.answer("pre_bind", pod)

    @hookimpl
    def post_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self.act("post_bind", pod)


def find_livelock(seed: int, *others: type[Plugin]) -> str:
    """Run the world of a seed; return which pod was tried too often, "" if none was."""
    draw = Random(seed)
    plugins = [type("Busy", (Busy,), {"name": f"Busy{seed}x{number}"}) for number in range(draw.randint(1, 3))]
    objects: list[ApiObject] = [make_node(f"n{number}", cpu=2) for number in range(draw.randint(1, 3))]
    for number in range(draw.randint(1, 5)):
        cpu, priority = draw.choice(["100m", "1", "5"]), draw.choice([0, 10])
        objects.append(make_pod(f"p{number}", cpu=cpu, priority=priority))
    with Simulation(objects, plugins=[Watchful, *plugins, *others]) as simulation:
        try:
            simulation.run(SECONDS)
        except LivelockError as error:
            return str(error)
        attempts = Counter((decision.pod, int(decision.popped_at)) for decision in simulation.decisions)
    ((pod, _), most) = attempts.most_common(1)[0]
    return f"pod {pod} was tried {most} times within a second" if most > ATTEMPTS else ""


@pytest.mark.parametrize("seed", seeds(75))
def test_no_pod_is_tried_without_end(seed: int) -> None:
    assert not find_livelock(seed)


class Restless(Plugin):
    """Requeues the pod that it rejects."""

    name = "Restless"

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> Status:
        self.handle.activate([pod])
        return unschedulable("no")


class Mutual(Plugin):
    """Requeues all pods when it rejects one."""

    name = "Mutual"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status:
        return unschedulable("no")

    @hookimpl
    def post_filter(self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> None:
        self.handle.activate(self.handle.pending.values())


@pytest.mark.parametrize("fault", [Restless, Mutual])
def test_livelock_of_a_plugin_is_found(fault: type[Plugin]) -> None:
    assert any(find_livelock(seed, fault) for seed in range(4))


@pytest.mark.slow
def test_livelock_of_the_queue_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SchedulingQueue, "_may_skip_backoff", lambda queue, queued: True)
    assert any(map(find_livelock, range(75)))
