"""Random sessions in random worlds: what holds of every commit, and of the live state after every session.

The rules are written down here a second time, in the slowest way, on the objects of the stage alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from kframework_batch.job import ROLE
from kframework_batch.membership import GROUP_NAME
from kframework_batch.objects import PodGroup, Queue
from kframework_batch.plugins.proportion import Proportion
from kframework_batch.resource import Resource
from kframework_batch.task_status import TaskStatus

from kframework.objects import ApiObject, Node, Pod, PriorityClass
from kframework.objects.requests import allocatable, on_node_requests
from tests.support.scale import seeds

SESSIONS = 10

#: A World of conftest.py, which tests cannot import.
World: TypeAlias = Any
MakeWorld = Callable[[int], World]
Objects = Mapping[tuple[type[ApiObject], str], ApiObject]

BROKEN = "a member of the gang"
_CRITICAL = ("system-cluster-critical", "system-node-critical")


class Books:
    """Who takes room and who is to keep it, by the objects of a world and what is being bound."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.objects: Objects = dict(world.objects)
        self.pods: dict[str, Pod] = {pod.metadata.name: pod for pod in world.of(Pod)}
        self.groups: dict[str, PodGroup] = {group.metadata.name: group for group in world.of(PodGroup)}
        self.queues: dict[str, Queue] = {queue.metadata.name: queue for queue in world.of(Queue)}
        self.nodes: dict[str, Node] = {node.metadata.name: node for node in world.of(Node)}
        #: Where the pods are that take room, and those of them that are to keep it.
        self.there: dict[str, str] = {}
        self.keeping: dict[str, str] = {}
        for name, pod in self.pods.items():
            node = pod.spec.node_name
            if name in world.held and not _goes(pod):
                node = world.held[name].node_name
            if node and pod.status.phase not in ("Succeeded", "Failed"):
                self.there[name] = node
                if not _goes(pod):
                    self.keeping[name] = node

    def group_of(self, name: str) -> PodGroup | None:
        """Return the group of a pod of ours."""
        pod = self.pods[name]
        group = self.groups.get(pod.metadata.annotations.get(GROUP_NAME, ""))
        mine = group is not None and group.metadata.namespace == pod.metadata.namespace
        return group if mine and pod.spec.scheduler_name == "volcano" else None

    def members(self, group: PodGroup) -> list[str]:
        """Name the pods of a group."""
        return [name for name in self.pods if self.group_of(name) is group]

    def counted(self, group: PodGroup) -> list[str]:
        """Name those that count for the minimum: with room, succeeded, or pending without need of any."""
        return [name for name in self.members(group) if self._counts(name)]

    def _counts(self, name: str) -> bool:
        pod = self.pods[name]
        if name in self.keeping or pod.status.phase == "Succeeded":
            return True
        waits = not pod.spec.node_name and pod.status.phase == "Pending" and not _goes(pod)
        return waits and not on_node_requests(pod)

    def is_complete(self, group: PodGroup) -> bool:
        """Return whether a gang has its minimum, of every role too."""
        counted, minimums = self.counted(group), group.spec.min_task_member
        if len(counted) < group.spec.min_member:
            return False
        roles = Counter(_role(self.pods[name]) for name in counted)
        minds = group.spec.min_member >= sum(minimums.values())
        return not minds or all(roles[role] >= minimum for role, minimum in minimums.items())

    def is_broken(self, group: PodGroup) -> bool:
        """Return whether members hold room, but not enough of them."""
        return not self.is_complete(group) and any(name in self.keeping for name in self.members(group))

    def on(self, node: str) -> list[str]:
        """Name the pods that take room on a node."""
        return [name for name, where in self.there.items() if where == node]

    def taken(self, node: str) -> Resource:
        """Add up what the pods on a node take."""
        total = Resource(pods=len(self.on(node)))
        for name in self.on(node):
            total.add(on_node_requests(self.pods[name]))
        return total

    def held_by(self, queue: str) -> Resource:
        """Add up what the pods of a queue keep, and of the queues below it if they form a tree."""
        total = Resource()
        for name in self.keeping:
            group = self.group_of(name)
            if group is not None and queue in self.upwards(group.spec.queue):
                total.add(on_node_requests(self.pods[name]))
        return total

    def upwards(self, queue: str) -> list[str]:
        """Name a queue that there is, and those above it."""
        path = []
        while queue in self.queues and queue not in path:
            path.append(queue)
            queue = self.queues[queue].spec.parent
        return path

    @property
    def total(self) -> Resource:
        """What all nodes offer."""
        total = Resource()
        for node in self.nodes.values():
            total.add(allocatable(node))
        return total

    def most(self, queue: str) -> Mapping[str, float]:
        """Return the most that a queue may hold: its capability, and what others are guaranteed is left to them."""
        tree = self.world.fair == "capacity tree"
        path = self.upwards(queue)
        above: Mapping[str, float] = self.total
        otherwise = inf if tree else 0
        if tree:
            above = self.most(path[1]) if len(path) > 1 else {}
        siblings = [other for other in self.queues if not tree or self.upwards(other)[1:] == path[1:]]
        own = Resource.parse(self.queues[queue].spec.capability)
        kept = self._guarantee(queue)
        most: dict[str, float] = {}
        for name in {**own, **above}:
            rest = inf if above.get(name, otherwise) == inf else above.get(name, 0)
            rest = (
                max(rest - sum(self._guarantee(other).get(name, 0) for other in siblings), 0)
                if name in above
                else otherwise
            )
            most[name] = min(own.get(name, inf), rest + kept.get(name, 0))
        return most

    def _guarantee(self, queue: str) -> Resource:
        spec = self.queues[queue].spec
        return Resource.parse(spec.guarantee.resource).at_most(Resource.parse(spec.capability))

    def bind(self, name: str, node: str) -> None:
        self.there[name] = self.keeping[name] = node

    def evict(self, name: str) -> None:
        self.keeping.pop(name, None)


def _goes(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def _role(pod: Pod) -> str:
    return pod.metadata.annotations.get(ROLE, "")


def judge_commits(world: World, books: Books, log: list[tuple[str, str, str]]) -> None:
    """Go through what a session did, on books that were opened before it."""
    for number, (what, name, how) in enumerate(log):
        if what == "evict":
            judge_eviction(world, books, name, how)
            books.evict(name)
            continue
        assert name not in books.keeping, f"{name} is bound twice"
        judge_place(books, name, how)
        judge_queue(world, books, name)
        books.bind(name, how)
        group = books.group_of(name)
        assert group is not None
        if number + 1 == len(log) or log[number + 1][0] != "bind" or books.group_of(log[number + 1][1]) is not group:
            assert books.is_complete(group), f"{group.metadata.name} is bound below its minimum"


def judge_place(books: Books, name: str, node_name: str) -> None:
    """A node has room for a pod beside all that are still there, and lets it in."""
    pod, node = books.pods[name], books.nodes[node_name]
    assert not pod.spec.scheduling_gates
    taken, offered = books.taken(node_name), allocatable(node)
    for resource, amount in {**on_node_requests(pod), "pods": 1}.items():
        assert taken.get(resource, 0) + amount <= offered.get(resource, 0), (
            f"{name} overcommits {node_name}: {resource}"
        )
    assert not node.spec.unschedulable
    tolerated = {toleration.key for toleration in pod.spec.tolerations}
    assert all(taint.key in tolerated for taint in node.spec.taints), f"{name} is bound to a tainted node"
    assert pod.spec.node_selector.items() <= node.metadata.labels.items()
    for other in books.on(node_name):
        beside = books.pods[other]
        assert not (_ports(pod) & _ports(beside)), f"{name} and {other} want the same port of {node_name}"
        same = pod.metadata.namespace == beside.metadata.namespace
        assert not (same and (_shuns(pod, beside) or _shuns(beside, pod))), (
            f"{name} and {other} are both on {node_name}"
        )


def _ports(pod: Pod) -> set[int]:
    return {port.host_port for container in pod.spec.containers for port in container.ports if port.host_port}


def _shuns(pod: Pod, other: Pod) -> bool:
    affinity = pod.spec.affinity
    apart = None if affinity is None else affinity.pod_anti_affinity
    terms = () if apart is None else apart.required_during_scheduling_ignored_during_execution
    selectors = [term.label_selector for term in terms]
    return any(s is not None and s.match_labels.items() <= other.metadata.labels.items() for s in selectors)


def judge_queue(world: World, books: Books, name: str) -> None:
    """The queue is open, and neither it nor one above it gets more than it may hold."""
    group, request = books.group_of(name), on_node_requests(books.pods[name])
    assert group is not None
    assert group.spec.queue in books.queues
    if not world.fair or not request:
        return
    assert books.queues[group.spec.queue].status.state in ("", "Open")
    for queue in books.upwards(group.spec.queue) if world.fair == "capacity tree" else [group.spec.queue]:
        held, most = books.held_by(queue), books.most(queue)
        for resource, amount in request.items():
            limit = most.get(resource, inf if world.fair == "capacity tree" else 0)
            assert held.get(resource, 0) + amount <= limit, f"{name} takes {queue} above its {resource}"


def judge_eviction(world: World, books: Books, name: str, reason: str) -> None:
    """A victim holds room, and the plugins of a tier have nothing against it going."""
    assert name in books.keeping, f"{name} is evicted, but holds nothing"
    assert name not in world.held
    if reason.startswith(BROKEN):
        return
    victim = books.pods[name]
    assert victim.metadata.annotations.get("volcano.sh/preemptable") != "false"
    votes, flag = {"preempt": (PREEMPTABLE, "enablePreemptable"), "reclaim": (RECLAIMABLE, "enableReclaimable")}[reason]
    verdicts = []
    for tier in world.tiers:
        voters = [p for p in tier if p["name"] in votes and p.get(flag, True)]
        voters = [p for p in voters if reason == "preempt" or p["name"] != "drf"]  # that abstains without a tree
        verdicts.append({p["name"]: votes[p["name"]](books, victim) for p in voters})
    assert any(verdict and all(verdict.values()) for verdict in verdicts), f"{name} must not be evicted: {verdicts}"
    if reason == "reclaim":
        group = books.group_of(name)
        assert group is not None and books.queues[group.spec.queue].spec.reclaimable is not False
        assert victim.status.phase == "Running"


def is_less_important(books: Books, victim: Pod) -> bool:
    """Return whether a more important task waits in the victim's queue."""
    mine = books.group_of(victim.metadata.name)
    assert mine is not None
    for name, pod in books.pods.items():
        group = books.group_of(name)
        if pod.spec.node_name or group is None or group.spec.queue != mine.spec.queue:
            continue
        more = _value(books, group) > _value(books, mine)
        if more or (group is mine and (pod.spec.priority or 0) > (victim.spec.priority or 0)):
            return True
    return False


def _value(books: Books, group: PodGroup) -> int:
    known = books.objects.get((PriorityClass, group.spec.priority_class_name))
    return known.value if isinstance(known, PriorityClass) else 0


def is_surplus(books: Books, victim: Pod) -> bool:
    """Return whether a gang has its minimum without this one, of its role as well."""
    group = books.group_of(victim.metadata.name)
    assert group is not None
    ready = [
        name for name in books.counted(group) if name in books.keeping or books.pods[name].status.phase == "Succeeded"
    ]
    minimums = group.spec.min_task_member
    if len(ready) <= group.spec.min_member:
        return False
    role = _role(victim)
    if group.spec.min_member < sum(minimums.values()) or role not in minimums:
        return True
    return sum(_role(books.pods[name]) == role for name in ready) > minimums[role]


def is_dispensable(books: Books, victim: Pod) -> bool:
    return victim.metadata.namespace != "kube-system" and victim.spec.priority_class_name not in _CRITICAL


def keeps_guarantee(books: Books, victim: Pod) -> bool:
    """Return whether the victim's queue keeps what it is guaranteed."""
    group = books.group_of(victim.metadata.name)
    assert group is not None
    queue = group.spec.queue
    spec = books.queues[queue].spec
    guarantee = Resource.parse(spec.guarantee.resource).at_most(Resource.parse(spec.capability))
    rest = books.held_by(queue).minus(on_node_requests(victim))
    return all(rest.get(name, 0) >= guarantee.get(name, 0) for name in on_node_requests(victim))


def anything(books: Books, victim: Pod) -> bool:
    return True


Vote = Callable[[Books, Pod], bool]
PREEMPTABLE: dict[object, Vote] = {
    "priority": is_less_important,
    "gang": is_surplus,
    "conformance": is_dispensable,
    "drf": anything,
}
RECLAIMABLE: dict[object, Vote] = {
    "gang": is_surplus,
    "conformance": is_dispensable,
    "proportion": keeps_guarantee,
    "capacity": keeps_guarantee,
    "drf": anything,
}


def judge_state(world: World) -> None:
    """The live state says what the objects say, and nothing is left of a session."""
    books, engine = Books(world), world.engine
    cluster = engine.cluster
    assert not cluster.statements
    for name, column in cluster.nodes._extra.items():
        assert not name.startswith("batch/") or not column.values.any(), name
    assert {cluster.pods[uid].name for uid in cluster.assumed} == {name for name in world.held if name in books.there}
    for task in engine.cache.tasks.values():
        assert task.status is status(world, books, task.name), f"{task.name} is {task.status}"
        assert task.node_name == books.there.get(task.name, books.pods[task.name].spec.node_name)
    assert engine.cache.tasks.keys() == {
        pod.metadata.uid for pod in books.pods.values() if pod.spec.scheduler_name == "volcano"
    }
    for node in books.nodes:
        row, taken = cluster.nodes.row(node), books.taken(node)
        requested = {name: column.cells[row] for name, column in cluster.nodes.requesteds.items()}
        assert {k: v for k, v in requested.items() if v} == {k: v for k, v in taken.items() if v}
    for job in engine.cache.jobs.values():
        group = books.groups.get(job.name)
        if job.has_group and group is not None:
            mine = Resource()
            for name in set(books.members(group)) & books.keeping.keys():
                mine.add(on_node_requests(books.pods[name]))
            assert job.allocated.minus(mine).is_empty, f"{job!r} holds {mine}, and not {job.allocated}"


def status(world: World, books: Books, name: str) -> TaskStatus:
    """Describe where a task is."""
    pod = books.pods[name]
    if pod.status.phase in ("Succeeded", "Failed"):
        return TaskStatus(pod.status.phase)
    if _goes(pod):
        return TaskStatus.RELEASING
    if name in world.held:
        return TaskStatus.BINDING
    if not pod.spec.node_name:
        return TaskStatus.PENDING
    return TaskStatus.RUNNING if pod.status.phase == "Running" else TaskStatus.BOUND


def judge_queues(world: World, books: Books) -> None:
    """Queues say what they hold as the session left them; what is due to all is no more than there is."""
    for queue in world.of(Queue):
        said = Resource.parse(queue.status.allocated)
        held = books.held_by(queue.metadata.name)
        assert said.minus(held).is_empty, f"{queue.metadata.name} says {said}, but holds {held}"
    session = world.engine._session
    for plugin in session.plugins.tiers.plugins:
        if isinstance(plugin, Proportion):
            due = Resource()
            for name in books.queues:
                account = plugin.queue_account(session, session.queues[name])
                assert account is not None
                due.add(account.deserved)
            assert all(amount <= books.total.get(name, 0) for name, amount in due.items())


class BrokenGangs:
    """Which gangs must be complete again, and until when."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.on_binding_ended = self.look
        self.until: dict[str, float] = {}
        self.failed = 0

    def look(self) -> None:
        """Look which gangs have lost a member at its binding, and whether they are complete again."""
        world, books = self.world, Books(self.world)
        waiting = [name for name in world.failed[self.failed :] if name in books.pods and name not in books.there]
        failed = {world.group_name[name] for name in waiting}
        self.failed = len(world.failed)
        self.until = {name: until for name, until in self.until.items() if name in books.groups}
        for name, group in books.groups.items():
            if not books.is_broken(group):
                self.until.pop(name, None)
            elif name in failed:
                self.until.setdefault(name, world.time + world.timeout)
            elif world.refuses_evictions and name in self.until:
                self.until[name] = max(self.until[name], world.time)

    def judge(self) -> None:
        """A session leaves no gang whose time is up on its nodes, but for those that are just being bound."""
        self.look()
        books = Books(self.world)
        for name, until in self.until.items():
            if self.world.time > until + 1.0:
                keeping = [member for member in books.members(books.groups[name]) if member in books.keeping]
                assert all(member in self.world.held for member in keeping), f"{name} is broken and stays"


def run(world: World, sessions: int = SESSIONS) -> Iterator[None]:
    """Run sessions, each judged."""
    gangs = BrokenGangs(world)
    for _ in range(sessions):
        gangs.look()
        books, done = Books(world), len(world.log)
        world.session()
        judge_commits(world, books, world.log[done:])
        judge_queues(world, books)
        judge_state(world)
        gangs.judge()
        yield
        world.happen()


@pytest.mark.parametrize("seed", seeds(50))
def test_random_sessions_keep_the_invariants(seed: int, make_world: MakeWorld) -> None:
    for _ in run(make_world(seed)):
        pass


@pytest.mark.long
def test_random_worlds_cover_all_invariants(make_world: MakeWorld) -> None:
    """Whatever is judged happens in some of the worlds."""
    seen: Counter[str] = Counter()
    for seed in range(60):
        world = make_world(seed)
        for _ in run(world):
            seen["held"] += len(world.held)
        for what, _, how in world.log:
            seen[what if what == "bind" else how.split(" ")[0]] += 1
        seen["failed"] += len(world.failed)
    assert seen["bind"] > 400 and seen["held"] > 100 and seen["failed"] > 50, seen
    assert seen["preempt"] + seen["reclaim"] and seen[BROKEN.split(" ")[0]], seen


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds(1, step=100))
def test_same_seed_gives_the_same_run(seed: int, make_world: MakeWorld) -> None:
    """The same happens again, in another process as well, whatever order sets have there."""
    again = make_world(seed)
    for _ in range(SESSIONS):
        again.session()
        again.happen()
    program = [sys.executable, str(Path(__file__).with_name("conftest.py")), str(seed), str(SESSIONS)]
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        ended = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
        assert [tuple(entry) for entry in json.loads(ended.stdout)] == again.log
