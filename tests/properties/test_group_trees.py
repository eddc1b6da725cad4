"""Random worlds of trees of groups: a tree is bound with enough of its groups, each with its minimum, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from kframework.core.groups.walk import Walk
from kframework.core.queue.group_queue import GroupQueue
from kframework.objects import ApiObject, CompositePodGroup, Node, Pod, PodGroup
from kframework.testing import make_node, make_pod
from tests.support.group_worlds import (
    GroupWorld,
    checked,
    failures,
    ignore_the_minimum,
    keep_the_room_of_a_rejected_group,
    lose_pods_whose_binding_failed,
    peaceful,
)
from tests.support.groups import TREES, basic, below, gang, in_one, members, tree
from tests.support.scale import seeds

Group = PodGroup | CompositePodGroup
Tree = TypeVar("Tree", PodGroup, CompositePodGroup)


class World(GroupWorld):
    """Trees that come and lose pods."""

    config, trouble, refused = TREES, 30, 0.2

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.groups: dict[str, Group] = {}
        #: The roots of the trees that lost a pod, and may stay in part.
        self.wounded: set[str] = set()

    def objects(self) -> list[ApiObject]:
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

    # -- what happens --------------------------------------------------------------------------------------------------

    def change(self) -> None:
        happenings = (self.new_tree, self.new_single, self.delete_pod, self.renew_group, self.new_node)
        self.random.choice(happenings)()

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
        super().check_end()
        for name in [each for each in self.bound if each.partition("-")[0] not in self.wounded]:
            above: str | None = name
            while above is not None:
                assert self.is_whole(above), f"{above} is bound in part"
                above = self.groups[above].spec.parent_composite_pod_group_name
        self.check_domains()

    def is_whole(self, name: str) -> bool:
        """Return whether enough parts of a group were bound."""
        group = self.groups[name]
        if isinstance(group, PodGroup):
            gang_of_pods = group.spec.scheduling_policy.gang
            return len(self.bound.get(name, ())) >= (1 if gang_of_pods is None else gang_of_pods.min_count)
        parts = [other for other, each in self.groups.items() if each.spec.parent_composite_pod_group_name == name]
        gang_of_groups = group.spec.scheduling_policy.gang
        return sum(map(self.is_whole, parts)) >= (1 if gang_of_groups is None else gang_of_groups.min_group_count)

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


@pytest.mark.parametrize("seed", seeds())
def test_trees_are_bound_with_their_minimum_and_nothing_is_lost(seed: int) -> None:
    checked(World(seed))


def test_same_world_has_the_same_decisions() -> None:
    first, second = World(3), World(3)
    first.run()
    second.run()
    assert first.decisions() == second.decisions() != []


# -- planted faults ------------------------------------------------------------------------------------------------


def bind_groups_below_a_rejected_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Walk, "settle", lambda walk: None)


def forget_pods_below_a_group_that_comes_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupQueue, "_complete", lambda queue, group: None)


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
    assert any(failures(World))
