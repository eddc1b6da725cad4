"""What must hold of a run, whatever befell it: in the API at every write, in the scheduler when all is over."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import TypeVar

import msgspec

from kframework.client.cluster import Cluster
from kframework.client.transitions import has_ended
from kframework.core.pod_engine import PodEngine
from kframework.core.queue.queued_group import QueuedGroup
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import Event, Node, Pod
from kframework.objects.requests import allocatable, on_node_requests
from kframework.scheduler.cooperative import run_to_end
from kframework.scheduler.scheduler import Scheduler
from kframework.state.cluster import ClusterState
from kframework.state.inbox import ActivateRequested, Message, Nominated
from kframework.state.pods import PendingPod, QueuedPod
from kframework.values.status import Status
from tests.faults.disruptive_plugins import RandomPermit, SecondPermit
from tests.properties.expected_tables import ClusterObjects, expected_facts, node_facts, pod_facts
from tests.support.evaluations import evaluate

__all__ = ["ApiChecker", "EngineChecker", "groups_not_woken", "leftovers", "pods_not_woken", "state_differences"]

K = TypeVar("K")

_LABELS = ("kubernetes.io/hostname", "topology.kubernetes.io/zone", "pool")


class ApiChecker:
    """Every binding that the API saw, and the pods on each node.

    All pods are bound by the scheduler under test, and a node always offers the same: so it never offers too little.
    """

    def __init__(self, cluster: MemoryCluster) -> None:
        self.created = 0
        self.bindings: Counter[str] = Counter()
        self.problems: list[str] = []
        #: The Events that say of a pod, by uid, that it was bound; one whose answer was lost may be written again when
        #: it has been deleted meanwhile.
        self.announced: defaultdict[str, set[str]] = defaultdict(set)
        self._cluster = cluster
        self._story = blake2b()
        self._on: dict[str, dict[str, Mapping[str, int]]] = {}
        cluster.subscribe([Pod], self._changed)
        cluster.subscribe([Event], self._told)

    @property
    def history(self) -> str:
        """All that was written about pods, in order, as a digest."""
        return self._story.hexdigest()

    def _changed(self, change: Change) -> None:
        old, new = change.old, change.new
        self._story.update(msgspec.json.encode([change.version, new]))
        assert not isinstance(old, Node) and not isinstance(new, Node)
        self.created += old is None
        if isinstance(old, Pod):
            self._on.get(old.spec.node_name, {}).pop(old.metadata.uid, None)
        if not isinstance(new, Pod) or has_ended(new) or not new.spec.node_name:
            return
        uid, node_name = new.metadata.uid, new.spec.node_name
        self._on.setdefault(node_name, {})[uid] = {**on_node_requests(new), "pods": 1}
        if isinstance(old, Pod) and old.spec.node_name != node_name:
            self._bound(new, old.spec.node_name)

    def _told(self, change: Change) -> None:
        if change.old is None and isinstance(change.new, Event) and change.new.reason == "Scheduled":
            self.announced[change.new.regarding.uid].add(change.new.metadata.name)

    def _bound(self, pod: Pod, before: str) -> None:
        name, node_name = pod.metadata.name, pod.spec.node_name
        self.bindings[pod.metadata.uid] += 1
        if before:
            self.problems.append(f"{name} was bound to {before}, then to {node_name}")
        node = self._cluster.find(Node, node_name)
        if node is None:
            return
        asked: Counter[str] = Counter()
        for requests in self._on[node_name].values():
            asked.update(requests)
        for resource, offered in allocatable(node).items():
            if asked[resource] > offered:
                amounts = f"{asked[resource]} of {offered} {resource}"
                self.problems.append(f"{node_name} is overcommitted by {name}: {amounts}")


class EngineChecker:
    """Every pop and its `done`, every assumed pod and its end, as they happen."""

    def __init__(self, engine: PodEngine) -> None:
        self.problems: list[str] = []
        self.popped: dict[str, int] = {}
        self.assumed: dict[str, int] = {}
        self.counts: Counter[str] = Counter()
        #: The nodes to which plugins nominated pods, by uid, until an attempt says otherwise; the API never knows.
        self.nominated: dict[str, str] = {}
        self._watch_queue(engine)
        self._watch_state(engine.cluster)
        self._watch_nominations(engine)

    def _watch_queue(self, engine: PodEngine) -> None:
        queue = engine.queue
        pop, done = queue.pop, queue.done

        def counted_pop() -> QueuedPod | None:
            queued = pop()
            if queued is not None:
                for each in queued.in_order() if isinstance(queued, QueuedGroup) else (queued,):
                    self._begin("popped", self.popped, each.pod.uid)
            return queued

        def counted_done(uid: str) -> bool:
            was_in_flight = done(uid)
            if was_in_flight:
                self._end("done", self.popped, uid)
            return was_in_flight

        queue.pop, queue.done = counted_pop, counted_done  # type: ignore[method-assign]  # that is the point

    def _watch_state(self, state: ClusterState) -> None:
        books = self

        class Assumed(set[str]):
            def add(self, uid: str) -> None:
                books._begin("assumed", books.assumed, uid)
                super().add(uid)

            def discard(self, uid: object) -> None:
                if isinstance(uid, str) and uid in self:
                    books._end("confirmed or forgotten", books.assumed, uid)
                super().discard(uid)

        state.assumed = Assumed(state.assumed)

    def _watch_nominations(self, engine: PodEngine) -> None:
        apply, failed = engine._apply, engine.failed

        def noted(message: Message) -> None:
            if isinstance(message, Nominated):
                self.nominated[message.uid] = message.node_name
            apply(message)

        def said_otherwise(queued: QueuedPod, status: Status, nominated: str | None) -> None:
            if nominated is not None:
                self.nominated.pop(queued.pod.uid, None)
            failed(queued, status, nominated)

        engine._apply, engine.failed = noted, said_otherwise  # type: ignore[method-assign]  # that is the point

    def _begin(self, what: str, open_: dict[str, int], uid: str) -> None:
        self.counts[what] += 1
        open_[uid] = open_.get(uid, 0) + 1
        if open_[uid] > 1:
            self.problems.append(f"{uid} was {what} again before it was let go")

    def _end(self, what: str, open_: dict[str, int], uid: str) -> None:
        self.counts[what] += 1
        if open_.pop(uid, 0) != 1:
            self.problems.append(f"{uid} was {what} more than once")


def leftovers(scheduler: Scheduler, books: EngineChecker) -> Iterator[str]:
    """Say what is still under way though nothing happens any more."""
    engine = scheduler.engine
    yield from (f"{uid} was popped and is not done" for uid in books.popped)
    yield from (f"{uid} is assumed and neither confirmed nor forgotten" for uid in books.assumed)
    if engine.cluster.assumed or len(engine.queue.in_flight) or len(engine.cluster.waiting):
        yield f"not all is over: {engine.cluster.assumed}, {engine.queue.in_flight}, {engine.cluster.waiting!r}"
    if len(engine.preempting) or not scheduler.is_idle or not scheduler.outbox.is_empty:
        yield f"the scheduler has not settled: {scheduler!r}, {scheduler.outbox!r}, {engine.preempting!r}"
    if engine.cluster.statements:
        yield f"{len(engine.cluster.statements)} statements are open"


def pods_not_woken(engine: PodEngine) -> Iterator[str]:
    """Name the pods that wait for an event though all plugins, asked again about the state as it is, let them pass."""
    for queued in list(engine.queue):
        if not isinstance(queued, QueuedGroup) and not _by_permit(queued):
            evaluation = run_to_end(evaluate(engine, queued.pod))
            if len(evaluation.feasible):
                names = [evaluation.nodes[row].name for row in evaluation.feasible.tolist()]
                yield f"{queued.pod.key} waits for {sorted(queued.rejectors)} though it fits on {names}"


async def groups_not_woken(engine: PodEngine) -> list[str]:
    """Name the groups that wait for an event though their pods are placed if they are tried again; this tries them."""
    groups = [queued for queued in engine.queue if isinstance(queued, QueuedGroup) and not _by_permit(queued)]
    engine.offer(ActivateRequested(tuple(group.pod.uid for group in groups)))
    await asyncio.sleep(60.0)
    placed = [group for group in groups if any(pod.uid in engine.cluster.pods for pod in group.pods)]
    return [f"{group.pod.group} waited for {sorted(group.rejectors)} though it fitted" for group in placed]


def _by_permit(queued: QueuedPod) -> bool:
    """Return whether a pod was rejected on Permit, so that it waits for any event: it is not known which would help."""
    return bool(queued.rejectors & {plugin.name for plugin in (RandomPermit, SecondPermit)})


async def state_differences(scheduler: Scheduler, cluster: Cluster, books: EngineChecker) -> list[str]:
    """Compare every table of the scheduler with what the API says; name what differs.

    A plugin's nomination is in memory alone. It lasts until the next attempt of the pod, so for as long as
    PreEnqueue holds the pod back.
    """
    pods = [pod for pod in await cluster.list(Pod) if not has_ended(pod)]
    differences = [
        *_of_nodes(scheduler.engine.cluster, await cluster.list(Node), [pod for pod in pods if pod.spec.node_name]),
        *_of_pending(
            scheduler.engine, {pod.metadata.uid: pod for pod in pods if not pod.spec.node_name}, books.nominated
        ),
    ]
    for kind in scheduler.kinds:
        if kind not in (Pod, Node):
            stored = {(each.metadata.namespace, each.metadata.name): each for each in await cluster.list(kind)}
            store = scheduler.engine.cluster.objects(kind)
            known = {(each.metadata.namespace, each.metadata.name): each for each in store}
            differences += _differences(kind.__name__, known, stored)
    return differences


def _of_nodes(state: ClusterState, nodes: list[Node], assigned: list[Pod]) -> Iterator[str]:
    truth = ClusterObjects(
        {node.metadata.name: node for node in nodes},
        placed={pod.metadata.uid: (pod, pod.spec.node_name) for pod in assigned},
    )
    wanted = expected_facts(truth, _LABELS, {})["nodes"]
    assert isinstance(wanted, dict)
    known = {info.name: node_facts(info, _LABELS) | pod_facts(info, {}) for info in state.nodes}
    yield from _differences("node", known, wanted)
    yield from _differences("Node", {info.name: info.object for info in state.nodes}, truth.nodes)
    on = {uid: pod.node_name for uid, pod in state.pods.items()}
    yield from _differences("pod on a node", on, {pod.metadata.uid: pod.spec.node_name for pod in assigned})


def _of_pending(engine: PodEngine, pending: dict[str, Pod], by_plugins: Mapping[str, str]) -> Iterator[str]:
    yield from _differences("pending pod", {uid: pod.object for uid, pod in engine.handlers.pending.items()}, pending)
    queued = {pod.uid: pod.object for pod in _waiting(engine)}
    yield from _differences("pod in the queue", queued, pending)
    nominator = engine.cluster.nominator
    nominated = {uid: nominator.nominated_node(uid) for uid in pending}
    wanted = {uid: pod.status.nominated_node_name for uid, pod in pending.items()}
    for uid, node_name in by_plugins.items():
        if uid in wanted and nominated[uid] == node_name:
            wanted[uid] = node_name
    yield from _differences("nomination", nominated, wanted)
    if len(nominator) != sum(map(bool, nominated.values())):
        yield f"pods are nominated that are pending no more: {nominator!r}"


def _waiting(engine: PodEngine) -> Iterator[PendingPod]:
    queue = engine.queue
    return (queued.pod for name in queue.count_by_queue() for queued in queue.pods_in(name))


def _differences(what: str, known: Mapping[K, object], true: Mapping[K, object]) -> Iterator[str]:
    for key in sorted(known.keys() | true.keys(), key=str):
        if key not in true:
            yield f"{what} {key} is not there, but the scheduler has {known[key]!r}"
        elif key not in known:
            yield f"{what} {key} is unknown to the scheduler: {true[key]!r}"
        elif known[key] != true[key]:
            yield f"{what} {key}: the scheduler has {known[key]!r}, the API {true[key]!r}"
