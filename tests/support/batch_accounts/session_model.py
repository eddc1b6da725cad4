"""A slow plain model of a session, made of the objects of a world alone, without any cached counts.

It says how queues, jobs and nodes stand at any moment of a session, and what plugins say then; `SessionModel.place` and
`SessionModel.evict` are all that changes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import inf
from typing import Any, TypeAlias

from kframework_batch.membership import GROUP_NAME
from kframework_batch.objects import PodGroup, Queue
from kframework_batch.resource import Resource

from kframework.clock import seconds_of
from kframework.objects import Node, Pod, PriorityClass
from kframework.objects.requests import allocatable, on_node_requests
from tests.support.batch_accounts.jobs import ENDED, ROOM, Job, Task, part, total
from tests.support.batch_accounts.rules import disagree, share_by_weight

#: What was before a session, and how its scheduler is configured.
World: TypeAlias = Any
Amounts: TypeAlias = Mapping[str, float]
Key: TypeAlias = tuple[Any, ...]


class SessionModel:
    """The state at a moment of a session."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.tree: bool = world.fair == "capacity tree"
        self.fair: str = world.fair.removesuffix(" tree")
        #: When the session begins: see Stage.session.
        self.now: float = world.time + 1.0
        self.nodes: dict[str, Node] = {node.metadata.name: node for node in world.of(Node)}
        self.queues: dict[str, Queue] = {queue.metadata.name: queue for queue in world.of(Queue)}
        self.jobs: dict[str, Job] = {}
        self.tasks: dict[str, Task] = {}
        #: Other pods that take room, by name, with their nodes.
        self.others: list[tuple[Pod, str]] = []
        classes = {each.metadata.name: each.value for each in world.objects.values() if isinstance(each, PriorityClass)}
        for group in world.of(PodGroup):
            self._add_group(group, classes)
        for pod in world.of(Pod):
            self._add_pod(pod)
        self.total: Resource = total(allocatable(node) for node in self.nodes.values())
        self.total.pop("pods", None)
        #: Whom plugins look at, in their order; those of a queue that there is.
        able = [job for job in self.jobs.values() if job.group is not None and job.queue in self.queues]
        self.able: list[Job] = sorted(able, key=lambda job: (job.created, job.uid))
        self.used: Resource = total(on_node_requests(pod) for node in self.nodes for pod in self.there(node))
        #: What is due to each queue: the account's word, once it is checked.
        self.due: dict[str, Mapping[str, int]] = {}
        self.entered: dict[str, Resource] = {}

    def _add_group(self, group: PodGroup, classes: Mapping[str, int]) -> None:
        metadata, spec = group.metadata, group.spec
        uid = f"{metadata.namespace}/{metadata.name}"
        self.jobs[uid] = Job(
            uid,
            group,
            queue=spec.queue,
            priority=classes.get(spec.priority_class_name, 0),
            phase=group.status.phase,
            minimum=spec.min_member,
            roles=spec.min_task_member,
            claims=None if spec.min_resources is None else Resource.parse(spec.min_resources),
            created=metadata.creation_timestamp or "",
            message="" if spec.queue in self.queues else f"there is no queue {spec.queue!r}",
        )

    def _add_pod(self, pod: Pod) -> None:
        metadata, phase = pod.metadata, pod.status.phase
        goes, held = metadata.deletion_timestamp is not None, self.world.held.get(metadata.name)
        node = pod.spec.node_name or (held.node_name if held is not None and not goes else "")
        if pod.spec.scheduler_name != "volcano":
            if node and phase not in ENDED:
                self.others.append((pod, node))
            return
        uid = f"{metadata.namespace}/{metadata.annotations[GROUP_NAME]}"
        job = self.jobs.setdefault(uid, Job(uid, None))
        if phase in ENDED or goes:
            status = phase if phase in ENDED else "Releasing"
        elif held is not None:
            status = "Binding"
        else:
            status = ("Running" if phase == "Running" else "Bound") if pod.spec.node_name else "Pending"
        task = self.tasks[metadata.uid] = Task(pod, job, status, node)
        job.tasks.append(task)

    def open(self, mended: Sequence[str]) -> None:
        """Begin, after members of broken gangs were sent away; these keep their room meanwhile."""
        for key in mended:
            next(task for task in self.tasks.values() if task.key == key).status = "Releasing"
        for name in self.queues:
            mine = self.below(name)
            self.entered[name] = total(job.still_claimed for job in mine)
            for job in mine:
                self.entered[name].sub(job.sum(*ROOM).minus(job.minimum_claim).positive())
        self.room: Resource = self.total.times(1.2).minus(self.used)
        for job in self.able:
            self.room.sub(job.still_claimed)

    def place(self, task: Task, node: str, status: str) -> None:
        task.node, task.status = node, status

    def take_back(self, task: Task) -> None:
        task.node, task.status = "", "Pending"

    def evict(self, task: Task) -> None:
        task.status, task.evicted = "Releasing", True

    def _on(self, node: str) -> list[Task]:
        return [task for task in self.tasks.values() if task.node == node and task.status not in ENDED]

    def there(self, node: str) -> list[Pod]:
        """List the pods that a plugin sees on a node: victims are off it, promised ones on it."""
        others = [pod for pod, where in self.others if where == node]
        return [*others, *(task.pod for task in self._on(node) if not task.evicted)]

    def free(self, node: str, *, later: bool) -> Resource:
        """Return what is free on a node now, or once all have gone that are to go."""
        rest = Resource(allocatable(self.nodes[node]))
        for pod, where in self.others:
            if where == node and not (later and pod.metadata.deletion_timestamp is not None):
                rest.sub({**on_node_requests(pod), "pods": 1})
        for task in self._on(node):
            going = task.evicted or task.leaves
            if not (going if later else task.status == "Pipelined"):
                rest.sub({**task.request, "pods": 1})
        return rest

    def fits(self, task: Task, node: str, *, later: bool) -> bool:
        """Return whether a task fits by amounts; no task fits now where one was evicted."""
        if not later and any(other.evicted for other in self._on(node)):
            return False
        free = self.free(node, later=later)
        return all(free.get(name, 0) >= amount for name, amount in {**task.request, "pods": 1}.items())

    def lets_in(self, task: Task, node_name: str) -> bool:
        """Return whether the predicates let a task in."""
        pod, node = task.pod, self.nodes[node_name]
        tolerated = {toleration.key for toleration in pod.spec.tolerations}
        if node.spec.unschedulable or any(taint.key not in tolerated for taint in node.spec.taints):
            return False
        if not pod.spec.node_selector.items() <= node.metadata.labels.items():
            return False
        return not any(disagree(pod, other) for other in self.there(node_name))

    def feasible(self, task: Task) -> tuple[set[str], set[str]]:
        """Return the nodes for a task: those with room now, and those with room later."""
        later = {node for node in self.nodes if self.fits(task, node, later=True) and self.lets_in(task, node)}
        return {node for node in later if self.fits(task, node, later=False)}, later

    def short_of(self, task: Task) -> tuple[Counter[str], int]:
        """Count by resource the nodes that have too little of it later; and those that have enough of all."""
        counts: Counter[str] = Counter()
        for node in self.nodes:
            free = self.free(node, later=True)
            counts.update(name for name, amount in {**task.request, "pods": 1}.items() if free.get(name, 0) < amount)
        return counts, sum(self.fits(task, node, later=True) for node in self.nodes)

    def upwards(self, queue: str) -> list[str]:
        """Name a queue, and those above it but for the root."""
        path: list[str] = []
        while queue in self.queues and queue not in path:
            path.append(queue)
            queue = self.queues[queue].spec.parent if self.tree else ""
        return path

    @property
    def broken(self) -> bool:
        """Whether the queues make no tree."""
        parents = {queue.spec.parent for queue in self.queues.values()} - {"", "root"}
        return self.tree and not parents <= self.queues.keys()

    def is_leaf(self, queue: str) -> bool:
        return not self.tree or all(other.spec.parent != queue for other in self.queues.values())

    def below(self, queue: str) -> list[Job]:
        """List the jobs of a queue and of those below it."""
        return [job for job in self.able if queue in self.upwards(job.queue)]

    def allocated(self, queue: str) -> Resource:
        """Add up what a queue has, promises included."""
        return total(job.sum(*ROOM, "Pipelined") for job in self.below(queue))

    def requested(self, queue: str) -> Resource:
        """Add up what a queue has or waits for."""
        return total(job.sum(*ROOM, "Pipelined", "Pending") for job in self.below(queue))

    def guarantee(self, queue: str) -> Resource:
        spec = self.queues[queue].spec
        return Resource.parse(spec.guarantee.resource).at_most(Resource.parse(spec.capability))

    def most(self, queue: str) -> Amounts:
        """Return the most that a queue may hold; see `otherwise` for what it does not name."""
        path = self.upwards(queue)
        above: Amounts = self.total
        if self.tree:
            above = self.most(path[1]) if len(path) > 1 else {}
        siblings = [other for other in self.queues if not self.tree or self.upwards(other)[1:] == path[1:]]
        own, kept, most = Resource.parse(self.queues[queue].spec.capability), self.guarantee(queue), {}
        for name in {**own, **above}:
            rest = self.otherwise
            if name in above:
                rest = max(above[name] - sum(self.guarantee(other).get(name, 0) for other in siblings), 0)
            most[name] = min(own.get(name, inf), rest + kept.get(name, 0))
        return most

    @property
    def otherwise(self) -> float:
        return inf if self.tree else 0

    def deserved(self, queue: str, name: str) -> tuple[float, float]:
        """Return what is due to a queue of a resource, and how far whole numbers may be from that."""
        floor = self.guarantee(queue).get(name, 0)
        if self.fair == "capacity":
            said = Resource.parse(self.queues[queue].spec.deserved).get(name, 0)
            return max(min(said, self.most(queue).get(name, inf)), floor), 0
        floors = {each: self.guarantee(each).get(name, 0) for each in self.queues}
        tops = {
            each: max(floors[each], min(self.requested(each).get(name, 0), self.most(each).get(name, 0)))
            for each in self.queues
        }
        weights = {each: max(self.queues[each].spec.weight, 1) for each in self.queues}
        there = self.total.get(name, 0)
        if sum(floors.values()) >= there:
            return (there * floor / sum(floors.values()) if there else 0), 1
        return float(share_by_weight(Fraction(there), floors, tops, weights)[queue]), 1

    def share(self, queue: str) -> float:
        due, held = self.due[queue], self.allocated(queue)
        return max([part(held.get(name, 0), amount) for name, amount in due.items()]) if any(due.values()) else 1.0

    def queue_key(self, queue: str) -> Key:
        keys: list[object] = []
        priority = -self.queues[queue].spec.priority
        if self.fair == "proportion":
            keys = [priority, self.share(queue)]
        elif self.fair and self.broken:
            keys = [(), priority, ()]
        elif self.fair:
            shares = [(self.share(each), not any(self.due[each].values())) for each in self.upwards(queue)[::-1]]
            shares = [*([(1.0, True)] if self.tree else []), *shares]
            keys = [tuple(share >= 1 for share, _ in shares), priority, tuple(shares)]
        return (*keys, self.queues[queue].metadata.creation_timestamp or "", self.queues[queue].metadata.uid)

    def overused(self, queue: str) -> str:
        held = self.allocated(queue)
        over = self.fair == "proportion" and all(held.get(name, 0) >= due for name, due in self.due[queue].items())
        return "proportion" if over else ""

    def is_due(self, queue: str, request: Mapping[str, int]) -> bool:
        held, due = self.allocated(queue), self.due[queue]
        within = [held.get(name, 0) + more <= due[name] for name, more in request.items() if name in due]
        return bool(within) and all(within)

    def refuses_room(self, queue: str, task: Task) -> str:
        if not self.fair:
            return ""
        if self.queues[queue].status.state not in ("", "Open"):
            return self.fair
        if self.fair == "proportion":
            return "" if not task.request or self.is_due(queue, task.request) else self.fair
        if self.broken or not self.is_leaf(queue):
            return self.fair
        within = (
            self.allocated(each).get(name, 0) + more <= self.most(each).get(name, self.otherwise)
            for each in self.upwards(queue)
            for name, more in task.request.items()
        )
        return "" if all(within) else self.fair

    @property
    def plugins(self) -> list[str]:
        return [str(plugin["name"]) for tier in self.world.tiers for plugin in tier]

    def deadline(self, job: Job) -> float:
        return seconds_of(job.created) + 3.0

    def dominant(self, amounts: Mapping[str, int]) -> float:
        return max([part(amounts.get(name, 0), whole) for name, whole in self.total.items()], default=0.0)

    def job_key(self, job: Job) -> Key:
        keys: Mapping[str, Callable[[], object]] = {
            "sla": lambda: self.deadline(job),
            "priority": lambda: -job.priority,
            "gang": lambda: job.is_complete(),
            "drf": lambda: (not job.is_broken, self.dominant(job.sum(*ROOM, "Pipelined"))),
        }
        return (*(keys[name]() for name in self.plugins if name in keys), job.created, job.uid)

    def task_key(self, task: Task) -> Key:
        return (-task.priority, task.pod.metadata.creation_timestamp or "", task.uid)

    def waiting(self, job: Job) -> list[Task]:
        """List the pending tasks of a job that may be placed, in order."""
        return sorted((t for t in job.tasks if t.status == "Pending" and not t.gated), key=self.task_key)

    def keeps_out(self, job: Job) -> tuple[str, str]:
        """Return the plugin that does not let a job in, and its message; twice "" if none does."""
        for tier in self.world.tiers:
            permitted = False
            for plugin in tier:
                name = str(plugin["name"])
                if name == "sla":
                    permitted = permitted or self.deadline(job) <= self.now
                elif name in ("overcommit", self.fair):
                    message = self._overcommitted(job) if name == "overcommit" else self._no_room(job)
                    if message:
                        return name, message
                    permitted = True
            if permitted:
                break
        return "", ""

    def _overcommitted(self, job: Job) -> str:
        lacking = [name for name, amount in job.minimum_claim.items() if 0 < amount > self.room.get(name, 0)]
        return f"the cluster has no room for its minimum: {lacking[0]} " if lacking else ""

    def _no_room(self, job: Job) -> str:
        queue = job.queue
        if self.broken:
            return "which does not exist"
        if self.queues[queue].status.state not in ("", "Open"):
            return f"queue {queue} is not open"
        if not self.is_leaf(queue):
            return f"queue {queue} has queues below it: only queues without may have jobs"
        for each in self.upwards(queue):
            most, taken = self.most(each), self.allocated(each).plus(self.entered[each])
            claim = job.minimum_claim.items()
            over = [n for n, more in claim if more > 0 and taken.get(n, 0) + more > most.get(n, self.otherwise)]
            if over:
                return f"queue {each} has no room for its minimum: {over[0]} "
        return ""

    def enter(self, job: Job) -> None:
        """Let a job in."""
        job.phase = "Inqueue"
        claim = job.without_gated(job.minimum_claim)
        self.room.sub(claim)
        for each in self.upwards(job.queue):
            self.entered[each].add(claim)
