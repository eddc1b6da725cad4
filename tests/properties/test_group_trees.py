"""Random worlds of trees of groups: a tree is bound with enough of its groups, each with its minimum, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TypeVar

import pytest

from kframework import ClusterError, Simulation, Status
from kframework.core.cycle.group_walk import Walk, WalkedPod
from kframework.core.queue.group_queue import GroupQueue
from kframework.in_memory.cluster import Fault
from kframework.objects import ApiObject, CompositePodGroup, Node, Pod, PodGroup
from kframework.state.pods import QueuedPod
from kframework.testing import make_node, make_pod
from tests.properties.test_groups import peaceful
from tests.support.groups import TREES, basic, below, gang, in_one, members, tree
from tests.support.scale import seeds

#: For how long objects come, go and are refused, and for how long it is quiet then.
TROUBLE, QUIET = 30, 60.0

Group = PodGroup | CompositePodGroup
Tree = TypeVar("Tree", PodGroup, CompositePodGroup)


class World:
    """Trees that come and lose pods by chance, under a scheduler whose bindings are refused by chance."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.groups: dict[str, Group] = {}
        self.simulation = Simulation(self.nodes(), config=TREES, seed=seed)
        self.simulation.cluster.faults.append(self.fault)
        self.singles = 0
        #: The pods of each group that were bound, whether or not they were deleted since.
        self.bound: dict[str, set[str]] = {}
        #: The roots of the trees that lost a pod, and may stay in part.
        self.wounded: set[str] = set()

    def nodes(self) -> list[Node]:
        return [
            self.node(block, rack, number)
            for block in "xy"[: self.random.randint(1, 2)]
            for rack in range(self.random.randint(1, 2))
            for number in range(self.random.randint(1, 3))
        ]

    def node(self, block: str, rack: int, number: int) -> Node:
        """Make a node in a rack, or in none by chance."""
        labels = {"block": block, "rack": f"{block}{rack}"} if self.random.random() < 0.9 else {}
        return make_node(f"{block}{rack}-{number}", cpu=4, labels=labels)

    def fault(self, method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        if method == "bind" and self.simulation.seconds < TROUBLE and self.random.random() < 0.2:
            return Fault(error=ClusterError("refused", status=403), delay=self.random.choice((0.0, 0.5)))
        return None

    def run(self) -> None:
        for _ in range(TROUBLE):
            for _ in range(self.random.randint(0, 2)):
                happenings = (self.new_tree, self.new_single, self.delete_pod, self.renew_group, self.new_node)
                self.random.choice(happenings)()
            self.simulation.run(1.0)
            self.watch()
            self.check_queue()
        self.simulation.run(QUIET)
        self.watch()

    # -- what happens --------------------------------------------------------------------------------------------------

    def new_tree(self) -> None:
        """Create the groups of a tree of two or three levels and their pods, in any order."""
        name = f"t{len(self.groups)}"
        created: list[ApiObject] = [*self.tree(name, None, self.random.randint(1, 2))]
        self.random.shuffle(created)
        for subject in created:
            self.simulation.create(subject)
            if self.random.random() < 0.1:
                self.simulation.run(0.5)

    def tree(self, name: str, parent: str | None, levels: int) -> Iterator[ApiObject]:
        children = self.random.randint(1, 3)
        minimum = self.random.randint(1, children) if self.random.random() < 0.7 else None
        yield self.keep(tree(name, minimum), parent, "block")
        for number in range(children):
            child = f"{name}-{number}"
            if levels > 1 and self.random.random() < 0.5:
                yield from self.tree(child, name, levels - 1)
                continue
            size = self.random.randint(1, 3)
            leaf = gang(child, self.random.randint(1, size)) if self.random.random() < 0.8 else basic(child)
            yield self.keep(leaf, name, "rack")
            yield from map(peaceful, members(child, size, cpu=self.random.choice(("1", "2", "3"))))

    def keep(self, group: Tree, parent: str | None, key: str) -> Tree:
        """Remember a group, with its parent and, by chance, a topology constraint."""
        group = in_one(key, group) if self.random.random() < 0.3 else group
        group = group if parent is None else below(parent, group)
        self.groups[group.metadata.name] = group
        return group

    def new_single(self) -> None:
        self.singles += 1
        self.simulation.create(peaceful(make_pod(f"single-{self.singles}", cpu=self.random.choice(("1", "2")))))

    def new_node(self) -> None:
        """Create a node of the first or of a new block, half of the times."""
        if self.random.random() < 0.5:
            self.simulation.create(self.node(self.random.choice("xz"), 0, len(self.simulation.objects(Node)) + 10))

    def delete_pod(self) -> None:
        names = sorted(pod.metadata.name for pod in self.simulation.objects(Pod))
        if names:
            name = self.random.choice(names)
            self.simulation.delete(Pod, name)
            self.wounded.add(name.partition("-")[0])

    def renew_group(self) -> None:
        """Delete a group that holds pods back, and create it again some time later."""
        existing = [each for kind in (PodGroup, CompositePodGroup) for each in self.simulation.objects(kind)]
        names = sorted(each.metadata.name for each in existing)
        if names:
            group = self.groups[self.random.choice(names)]
            self.simulation.delete(type(group), group.metadata.name)
            self.simulation.run(0.5)
            if self.simulation.cluster.find(type(group), group.metadata.name, "default") is None:
                self.simulation.create(group)

    def watch(self) -> None:
        for pod in self.simulation.objects(Pod):
            group = pod.spec.scheduling_group
            if group is not None and pod.spec.node_name:
                self.bound.setdefault(group.pod_group_name or "", set()).add(pod.metadata.name)

    # -- what holds ----------------------------------------------------------------------------------------------------

    def check_queue(self) -> None:
        """Check that each pod that waits is in one queue, and that the pods of a tree are in the same one."""
        engine = self.simulation.scheduler.engine
        counts = engine.queue.count_by_queue()
        queues = {queued.pod.uid: name for name in counts for queued in engine.queue.pods_in(name)}
        assert sum(counts.values()) == len(queues) == len(engine.queue)
        assert queues.keys() == {uid for uid in engine.pending if uid not in engine.cluster.assumed}
        together: dict[str, set[str]] = {}
        for uid, name in queues.items():
            pod = engine.pending[uid]
            root = engine.cluster.groups.root(pod)
            assert (name == "incomplete") == (bool(pod.group) and root is None)
            if root is not None:
                together.setdefault(root.metadata.name, set()).add(name)
        assert all(len(names) == 1 for names in together.values())

    def check_end(self) -> None:
        engine = self.simulation.scheduler.engine
        self.check_queue()
        assert not engine.cluster.assumed and not engine.cluster.statements and not len(engine.queue.in_flight)
        for name in [each for each in self.bound if each.partition("-")[0] not in self.wounded]:
            above: str | None = name
            while above is not None:
                assert self.is_whole(above), f"{above} is bound in part"
                above = self.groups[above].spec.parent_composite_pod_group_name

    def is_whole(self, name: str) -> bool:
        """Return whether enough parts of a group were bound."""
        group = self.groups[name]
        if isinstance(group, PodGroup):
            gang_of_pods = group.spec.scheduling_policy.gang
            return len(self.bound.get(name, ())) >= (1 if gang_of_pods is None else gang_of_pods.min_count)
        parts = [other for other, each in self.groups.items() if each.spec.parent_composite_pod_group_name == name]
        gang_of_groups = group.spec.scheduling_policy.gang
        return sum(map(self.is_whole, parts)) >= (1 if gang_of_groups is None else gang_of_groups.min_group_count)

    def check_no_wake_up_was_lost(self) -> None:
        """Check that what waits for events would not fit: nothing changes if all is tried again."""
        before = len(self.simulation.bindings)
        self.simulation.run(700.0)
        assert len(self.simulation.bindings) == before

    def check_domains(self) -> None:
        """Check that the pods of each group with a constraint are in one domain."""
        labels = {node.metadata.name: node.metadata.labels for node in self.simulation.objects(Node)}
        for name, group in self.groups.items():
            constraints = group.spec.scheduling_constraints
            if constraints is not None:
                placed = [
                    pod for pod in self.simulation.objects(Pod) if pod.spec.node_name and self.is_below(pod, name)
                ]
                assert len({labels[pod.spec.node_name][constraints.topology[0].key] for pod in placed}) <= 1, name

    def is_below(self, pod: Pod, name: str) -> bool:
        above = None if pod.spec.scheduling_group is None else pod.spec.scheduling_group.pod_group_name
        while above is not None and above != name:
            above = self.groups[above].spec.parent_composite_pod_group_name
        return above is not None

    def decisions(self) -> list[tuple[str, str | None]]:
        return [(each.pod, each.node) for each in self.simulation.decisions]


def checked(seed: int) -> World:
    world = World(seed)
    world.run()
    world.check_end()
    world.check_domains()
    world.check_no_wake_up_was_lost()
    return world


@pytest.mark.parametrize("seed", seeds())
def test_trees_are_bound_with_their_minimum_and_nothing_is_lost(seed: int) -> None:
    checked(seed)


def test_same_world_has_the_same_decisions() -> None:
    first, second = World(3), World(3)
    first.run()
    second.run()
    assert first.decisions() == second.decisions() != []


# -- planted faults ------------------------------------------------------------------------------------------------


def keep_the_room_of_a_rejected_group(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WalkedPod, "undo", lambda member: None)


def bind_groups_below_a_rejected_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Walk, "settle", lambda walk: None)


def ignore_the_minimum(patch: pytest.MonkeyPatch) -> None:
    def feasible(*about: object) -> Status | None:
        return None

    patch.setattr("kframework.core.cycle.group_walk.run_placement_feasible", feasible)


def forget_pods_below_a_group_that_comes_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupQueue, "_complete", lambda queue, group: None)


def lose_pods_whose_binding_failed(patch: pytest.MonkeyPatch) -> None:
    def lose(queue: GroupQueue, root: object, member: QueuedPod) -> None: ...

    patch.setattr(GroupQueue, "_put_back_unbound", lose)


@pytest.mark.parametrize(
    "plant",
    [
        keep_the_room_of_a_rejected_group,
        bind_groups_below_a_rejected_one,
        ignore_the_minimum,
        forget_pods_below_a_group_that_comes_late,
        lose_pods_whose_binding_failed,
    ],
)
def test_planted_fault_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert any(failures(range(20)))


def failures(worlds: range) -> Iterator[str]:
    for seed in worlds:
        try:
            checked(seed)
        except AssertionError as problem:
            yield str(problem) or "unnamed"
