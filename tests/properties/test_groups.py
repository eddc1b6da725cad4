"""Random worlds of gangs, groups and single pods: no gang is left in part, no room leaks, no pod is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

import pytest
from msgspec.structs import replace

from kframework import ClusterError, Simulation, Status
from kframework.core.cycle.group_walk import WalkedPod
from kframework.core.queue.group_queue import GroupQueue, QueuedGroup
from kframework.core.queue.scheduling_queue import QueueingStrategy, SchedulingQueue
from kframework.framework.events import ObservedEvent
from kframework.in_memory.cluster import Fault
from kframework.objects import (
    Affinity,
    ApiObject,
    LabelSelector,
    Pod,
    PodAffinityTerm,
    PodAntiAffinity,
    PodGroup,
    TopologySpreadConstraint,
)
from kframework.state.pods import PendingPod, QueuedPod
from kframework.testing import make_pod
from tests.support.groups import GROUPS, basic, gang, members, nodes
from tests.support.scale import seeds

#: For how long objects come, go and are refused, and for how long it is quiet then: longer than any backoff, but not
#: so long that pods are tried again without an event.
TROUBLE, QUIET = 40, 60.0


def peaceful(pod: Pod) -> Pod:
    """Return the pod as one that evicts no other, which might leave a gang in part."""
    return replace(pod, spec=replace(pod.spec, preemption_policy="Never"))


class World:
    """Objects that come and go by chance, under a scheduler whose bindings are refused by chance."""

    config = GROUPS

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.minimum: dict[str, int] = {}
        #: The pods that were bound, by group, whether or not they were deleted since.
        self.bound: dict[str, set[str]] = {}
        there = [*nodes(self.random.randint(2, 5)), *self.objects()]
        self.simulation = self.new_simulation(there, seed)
        self.simulation.cluster.faults.append(self.fault)
        self.singles = 0

    def new_simulation(self, objects: list[ApiObject], seed: int) -> Simulation:
        return Simulation(objects, config=self.config, seed=seed)

    def objects(self) -> list[ApiObject]:
        """Return what is there from the start besides nodes."""
        return []

    def fault(self, method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        if method == "bind" and self.simulation.seconds < TROUBLE and self.random.random() < 0.3:
            return Fault(error=ClusterError("refused", status=403), delay=self.random.choice((0.0, 0.5)))
        return None

    def run(self) -> None:
        for _ in range(TROUBLE):
            for _ in range(self.random.randint(0, 2)):
                self.random.choice((self.new_group, self.new_single, self.delete_something, self.delete_something))()
            self.simulation.run(1.0)
            self.watch()
            self.check_queue()
        self.simulation.run(QUIET)
        self.watch()

    def new_group(self) -> None:
        """Create a gang or a basic group before its pods, after them or between them."""
        name, size = f"g{len(self.minimum)}", self.random.randint(1, 5)
        self.minimum[name] = self.random.randint(1, size) if self.random.random() < 0.8 else 1
        group = gang(name, self.minimum[name]) if self.random.random() < 0.8 else basic(name)
        if group.spec.scheduling_policy.gang is None:
            self.minimum[name] = 1
        pods = [self.with_rules(pod) for pod in members(name, size, cpu=self.random.choice(("1", "2", "3")))]
        group, pods = self.with_claims(group, pods)
        created: list[Pod | PodGroup] = [*pods]
        created.insert(self.random.randint(0, size), group)
        for subject in created:
            self.simulation.create(subject)
            if self.random.random() < 0.1:
                self.simulation.run(0.5)

    def with_claims(self, group: PodGroup, pods: list[Pod]) -> tuple[PodGroup, list[Pod]]:
        return group, pods

    def new_single(self) -> None:
        self.singles += 1
        pod = make_pod(
            f"single-{self.singles}", cpu=self.random.choice(("1", "2")), priority=self.random.choice((-1, 0))
        )
        self.simulation.create(self.with_rules(pod))

    def with_rules(self, pod: Pod) -> Pod:
        labels, spec = {"app": self.random.choice("xy")}, peaceful(pod).spec
        selector = LabelSelector(match_labels=labels)
        if self.random.random() < (0.3 if pod.spec.scheduling_group is None else 0.15):
            term = PodAffinityTerm(label_selector=selector, topology_key="kubernetes.io/hostname")
            anti = PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
            spec = replace(spec, affinity=Affinity(pod_anti_affinity=anti))
        elif self.random.random() < 0.15:
            constraint = TopologySpreadConstraint(
                max_skew=1,
                topology_key="kubernetes.io/hostname",
                when_unsatisfiable="DoNotSchedule",
                label_selector=selector,
            )
            spec = replace(spec, topology_spread_constraints=(constraint,))
        return replace(pod, metadata=replace(pod.metadata, labels=labels), spec=spec)

    def delete_something(self) -> None:
        kind: type[Pod | PodGroup] = Pod if self.random.random() < 0.8 else PodGroup
        names = sorted(each.metadata.name for each in self.simulation.objects(kind))
        if names:
            self.simulation.delete(kind, self.random.choice(names))

    def watch(self) -> None:
        for pod in self.simulation.objects(Pod):
            group = pod.spec.scheduling_group
            if group is not None and pod.spec.node_name:
                self.bound.setdefault(group.pod_group_name or "", set()).add(pod.metadata.name)

    # -- what holds ------------------------------------------------------------------------------------------------

    def check_queue(self) -> None:
        """Check that each pod that waits is in one queue, and that the queues count their pods."""
        engine = self.simulation.scheduler.engine
        counts = engine.queue.count_by_queue()
        placed = Counter(queued.pod.uid for name in counts for queued in engine.queue.pods_in(name))
        assert all(count == 1 for count in placed.values())
        assert sum(counts.values()) == len(placed) == len(engine.queue)
        waiting = {uid for uid in engine.pending if uid not in engine.cluster.assumed}
        assert placed.keys() == waiting
        assert all(queued.pod.uid in waiting for queued in engine.queue)
        assert all(engine.queue.queue_of(uid) for uid in waiting)

    def check_end(self) -> None:
        engine = self.simulation.scheduler.engine
        self.check_queue()
        assert not engine.cluster.assumed and not engine.cluster.statements and not len(engine.queue.in_flight)
        assert not list(engine.cluster.waiting.awaiting_permit())
        existing = {pod.metadata.name for pod in self.simulation.objects(Pod)}
        known = {group.metadata.name for group in self.simulation.objects(PodGroup)}
        for name, pods in self.bound.items():
            others = sum(pod.startswith(f"{name}-") for pod in existing - pods)
            if name in known and others:
                assert len(pods) >= self.minimum[name], f"{len(pods)} pods of {name} are bound, {others} wait"
        for name in known:
            assert self.simulation.scheduler.engine.cluster.groups.members("default", name).assumed == {}

    def check_no_wake_up_was_lost(self) -> None:
        """Check that what waits for events would not fit: nothing changes if all is tried again."""
        before = len(self.simulation.bindings)
        self.simulation.run(700.0)
        assert len(self.simulation.bindings) == before

    def decisions(self) -> list[tuple[str, str | None]]:
        return [(each.pod, each.node) for each in self.simulation.decisions]


def checked(seed: int) -> World:
    world = World(seed)
    world.run()
    world.check_end()
    world.check_no_wake_up_was_lost()
    return world


@pytest.mark.parametrize("seed", seeds())
def test_gangs_are_bound_whole_and_nothing_is_lost(seed: int) -> None:
    checked(seed)


def test_plugin_that_would_skip_is_not_asked_about_nominated_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFRAMEWORK_VERIFY", "1")
    checked(3)  # a member with anti-affinity keeps its room, and no other pod has terms any more


def test_same_world_has_the_same_decisions() -> None:
    first, second = World(3), World(3)
    first.run()
    second.run()
    assert first.decisions() == second.decisions() != []


# -- planted faults ------------------------------------------------------------------------------------------------


def keep_the_room_of_a_rejected_group(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WalkedPod, "undo", lambda member: None)


def bind_whatever_fits(patch: pytest.MonkeyPatch) -> None:
    def feasible(*about: object) -> Status | None:
        return None

    patch.setattr("kframework.core.cycle.group_walk.run_placement_feasible", feasible)


def lose_pods_whose_binding_failed(patch: pytest.MonkeyPatch) -> None:
    def lose(queue: GroupQueue, key: object, member: QueuedPod) -> None: ...

    patch.setattr(GroupQueue, "_put_back_unbound", lose)


def let_rejected_groups_sleep(patch: pytest.MonkeyPatch) -> None:
    strategy_of = SchedulingQueue._queueing_strategy

    def skip(queue: SchedulingQueue, event: ObservedEvent, queued: QueuedPod, pod: PendingPod) -> QueueingStrategy:
        sleeps = isinstance(queued, QueuedGroup) and not event.is_wildcard
        return QueueingStrategy.SKIP if sleeps else strategy_of(queue, event, queued, pod)

    patch.setattr(GroupQueue, "_queueing_strategy", skip)


@pytest.mark.parametrize(
    "plant",
    [
        keep_the_room_of_a_rejected_group,
        bind_whatever_fits,
        lose_pods_whose_binding_failed,
        let_rejected_groups_sleep,
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
