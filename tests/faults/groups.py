"""Gangs and other groups in a world of pods: they come, lose pods, get others and go; and what must hold of them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from random import Random

from msgspec.structs import replace

from kframework.client.transitions import has_ended
from kframework.clock import Clock
from kframework.errors import ClusterError
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import CompositePodGroup, GenericPodGroup, Pod, PodGroup, PodSchedulingGroup
from tests.support.groups import basic, below, gang, in_one, tree, whole

__all__ = ["GroupChecker", "GroupWorld"]

ZONE = "topology.kubernetes.io/zone"

#: How long a scheduler may not have heard yet that a pod is about to end, in seconds.
DELAY = 150.0


class GroupWorld:
    """Makes groups of pods as `make_pod` makes them, and lets things happen to them."""

    def __init__(
        self, cluster: MemoryCluster, random: Random, make_pod: Callable[[str], Pod], troubles: Counter[str]
    ) -> None:
        self._cluster = cluster
        self._random = random
        self._make_pod = make_pod
        self._troubles = troubles
        self._made = 0
        self.changes: list[tuple[Callable[[], None], float]] = [
            (self._make_group, 0.09),
            (self._make_tree, 0.015),
            (self._add_pod, 0.1),
            (self._delete_group, 0.01),
            (self._restore_group, 0.05),
            (self._change_minimum, 0.02),
        ]
        self._groups: dict[str, GenericPodGroup] = {}
        self._members: Counter[str] = Counter()

    def _make_group(self) -> None:
        self._create(self._draw_group(self._random.choice([0, 0, 10, 100])))

    def _make_tree(self) -> None:
        """Make two or three groups and a root above them, which comes before them, after them or between them."""
        self._made += 1
        random, priority = self._random, self._random.choice([0, 0, 10, 100])
        root = tree(f"tree-{self._made}", random.choice([None, 1, 2]), priority)
        self._groups[root.metadata.name] = root
        count = random.randint(2, 3)
        position = random.randint(0, count)
        for number in range(count):
            if number == position:
                self._cluster.add(root)
            self._create(below(root.metadata.name, self._draw_group(priority)))
        if position == count:
            self._cluster.add(root)

    def _draw_group(self, priority: int) -> PodGroup:
        self._made += 1
        random, name = self._random, f"group-{self._made}"
        made = gang(name, random.randint(1, 4)) if random.random() < 0.8 else basic(name)
        made = replace(made, spec=replace(made.spec, priority=priority))
        made = whole(made) if random.random() < 0.3 else made
        return in_one(ZONE, made) if random.random() < 0.3 else made

    def _create(self, group: PodGroup) -> None:
        """Make a group before its pods, after them or between them; some never get enough pods."""
        random, name = self._random, group.metadata.name
        self._groups[name] = group
        size = random.randint(1, 6)
        first = random.randint(0, size)
        for number in range(size):
            if number == first:
                self._cluster.add(group)
            self._make_member(name)
        if first == size and random.random() < 0.9:
            self._cluster.add(group)

    def _make_member(self, name: str) -> None:
        self._members[name] += 1
        self._troubles["pods of groups"] += 1
        pod = self._make_pod(f"{name}-{self._members[name]}")
        member = PodSchedulingGroup(pod_group_name=name)
        spec = replace(pod.spec, scheduling_group=member, priority=self._groups[name].spec.priority or 0)
        self._cluster.add(replace(pod, spec=spec))

    def _add_pod(self) -> None:
        leaves = [name for name, group in self._groups.items() if isinstance(group, PodGroup)]
        if leaves:
            self._make_member(self._random.choice(leaves))

    def _delete_group(self) -> None:
        groups = [*self._cluster.objects(PodGroup), *self._cluster.objects(CompositePodGroup)]
        if groups:
            group = self._random.choice(groups)
            self._cluster.remove(type(group), group.metadata.name, group.metadata.namespace)

    def _restore_group(self) -> None:
        if self._groups:
            made = self._groups[self._random.choice(list(self._groups))]
            if self._cluster.find(type(made), made.metadata.name, "default") is None:
                self._cluster.add(made)

    def _change_minimum(self) -> None:
        groups = [each for each in self._cluster.objects(PodGroup) if each.spec.scheduling_policy.gang is not None]
        if groups:
            group = self._random.choice(groups)
            policy = gang("", self._random.randint(1, 4)).spec.scheduling_policy
            try:
                self._cluster.replace(replace(group, spec=replace(group.spec, scheduling_policy=policy)))
            except ClusterError:
                self._troubles["minima that could not be changed"] += 1


class GroupChecker:
    """Whether each gang had its minimum with every pod that was bound, within `patience` seconds.

    If gangs that are bound in part are given back (`gives_back`), none may be left so that never had its minimum.
    """

    def __init__(self, cluster: MemoryCluster, clock: Clock, patience: float, gives_back: bool) -> None:
        self._cluster = cluster
        self._clock = clock
        self._patience = patience
        self._gives_back = gives_back
        #: The gangs that had their minimum at some time.
        self._complete: set[str] = set()
        #: When the pods of a group were bound, and since when they do not count, by uid.
        self._bound: defaultdict[str, dict[str, float]] = defaultdict(dict)
        self._ended: dict[str, float] = {}
        #: When a group, or a pod of it that was not bound, was deleted or changed last; and when that befell a tree.
        self._disturbed: dict[str, float] = {}
        self._trees_disturbed_at = -math.inf
        #: When the last scheduler began: the one before may have died in the middle of the bindings of a gang.
        self._replaced_at = -math.inf
        cluster.subscribe([Pod, PodGroup, CompositePodGroup], self._changed)

    def _changed(self, change: Change) -> None:
        subject, now = change.new or change.old, self._clock.now()
        if isinstance(subject, CompositePodGroup) and change.new is None:
            self._trees_disturbed_at = now
        if isinstance(subject, PodGroup):
            if change.old is not None and (change.new is None or _spec(change.old) != _spec(change.new)):
                self._disturbed[subject.metadata.name] = now
        elif isinstance(subject, Pod) and subject.spec.scheduling_group is not None:
            uid, name = subject.metadata.uid, subject.spec.scheduling_group.pod_group_name or ""
            goes = change.new is None or subject.metadata.deletion_timestamp is not None or has_ended(subject)
            if goes:
                self._ended.setdefault(uid, now)
                if uid not in self._bound[name]:
                    self._disturbed[name] = now
            if subject.spec.node_name:
                self._bound[name].setdefault(uid, now)
            if len(self._running(name)) >= self._minimum(name):
                self._complete.add(name)

    def _running(self, name: str) -> set[str]:
        """Return the pods of a group that are bound and not about to end."""
        return self._bound[name].keys() - self._ended.keys()

    def _minimum(self, name: str) -> int:
        group = self._cluster.find(PodGroup, name, "default")
        policy = None if group is None else group.spec.scheduling_policy.gang
        return 0 if policy is None else policy.min_count

    def begin_scheduler(self) -> None:
        self._replaced_at = self._clock.now()

    def problems(self) -> Iterator[str]:
        """Name the gangs that were started in part, unless they were disturbed since or are to be given back."""
        if self._gives_back:
            for name in self._bound.keys() - self._complete:
                if 0 < len(self._running(name)) < self._minimum(name):
                    yield f"{len(self._running(name))} pods of {name} are bound, which needs {self._minimum(name)}"
            return
        for group in self._cluster.objects(PodGroup):
            name, policy = group.metadata.name, group.spec.scheduling_policy.gang
            bound = self._bound[name]
            if policy is None:
                continue
            for at in bound.values():
                since, until = at - DELAY, at + self._patience
                enough = [uid for uid in bound if bound[uid] <= until and self._ended.get(uid, at) >= since]
                disturbed = max(self._disturbed.get(name, -math.inf), self._replaced_at)
                if group.spec.parent_composite_pod_group_name:
                    disturbed = max(disturbed, self._trees_disturbed_at)
                if len(enough) < policy.min_count and disturbed <= since:
                    yield f"{len(enough)} pods of {name} were bound at {at:.3f}, which needs {policy.min_count}"


def _spec(subject: object) -> object:
    return subject.spec if isinstance(subject, PodGroup) else None
