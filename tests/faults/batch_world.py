"""A cluster in which jobs are made, pods fail and go, and nodes are lost; and what must hold of a batch engine."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import ClassVar

from kframework_batch.engine import BatchEngine
from kframework_batch.objects import Job, PodGroup, PodGroupStatus
from kframework_batch.scenario import make_job
from kframework_batch.task_status import TaskStatus
from kframework_batch.testing import make_queue
from msgspec.structs import replace

from kframework.client.transitions import has_ended
from kframework.clock import Clock
from kframework.errors import ClusterError
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, Node, ObjectMeta, Pod, PriorityClass
from kframework.objects.requests import allocatable, on_node_requests
from kframework.testing import make_node

__all__ = ["RATE", "World", "configuration", "leftovers", "lost", "objects", "untold"]

#: How long things happen, in seconds, and how often each call fails meanwhile, if calls fail at all.
EVENTFUL, RATE = 240.0, 0.12

_ACTIONS = (
    "enqueue, allocate, backfill",
    "enqueue, allocate, preempt, reclaim, backfill",
    "enqueue, allocate, backfill, preempt, reclaim",
)


def configuration(random: Random) -> str:
    """Draw actions and plugins."""
    gangs = [{"name": name} for name in ("priority", "gang", "conformance")]
    others = [{"name": random.choice(["proportion", "capacity"])}, {"name": "predicates"}, {"name": "nodeorder"}]
    drf = [{"name": "drf", "enablePreemptable": False}] if random.random() < 0.5 else []
    more = [{"name": name} for name in ("overcommit", "binpack") if random.random() < 0.5]
    tiers = [[*gangs], [*more, *drf, *others]] if random.random() < 0.5 else [[*gangs, *more, *drf, *others]]
    return json.dumps({"actions": random.choice(_ACTIONS), "tiers": [{"plugins": tier} for tier in tiers]})


class World:
    """Makes jobs, and lets pods fail, go, and lose their nodes; keeps books of every pod that is bound."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = ()

    def __init__(self, cluster: MemoryCluster, clock: Clock, random: Random, rate: float) -> None:
        self.on_idle: Callable[[], None] = lambda: None
        self.idle: bool = False
        self.cluster: MemoryCluster = cluster
        self.problems: list[str] = []
        self.faults: Counter[str] = Counter()
        self.bound: Counter[str] = Counter()
        self._clock = clock
        self._random = random
        self._rate = rate
        self._jobs = 0
        self._asleep: list[Node] = []
        cluster.subscribe([Pod], self._changed)
        cluster.faults.append(self._fault)

    async def run(self) -> None:
        """Let things happen for a while; then all nodes are there, and every call is answered."""
        self._end = self._clock.now() + EVENTFUL
        while not self.over():
            self._random.choice(self.changes())()
            await asyncio.sleep(self._random.expovariate(1 / 12.0))
        self._rate = 0.0
        self._restore()
        self.idle = True
        self.on_idle()

    def over(self) -> bool:
        """Return whether enough has happened."""
        return self._clock.now() >= self._end

    def changes(self) -> Sequence[Callable[[], None]]:
        """Return what may happen, each as likely as the others."""
        return (self._new_job, self._new_job, self._pod_fails, self._pod_goes, self._node_goes)

    def _new_job(self) -> None:
        random = self._random
        self._jobs += 1
        size = random.randint(1, 4)
        job = make_job(
            f"job-{self._jobs}",
            size,
            minimum=random.choice([size, size, 1]),
            cpu=random.choice(["500m", "1", "2"]) if random.random() < 0.95 else 64,
            memory="1Gi" if random.random() < 0.3 else None,
            queue=random.choice("ab"),
            priority_class=random.choice(["", "high"]),
            seconds=self.seconds(),
            host_ports=[80] if random.random() < 0.15 else [],
        )
        self.cluster.add(replace(job, metadata=replace(job.metadata, uid="")))

    def seconds(self) -> float:
        """Draw how long the pods of a job run."""
        return float(self._random.randint(5, 60))

    def _running(self) -> list[Pod]:
        return [pod for pod in self.cluster.objects(Pod) if pod.spec.node_name and not has_ended(pod)]

    def _pod_fails(self) -> None:
        if pods := self._running():
            pod = self._random.choice(pods)
            self.cluster.set_status(pod, replace(pod.status, phase="Failed"))

    def _pod_goes(self) -> None:
        if pods := self.cluster.objects(Pod):
            metadata = self._random.choice(pods).metadata
            self.cluster.remove(Pod, metadata.name, metadata.namespace, grace=self._random.choice([0, None]))

    def _node_goes(self) -> None:
        """Let a node be gone for some time, and its pods with it after a while."""
        self._restore()
        node = self._random.choice(self.cluster.objects(Node))
        self._asleep.append(node)
        self.cluster.remove(Node, node.metadata.name)
        for pod in self._running():
            if pod.spec.node_name == node.metadata.name:
                self.cluster.remove(Pod, pod.metadata.name, pod.metadata.namespace, grace=0)

    def _restore(self) -> None:
        for node in self._asleep:
            self.cluster.add(replace(node, metadata=replace(node.metadata, uid="")))
        self._asleep.clear()

    def _fault(self, method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        """Let calls fail: refused, lost, or done although no answer comes; and let them take their time."""
        random = self._random
        if method in ("watch", "get", "list") or random.random() >= self._rate:
            return None
        status = random.choice([0, 429, 500, 503])
        self.faults[method] += 1
        error = ClusterError("not now", status=status, retryable=True) if random.random() < 0.8 else None
        done = status in (0, 500) and random.random() < 0.5
        return Fault(error=error, delay=random.choice([0.0, 0.1, 2.0]), done=done)

    def _changed(self, change: Change) -> None:
        old, new = change.old, change.new
        if not isinstance(new, Pod) or not new.spec.node_name or (isinstance(old, Pod) and old.spec.node_name):
            return
        self.bound[new.metadata.uid] += 1
        node = self.cluster.find(Node, new.spec.node_name)
        taken: Counter[str] = Counter()
        for pod in self.cluster.objects(Pod):
            if pod.spec.node_name == new.spec.node_name and not has_ended(pod):
                taken.update({**on_node_requests(pod), "pods": 1})
        for resource, offered in allocatable(node).items() if node is not None else ():
            if taken[resource] > offered:
                self.problems.append(f"{new.metadata.name} overcommits {new.spec.node_name}: {resource}")


def objects(random: Random) -> list[ApiObject]:
    nodes = [
        make_node(f"node-{number}", cpu=random.choice([2, 4, 8]), memory="8Gi", pods=random.choice([3, 110]))
        for number in range(random.randint(2, 4))
    ]
    queues = [
        make_queue(
            name,
            weight=random.randint(1, 3),
            capability={"cpu": random.randint(4, 10)} if random.random() < 0.3 else {},
            deserved={"cpu": random.randint(2, 6)},
        )
        for name in "ab"
    ]
    return [*nodes, *queues, PriorityClass(metadata=ObjectMeta(name="high"), value=100)]


def leftovers(engine: BatchEngine) -> list[str]:
    """List what an engine must not have when all is over."""
    found = [f"{task!r}" for task in engine.cache.tasks.values() if task.status in UNSETTLED]
    found += [f"{pod!r} is assumed" for pod in engine.cluster.assumed]
    return found if engine.is_idle else [*found, "it is not settled"]


def lost(engine: BatchEngine, cluster: MemoryCluster) -> Iterator[str]:
    """List the pods that differ between engine and API."""
    pods = [pod for pod in cluster.objects(Pod) if not has_ended(pod)]
    true = {pod.metadata.uid: pod.spec.node_name for pod in pods}
    known = {task.uid: task.object.spec.node_name for task in engine.cache.tasks.values() if not has_ended(task.object)}
    for uid in sorted(true.keys() | known.keys()):
        if true.get(uid) != known.get(uid):
            yield f"pod {uid}: the engine has {known.get(uid)!r}, the API {true.get(uid)!r}"


UNSETTLED = (TaskStatus.ALLOCATED, TaskStatus.PIPELINED, TaskStatus.BINDING, TaskStatus.RELEASING)


def untold(world: World) -> list[str]:
    """List the jobs that are not over and have no explanation."""
    problems, cluster = [], world.cluster
    for job in cluster.objects(Job):
        name, phase = job.metadata.name, job.status.state.phase
        pods = [pod for pod in cluster.objects(Pod) if pod.metadata.name.startswith(f"{name}-worker-")]
        if phase in ("Completed", "Failed"):
            continue
        (group,) = [group for group in cluster.objects(PodGroup) if group.metadata.name.startswith(f"{name}-")]
        waiting = [pod for pod in pods if not pod.spec.node_name]
        if group.status.phase != "Pending" and len(pods) != job.spec.tasks[0].replicas:
            problems.append(f"{name} has {len(pods)} pods, and is {phase}")
        at_work = pods and all(pod.status.phase == "Running" for pod in pods)
        if not (waiting or at_work) and group.status.phase != "Pending" and not any(has_ended(pod) for pod in pods):
            problems.append(f"{name} is {phase}, its group {group.status.phase}, and nobody waits")
        for pod in waiting:
            told = [each.message for each in pod.status.conditions if each.type == "PodScheduled"]
            # A condition that could not be written is not written again before it is another; the group's is.
            if not any(told) and not (world.faults and says_why(group.status)):
                problems.append(f"{pod.metadata.name} waits and nobody says why")
        if group.status.phase == "Pending" and not says_why(group.status):
            problems.append(f"{group.metadata.name} waits and nobody says why")
    return problems


def says_why(status: PodGroupStatus) -> bool:
    return any(condition.type == "Unschedulable" and condition.message for condition in status.conditions)
