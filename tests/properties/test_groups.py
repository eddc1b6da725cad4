"""Random worlds of gangs, groups and single pods: no gang is left in part, no room leaks, no pod is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kframework import ClusterError
from kframework.config.load import parse
from kframework.core.group_binder import GroupBinder
from kframework.core.queue.group_queue import GroupQueue
from kframework.core.queue.queued_group import QueuedGroup
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
from kframework.objects.pod_groups import BINDING
from kframework.state.pods import PendingPod, QueuedPod
from kframework.testing import make_pod
from tests.support.group_worlds import (
    GroupWorld,
    checked,
    failures,
    ignore_the_minimum,
    keep_the_room_of_a_rejected_group,
    lose_pods_whose_binding_failed,
    peaceful,
)
from tests.support.groups import GROUPS, basic, gang, members, nodes
from tests.support.scale import seeds


class World(GroupWorld):
    """Gangs, groups and single pods."""

    config, trouble, refused = GROUPS, 40, 0.3

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.minimum: dict[str, int] = {}

    def objects(self) -> list[ApiObject]:
        return [*nodes(self.random.randint(2, 5))]

    def change(self) -> None:
        self.random.choice((self.new_group, self.new_single, self.delete_something, self.delete_something))()

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
        super().check_end()
        cluster = self.simulation.scheduler.engine.cluster
        assert not list(cluster.waiting.awaiting_permit())
        existing = {pod.metadata.name for pod in self.simulation.objects(Pod)}
        known = {group.metadata.name for group in self.simulation.objects(PodGroup)}
        for name, pods in self.bound.items():
            others = sum(pod.startswith(f"{name}-") for pod in existing - pods)
            if name in known and others and pods & existing:
                assert len(pods) >= self.minimum[name], f"{len(pods)} pods of {name} are bound, {others} wait"
        for name in known:
            assert cluster.groups.members("default", name).assumed == {}


class LimitedWorld(World):
    """A world in which the API always refuses some pods, and gangs are not to stay bound in part."""

    config = parse("""
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
gangBindingTimeout: 6s
featureGates: {GenericWorkload: true}
""")
    #: How long a gang may be bound in part: a retry may be under way when its time is over.
    patience = 6 + 2

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        #: Since when each gang is bound in part.
        self.since: dict[str, float] = {}

    def with_rules(self, pod: Pod) -> Pod:
        return peaceful(pod)

    def fault(self, method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        fault = super().fault(method, kind, namespace, name)
        is_stubborn = method == "bind" and name.endswith("-1") and self.simulation.seconds < self.trouble
        return fault or (Fault(error=ClusterError("refused", status=422)) if is_stubborn else None)

    def watch(self) -> None:
        super().watch()
        running = Counter(
            pod.spec.scheduling_group.pod_group_name
            for pod in self.simulation.objects(Pod)
            if pod.spec.scheduling_group and pod.spec.node_name and pod.metadata.deletion_timestamp is None
        )
        for group in self.simulation.objects(PodGroup):
            name, reasons = group.metadata.name, {each.type: each.reason for each in group.status.conditions}
            if 0 < running[name] < self.minimum[name] and reasons.get(BINDING) != "Bound":
                waits = self.simulation.seconds - self.since.setdefault(name, self.simulation.seconds)
                assert waits <= self.patience, f"{name} is bound in part for {waits} s"
            else:
                self.since.pop(name, None)


@pytest.mark.parametrize("seed", seeds())
def test_gangs_are_bound_whole_and_nothing_is_lost(seed: int) -> None:
    checked(World(seed))


@pytest.mark.parametrize("seed", seeds())
def test_gangs_are_bound_whole_in_time_or_given_back(seed: int) -> None:
    checked(LimitedWorld(seed))


def test_plugin_that_would_skip_is_not_asked_about_nominated_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFRAMEWORK_VERIFY", "1")
    checked(World(3))  # a member with anti-affinity keeps its room, and no other pod has terms any more


def test_same_world_has_the_same_decisions() -> None:
    first, second = World(3), World(3)
    first.run()
    second.run()
    assert first.decisions() == second.decisions() != []


# -- planted faults ------------------------------------------------------------------------------------------------


def let_rejected_groups_sleep(patch: pytest.MonkeyPatch) -> None:
    strategy_of = SchedulingQueue._queueing_strategy

    def skip(queue: SchedulingQueue, event: ObservedEvent, queued: QueuedPod, pod: PendingPod) -> QueueingStrategy:
        sleeps = isinstance(queued, QueuedGroup) and not event.is_wildcard
        return QueueingStrategy.SKIP if sleeps else strategy_of(queue, event, queued, pod)

    patch.setattr(GroupQueue, "_queueing_strategy", skip)


def keep_gangs_that_are_bound_in_part(patch: pytest.MonkeyPatch) -> None:
    def give_back(*about: object) -> None: ...

    patch.setattr(GroupBinder, "_give_back", give_back)


def test_gang_that_is_not_given_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_gangs_that_are_bound_in_part(monkeypatch)
    assert any("bound in part" in problem for problem in failures(LimitedWorld))


@pytest.mark.parametrize(
    "plant",
    [
        keep_the_room_of_a_rejected_group,
        ignore_the_minimum,
        lose_pods_whose_binding_failed,
        let_rejected_groups_sleep,
    ],
)
def test_planted_fault_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert any(failures(World))
