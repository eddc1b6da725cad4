"""Random worlds for sessions: nodes, queues, gangs and a configuration drawn by a seed, and what happens between two.

Run as a program it prints what sessions do in the world of a seed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from random import Random

import pytest
from kframework_batch.membership import GROUP_NAME
from kframework_batch.objects import PodGroup, Queue
from kframework_batch.testing import Stage, make_group, make_node, make_queue, make_task
from msgspec.structs import replace

from kframework.clock import rfc3339
from kframework.core.cycle.results import Reservation
from kframework.core.host import PodEvent
from kframework.engine import BindingEnded
from kframework.objects import (
    Affinity,
    LabelSelector,
    Node,
    ObjectMeta,
    Pod,
    PodAffinityTerm,
    PodAntiAffinity,
    PriorityClass,
)
from kframework.testing import make_pod, make_taint
from kframework.values.status import Code, Status


@pytest.fixture(scope="module", autouse=True)
def _answers_are_verified() -> Iterator[None]:
    """Let every search ask the plugins again, uncached, and compare."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KFRAMEWORK_VERIFY", "1")
        yield


GPU, HOSTNAME = "nvidia.com/gpu", "kubernetes.io/hostname"
GANG_TIMEOUT = 3.0

_ACTIONS = (
    "enqueue, allocate, backfill",
    "enqueue, allocate, backfill, preempt, reclaim",
    "enqueue, allocate, preempt, reclaim, backfill",
    "enqueue, reclaim, allocate, backfill, preempt",
    "reclaim, preempt, allocate, backfill, shuffle",
    "allocate, preempt",
)

#: Plugins by name, with their flags and arguments.
Tiers = list[list[dict[str, object]]]


def _chance(random: Random, probability: float) -> bool:
    return random.random() < probability


def drawn_tiers(random: Random, fair: str) -> Tiers:
    """Draw which plugins there are, in which tiers, and what they may say."""
    gangs: list[dict[str, object]] = [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]
    if _chance(random, 0.2):
        gangs[1]["enablePreemptable"] = False
    if _chance(random, 0.2):
        gangs.insert(0, {"name": "sla", "arguments": {"sla-waiting-time": "3s"}})
    others: list[dict[str, object]] = [{"name": "predicates"}, {"name": "nodeorder"}]
    if _chance(random, 0.4):
        others.append({"name": "binpack"})
    if _chance(random, 0.4):
        others.append({"name": "overcommit"})
    drf: dict[str, object] = {"name": "drf", "enablePreemptable": _chance(random, 0.3)}
    share: dict[str, object] = {"name": fair.removesuffix(" tree"), "enableHierarchy": fair.endswith("tree")}
    sharing = [share] if fair else []
    if _chance(random, 0.5):
        sharing.insert(0, drf)
    random.shuffle(others)
    return [[*gangs, *sharing, *others]] if _chance(random, 0.5) else [gangs, [*sharing, *others]]


class World(Stage):
    """A stage that draws what is on it, and what happens (`happen`) between two sessions.

    `log` tells in order who was bound, to which node, and who was evicted, why. Bindings of pods in `slow` end later;
    those that have not ended are `held`. `failed` are those that have ended badly.
    """

    def __init__(self, seed: int) -> None:
        self.random: Random = Random(seed)
        random = self.random
        self.log: list[tuple[str, str, str]] = []
        self.held: dict[str, Reservation] = {}
        self.failed: list[str] = []
        #: Called after a held binding has ended.
        self.on_binding_ended: Callable[[], None] = lambda: None
        self.group_name: dict[str, str] = {}
        #: What is away and may come again.
        self.asleep: list[Node] = []
        self.away: list[Queue] = []
        self._templates: dict[str, dict[str, object]] = {}
        self._count = 0
        self.fair: str = random.choice(["", "proportion", "proportion", "capacity", "capacity tree"])
        self.tiers: Tiers = drawn_tiers(random, self.fair)
        self.actions: str = random.choice(_ACTIONS)
        self._together = _chance(random, 0.4)
        nodes = [self._node(f"node-{n}") for n in range(random.randint(1, 4))]
        super().__init__(
            json.dumps({"actions": self.actions, "tiers": [{"plugins": tier} for tier in self.tiers]}),
            nodes=nodes,
            queues=self._queues(),
            objects=[
                PriorityClass(metadata=ObjectMeta(name=name), value=value)
                for name, value in (("low", 10), ("high", 100), ("system-cluster-critical", 2_000_000_000))
            ],
            seed=seed,
            gang_timeout=GANG_TIMEOUT,
        )
        for _ in range(random.randint(0, 3)):
            self._other_pod()
        if _chance(random, 0.6):
            self._borrow()
        else:
            for _ in range(random.randint(2, 7)):
                self._new_gang()

    def _number(self) -> int:
        self._count += 1
        return self._count

    def _node(self, name: str) -> Node:
        random = self.random
        return make_node(
            name,
            zone=random.choice("ab"),
            cpu=random.randint(1, 8),
            memory=random.choice(["4Gi", "16Gi"]),
            pods=random.choice([3, 110, 110]),
            allocatable={GPU: random.choice([0, 2, 4])} if _chance(random, 0.4) else {},
            taints=["dedicated=gpu:NoSchedule"] if _chance(random, 0.15) else [],
            unschedulable=_chance(random, 0.1),
        )

    def _queues(self) -> list[Queue]:
        parents = {"default": "", "a": "", "b": ""}
        if self.fair == "capacity tree":
            parents |= {"a": "root", "a1": "a", "a2": "a"}
        return [self._queue(name, parent) for name, parent in parents.items()]

    def _queue(self, name: str, parent: str = "") -> Queue:
        random = self.random
        return make_queue(
            name,
            parent=parent,
            weight=random.randint(1, 3),
            priority=random.choice([0, 0, 0, 5]),
            capability=self._amounts(0.5, 1, 9),
            deserved=self._amounts(0.6, 0, 5),
            guarantee=self._amounts(0.3, 1, 2),
            reclaimable=random.choice([None, None, True, False]),
        )

    def _amounts(self, probability: float, least: int, most: int) -> dict[str, str]:
        random, amounts = self.random, {}
        if _chance(random, probability):
            amounts["cpu"] = str(random.randint(least, most))
            if _chance(random, 0.4):
                amounts["memory"] = f"{random.randint(least, 3 * most)}Gi"
            if _chance(random, 0.2):
                amounts[GPU] = str(random.randint(least, most))
        return amounts

    @property
    def timeout(self) -> float:
        """How long a gang may be broken, in seconds."""
        return GANG_TIMEOUT

    @property
    def leaves(self) -> list[str]:
        """The queues that jobs go to: but one where they are to preempt each other."""
        if self._together:
            return ["default"]
        return ["default", "b", "a1", "a2"] if self.fair == "capacity tree" else ["default", "a", "b"]

    def _borrow(self) -> None:
        """Fill the nodes with what others may take back, before they come."""
        group = make_group("early", minimum=self.random.randint(0, 1), queue=self.random.choice(self.leaves), age=9.0)
        self.put(group)
        self._templates["early"] = {"cpu": "500m"} if _chance(self.random, 0.5) else {"cpu": 1}
        for _ in range(self.random.randint(6, 16)):
            self._new_member(group)

    def _new_gang(self) -> None:
        """Draw a pod group and its pods."""
        random, name = self.random, f"gang-{self._number()}"
        size = random.randint(1, 5)
        roles = {"m": 1, "w": random.randint(1, 3)} if _chance(random, 0.2) else {}
        minimum = random.choice([size, size, random.randint(0, size), 1, 0, size + 1])
        group = make_group(
            name,
            minimum=random.choice([sum(roles.values()), minimum]) if roles else minimum,
            queue=random.choice(["nowhere", "a"]) if _chance(random, 0.1) else random.choice(self.leaves),
            phase=random.choice(["Inqueue", "Inqueue", "Pending", ""]),
            roles=roles,
            resources=self._amounts(0.8, 1, 3) if _chance(random, 0.4) else None,
            priority_class=random.choice(["", "low", "high"]),
            age=float(random.randint(0, 9)),
        )
        if _chance(random, 0.12):
            group = replace(group, metadata=replace(group.metadata, namespace="kube-system"))
        self.put(group)
        self._templates[name] = self._template()
        for _ in range(size):
            self._new_member(group)

    def _template(self) -> dict[str, object]:
        """Draw what the pods of a gang are like."""
        random = self.random
        best_effort = _chance(random, 0.12)
        return {
            "cpu": None if best_effort else random.choice(["500m", 1, 1, 2, 3]),
            "memory": "1Gi" if not best_effort and _chance(random, 0.3) else None,
            "requests": {GPU: random.randint(1, 2)} if not best_effort and _chance(random, 0.2) else {},
            "host_ports": [80] if _chance(random, 0.12) else [],
            "affinity": _apart(random.choice("xy")) if _chance(random, 0.15) else None,
            "labels": {"app": random.choice("xyz")},
            "tolerations": ["dedicated:Exists"] if _chance(random, 0.3) else [],
            "node_selector": {"topology.kubernetes.io/zone": "a"} if _chance(random, 0.1) else {},
            "preemption_policy": "Never" if _chance(random, 0.1) else None,
            "annotations": {"volcano.sh/preemptable": "false"} if _chance(random, 0.1) else {},
        }

    def _new_member(self, group: PodGroup) -> None:
        random, name = self.random, f"pod-{self._number()}"
        template = dict(self._templates[group.metadata.name])
        if _chance(random, 0.05):
            template |= {"cpu": None, "memory": None, "requests": {}}
        pod = make_task(
            name,
            group.metadata.name,
            role=random.choice("mw") if group.spec.min_task_member else "",
            priority=random.choice([None, None, 10, 100]),
            namespace=group.metadata.namespace,
            gates=["wait"] if _chance(random, 0.05) else [],
            **template,  # type: ignore[arg-type]  # as drawn above
        )
        self.put(pod)
        self.group_name[name] = group.metadata.name
        if _chance(random, 0.12):
            self.unbindable[name] = "the API says no"

    def _other_pod(self) -> None:
        """Let a pod of another scheduler be on a node."""
        random = self.random
        node = random.choice(self.of(Node)) if self.of(Node) else None
        if node is not None:
            pod = make_pod(
                f"other-{self._number()}",
                cpu=random.choice(["500m", "1", "2"]),
                labels={"app": random.choice("xyz")},
                host_ports=[80] if _chance(random, 0.2) else [],
                node_name=node.metadata.name,
            )
            self.put(pod)

    def of(self, kind: type[Pod] | type[Node] | type[Queue] | type[PodGroup]) -> list:  # type: ignore[type-arg]  # of it
        """List the objects of a kind."""
        return [obj for obj in self.objects.values() if isinstance(obj, kind)]

    def bind(self, reservation: Reservation) -> None:
        """Bind a pod, now or later."""
        name = reservation.pod.name
        self.log.append(("bind", name, reservation.node_name))
        if _chance(self.random, 0.3):
            self.held[name] = reservation
        else:
            self.end_binding(reservation)

    def end_binding(self, reservation: Reservation) -> None:
        """Let a binding end: the API refuses pods that are going, and its answer may be lost."""
        pod = self.objects.get((Pod, reservation.pod.name))
        if not isinstance(pod, Pod) or pod.metadata.deletion_timestamp is not None:
            self._binding_ended(reservation, "it is going")
        elif pod.metadata.name in self.unbindable:
            self._binding_ended(reservation, self.unbindable[pod.metadata.name])
        elif self.random.random() < 0.5:
            self._assign(pod, reservation)
            self._binding_ended(reservation, "the answer was lost" if _chance(self.random, 0.1) else "")
        else:
            self._binding_ended(reservation, "")
            self._assign(pod, reservation)

    def _binding_ended(self, reservation: Reservation, failure: str) -> None:
        status = Status(Code.ERROR, (failure,)) if failure else None
        if failure:
            self.failed.append(reservation.pod.name)
        self.engine.offer(BindingEnded(reservation.pod.uid, reservation.attempt, status))

    def _assign(self, pod: Pod, reservation: Reservation) -> None:
        phase = self.random.choice(["Running", "Running", "Pending"])
        spec = replace(pod.spec, node_name=reservation.node_name)
        self.put(replace(pod, spec=spec, status=replace(pod.status, phase=phase)))

    def record(self, event: PodEvent) -> None:
        """Log who is evicted."""
        if event.reason == "Evict":
            self.log.append(("evict", event.pod.name, event.note.removeprefix("Evicted because of ")))
        super().record(event)

    def happen(self) -> None:
        """Let the cluster go on, and some things befall it."""
        for name in list(self.held):
            if _chance(self.random, 0.5):
                self.end_binding(self.held.pop(name))
                self.on_binding_ended()
        for pod in self.of(Pod):
            if pod.metadata.deletion_timestamp is not None and _chance(self.random, 0.6):
                self.delete(pod.metadata.name)
            elif pod.spec.node_name and pod.status.phase == "Pending" and _chance(self.random, 0.7):
                self.put(replace(pod, status=replace(pod.status, phase="Running")))
        for happening, probability in self._happenings.items():
            if _chance(self.random, probability):
                happening()

    @property
    def _happenings(self) -> Mapping[Callable[[], None], float]:
        return {
            self._new_gang: 0.6,
            self._other_pod: 0.08,
            self._pod_ends: 0.3,
            self._pod_goes: 0.3,
            self._pod_vanishes: 0.1,
            self._members_come_back: 0.5,
            self._gang_goes: 0.1,
            self._group_changes: 0.12,
            self._node_goes: 0.08,
            self._node_comes: 0.3,
            self._node_changes: 0.1,
            self._queue_changes: 0.12,
            self._queue_closes: 0.08,
            self._queue_opens: 0.2,
            self._queue_goes: 0.05,
            self._queue_comes: 0.3,
            self._deletions_fail: 0.1,
            self._deletions_work: 0.4,
            self._pod_becomes_bindable: 0.15,
            self._pod_becomes_unbindable: 0.2,
        }

    def _any_pod(self, *, placed: bool) -> Pod | None:
        pods = [pod for pod in self.of(Pod) if bool(pod.spec.node_name) is placed or not placed]
        return self.random.choice(pods) if pods else None

    def _pod_ends(self) -> None:
        pod = self._any_pod(placed=True)
        if pod is not None:
            phase = self.random.choice(["Succeeded", "Succeeded", "Failed"])
            self.put(replace(pod, status=replace(pod.status, phase=phase)))

    def _pod_goes(self) -> None:
        pod = self._any_pod(placed=False)
        if pod is not None:
            self.put(replace(pod, metadata=replace(pod.metadata, deletion_timestamp=rfc3339(self.time))))

    def _pod_vanishes(self) -> None:
        pod = self._any_pod(placed=False)
        if pod is not None:
            self.delete(pod.metadata.name)

    def _members_come_back(self) -> None:
        """Make new pods where gangs have fewer than their minimum."""
        for group in self.of(PodGroup):
            name = group.metadata.name
            there = sum(pod.metadata.annotations.get(GROUP_NAME) == name for pod in self.of(Pod))
            if there < group.spec.min_member and _chance(self.random, 0.7):
                self._new_member(group)

    def _gang_goes(self) -> None:
        groups = self.of(PodGroup)
        if groups:
            name = self.random.choice(groups).metadata.name
            self.delete(name, PodGroup)
            for pod in self.of(Pod):
                if pod.metadata.annotations.get(GROUP_NAME) == name and _chance(self.random, 0.8):
                    self.delete(pod.metadata.name)

    def _group_changes(self) -> None:
        groups = self.of(PodGroup)
        if groups:
            group = self.random.choice(groups)
            minimum = max(group.spec.min_member + self.random.choice([-1, 0, 1]), 0)
            queue = self.random.choice([group.spec.queue, *self.leaves])
            self.put(replace(group, spec=replace(group.spec, min_member=minimum, queue=queue)))

    def _node_goes(self) -> None:
        nodes = self.of(Node)
        if nodes:
            node = self.random.choice(nodes)
            self.asleep.append(node)
            self.delete(node.metadata.name, Node)
            for pod in self.of(Pod):
                if pod.spec.node_name == node.metadata.name and _chance(self.random, 0.5):
                    self.delete(pod.metadata.name)

    def _node_comes(self) -> None:
        self.put(self.asleep.pop() if self.asleep else self._node(f"node-{self._number()}"))

    def _node_changes(self) -> None:
        nodes = self.of(Node)
        if nodes:
            node, random = self.random.choice(nodes), self.random
            taints = [make_taint("dedicated=gpu:NoSchedule")] if _chance(random, 0.3) else []
            spec = replace(node.spec, unschedulable=_chance(random, 0.2), taints=tuple(taints))
            offered = {**node.status.allocatable, "cpu": random.randint(1, 8)}
            self.put(replace(node, spec=spec, status=replace(node.status, allocatable=offered)))

    def _queue_changes(self) -> None:
        queue = self.random.choice(self.of(Queue))
        changed = self._queue(queue.metadata.name, queue.spec.parent)
        self.put(replace(changed, status=queue.status))

    def _queue_closes(self) -> None:
        queue = self.random.choice(self.of(Queue))
        self.put(replace(queue, status=replace(queue.status, state="Closed")))

    def _queue_opens(self) -> None:
        for queue in self.of(Queue):
            if queue.status.state:
                self.put(replace(queue, status=replace(queue.status, state="Open")))

    def _queue_goes(self) -> None:
        queue = self.random.choice(self.of(Queue))
        if queue.metadata.name != "default":
            self.away.append(queue)
            self.delete(queue.metadata.name, Queue)

    def _queue_comes(self) -> None:
        if self.away:
            self.put(self.away.pop())

    def _deletions_fail(self) -> None:
        self.refuses_evictions = True

    def _deletions_work(self) -> None:
        self.refuses_evictions = False

    def _pod_becomes_bindable(self) -> None:
        if self.unbindable:
            self.unbindable.pop(self.random.choice(list(self.unbindable)))

    def _pod_becomes_unbindable(self) -> None:
        pod = self._any_pod(placed=False)
        if pod is not None:
            self.unbindable[pod.metadata.name] = "the API says no"


def _apart(app: str) -> Affinity:
    """Keep away from pods of an app on the same node."""
    term = PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": app}), topology_key=HOSTNAME)
    return Affinity(pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,)))


@pytest.fixture
def make_world() -> Callable[[int], World]:
    """Make the world of a seed."""
    return World


if __name__ == "__main__":
    world = World(int(sys.argv[1]))
    for _ in range(int(sys.argv[2])):
        world.session()
        world.happen()
    sys.stdout.write(json.dumps(world.log))
