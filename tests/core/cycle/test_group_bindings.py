"""The bindings of a gang, or of a tree, wait for each other: enough of its pods are bound, or none of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ClassVar

import pytest

from kframework import Code, CycleState, PendingPod, Plugin, Simulation, Status, Wait, hookimpl, unschedulable
from kframework.config.configuration import Configuration
from kframework.config.load import parse
from kframework.core.cycle.group_bindings import GroupBindings
from kframework.objects import ApiObject, GenericPodGroup, Pod, PodGroup
from kframework.plugins.gang_scheduling import GangScheduling
from kframework.state.group_trees import POD_GROUP
from kframework.testing import make_node, make_pod, stub_handle
from tests.support.groups import TREES, basic, below, gang, members, nodes, tree


class Bindings:
    """The bindings of a tree of groups; `decided` has what was decided of each pod."""

    def __init__(self, root: GenericPodGroup, *below: PodGroup) -> None:
        handle = stub_handle(objects=(root, *below), feature_gates=TREES.options.gates)
        self.groups, plugin = handle.pod_groups, GangScheduling(GangScheduling.Args(), handle)
        self.decided: dict[str, str] = {}
        self.bindings = GroupBindings(root, self.groups, plugin.placement_feasible, lambda group: True)

    def put(self, *uids: str, group: str = "g") -> None:
        """Put pods on nodes."""
        for uid in uids:
            self.groups.assign(uid, ("default", group))

    def add(self, *uids: str, group: str = "g") -> None:
        """Put pods on nodes that may still fail."""
        self.put(*uids, group=group)
        leaf = self.groups.trees.get((POD_GROUP, "default", group))
        assert isinstance(leaf, PodGroup)
        for uid in uids:
            self.bindings.add(uid, leaf)

    def ready(self, *uids: str) -> None:
        for uid in uids:
            self.bindings.on_decision(uid, partial(self.decide, uid))

    def decide(self, uid: str) -> None:
        refusal = self.bindings.refusal(uid)
        assert refusal is None or refusal.message.startswith("pod group cannot be bound, minCount (")
        self.decided[uid] = "bound" if refusal is None else "refused"

    def fail(self, uid: str) -> None:
        self.groups.remove(uid)
        self.bindings.remove(uid)


def gang_of_three(others: int = 0) -> Bindings:
    """Return the bindings of three pods of a gang that needs three, beside others."""
    bindings = Bindings(gang("g", 3))
    bindings.put(*(f"other-{number}" for number in range(others)))
    bindings.add(*"abc")
    return bindings


@pytest.mark.parametrize(
    ("others", "events", "expected"),
    [
        (0, lambda b: b.ready("a", "b"), {}),
        (0, lambda b: b.ready("a", "b", "c"), dict.fromkeys("abc", "bound")),
        (0, lambda b: (b.ready("a", "b"), b.fail("c")), dict.fromkeys("ab", "refused")),
        (0, lambda b: (b.fail("c"), b.ready("a", "b")), dict.fromkeys("ab", "refused")),
        (0, lambda b: (b.ready("a", "b"), b.bindings.withdraw("b")), {"a": "refused"}),
        (0, lambda b: (b.ready("a"), b.bindings.withdraw("c")), {}),
        (1, lambda b: b.ready("a", "b"), dict.fromkeys("ab", "bound")),
        (1, lambda b: (b.ready("a", "b"), b.fail("c")), dict.fromkeys("ab", "bound")),
        (1, lambda b: (b.ready("a"), b.fail("c"), b.fail("b")), {"a": "refused"}),
        (3, lambda b: b.ready("a"), {"a": "bound"}),
    ],
)
def test_pods_are_bound_once_enough_can_be_and_refused_once_too_few_can(
    others: int, events: Callable[[Bindings], object], expected: dict[str, str]
) -> None:
    bindings = gang_of_three(others)
    events(bindings)
    assert bindings.decided == expected


def test_refused_pods_count_no_more_until_they_have_ended() -> None:
    bindings = gang_of_three()
    bindings.ready("a", "b")
    bindings.fail("c")
    bindings.add("d")
    bindings.ready("d")
    assert bindings.decided == dict.fromkeys("abd", "refused")
    for uid in "abd":
        assert not bindings.bindings.is_idle
        bindings.fail(uid)
    assert bindings.bindings.is_idle


def tree_of_two(minimum: int) -> Bindings:
    """Return the bindings of the pods a and b of one gang of two, and of c and d of another, in a tree."""
    bindings = Bindings(tree("root", minimum), below("root", gang("left", 2)), below("root", gang("right", 2)))
    bindings.add("a", "b", group="left")
    bindings.add("c", "d", group="right")
    return bindings


@pytest.mark.parametrize(
    ("minimum", "events", "expected"),
    [
        (2, lambda b: b.ready("a", "b", "c"), {}),
        (2, lambda b: b.ready("a", "b", "c", "d"), dict.fromkeys("abcd", "bound")),
        (2, lambda b: (b.ready("a", "b"), b.fail("c")), dict.fromkeys("ab", "refused")),
        (2, lambda b: (b.fail("c"), b.ready("a", "b", "d")), dict.fromkeys("abd", "refused")),
        (2, lambda b: (b.ready("a", "b", "c"), b.bindings.withdraw("a")), dict.fromkeys("bc", "refused")),
        (1, lambda b: b.ready("a", "b", "c"), dict.fromkeys("ab", "bound")),
        (1, lambda b: (b.ready("a", "b", "c"), b.fail("d")), dict.fromkeys("ab", "bound") | {"c": "refused"}),
        (1, lambda b: (b.ready("a"), b.fail("c"), b.fail("b")), {"a": "refused"}),
    ],
)
def test_pods_of_a_tree_are_bound_once_enough_of_its_groups_can_be(
    minimum: int, events: Callable[[Bindings], object], expected: dict[str, str]
) -> None:
    bindings = tree_of_two(minimum)
    events(bindings)
    assert bindings.decided == expected


def test_tree_has_enough_if_its_minimum_does_not_need_the_pods_that_may_fail() -> None:
    bindings = tree_of_two(1)
    assert len(bindings.bindings.short_groups()) == 2
    bindings.put("e", "f", group="left")
    assert len(bindings.bindings.short_groups()) == 1  # the other group is a gang, too
    bindings.put("g", "h", group="right")
    assert not bindings.bindings.short_groups()


# -- whole gangs -----------------------------------------------------------------------------------------------------


class Prepares(Plugin):
    """Approves and prepares pods as `script` says, which has what is answered once to each pod, by hook."""

    name = "Prepares"
    script: ClassVar[dict[tuple[str, str], Status | Wait | float]] = {}

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | Wait | None:
        answer = self.script.pop(("permit", pod.name), None)
        assert not isinstance(answer, float)
        return answer

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        answer = self.script.pop(("pre_bind", pod.name), None)
        if isinstance(answer, float):
            await asyncio.sleep(answer)
            return None
        assert not isinstance(answer, Wait)
        return answer


class Refuses(Plugin):
    """Refuses pods in Permit, each once or always."""

    name = "Refuses"
    refused: ClassVar[set[str]] = set()
    once: ClassVar[bool] = True

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        if pod.name not in self.refused:
            return None
        if self.once:
            self.refused.remove(pod.name)
        return unschedulable("not now")


def with_plugin(plugin: type[Plugin]) -> Configuration:
    return parse(f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: {plugin.name}}}]}}}}}}]
---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
featureGates: {{GenericWorkload: true, TopologyAwareWorkloadScheduling: true, CompositePodGroup: true}}
""")


BROKEN = Status(Code.ERROR, ("broken",))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Simulation]:
    """Return a function that runs a gang whose pods the plugin answers by script."""

    def begin(script: dict[tuple[str, str], Status | Wait | float], *objects: ApiObject) -> Simulation:
        monkeypatch.setattr(Prepares, "script", dict(script))
        simulation = Simulation([*nodes(3), *objects], config=with_plugin(Prepares), plugins=[Prepares])
        simulation.run(1)
        return simulation

    return begin


def bound(simulation: Simulation) -> list[str]:
    return sorted(pod.metadata.name for pod in simulation.objects(Pod) if pod.spec.node_name)


GANG = [gang("g", 3), *members("g", 3, cpu="3")]
ALL = ["g-0", "g-1", "g-2"]


@pytest.mark.parametrize(
    "script",
    [
        {("pre_bind", "g-2"): BROKEN},
        {("pre_bind", "g-0"): BROKEN},
        {("pre_bind", "g-1"): unschedulable("not here")},
        {("pre_bind", "g-0"): 5.0, ("pre_bind", "g-1"): BROKEN},
        {("permit", "g-1"): unschedulable("not now")},
        {("permit", "g-1"): Wait(5.0)},
        {("permit", "g-1"): Wait(5.0), ("pre_bind", "g-0"): BROKEN},
    ],
)
def test_gang_is_not_bound_in_part_if_a_pod_fails_before_it_is_bound(
    run: Callable[..., Simulation], script: dict[tuple[str, str], Status | Wait | float]
) -> None:
    simulation = run(script, *GANG)
    for _ in range(30):
        assert bound(simulation) in ([], ALL)
        simulation.run(1)
    assert bound(simulation) == ALL
    assert len(simulation.decisions) > 3


def test_no_gang_of_a_tree_is_bound_if_another_one_that_it_needs_fails(run: Callable[..., Simulation]) -> None:
    leaves = [below("root", gang(name, 2)) for name in "ab"]
    pods = [*members("a", 2), *members("b", 2)]
    simulation = run({("pre_bind", "b-1"): BROKEN}, tree("root", 2), *leaves, *pods)
    for _ in range(30):
        assert bound(simulation) in ([], ["a-0", "a-1", "b-0", "b-1"])
        simulation.run(1)
    assert bound(simulation)


def test_gang_is_not_bound_in_part_if_permit_refuses_a_pod_and_nothing_is_prepared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Refuses, "refused", {"g-2"})
    simulation = Simulation([*nodes(3), *GANG], config=with_plugin(Refuses), plugins=[Refuses])
    simulation.run(1)
    assert [binding.code for binding in simulation.bindings[:2]] == [Code.ERROR] * 2
    simulation.run(30)
    assert bound(simulation) == ALL


@pytest.mark.parametrize("group", [basic("g"), gang("g", 1)], ids=["basic", "gang"])
def test_pod_that_permit_rejects_waits_though_its_group_fits(group: PodGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Refuses, "refused", {"g-0", "g-1"})
    monkeypatch.setattr(Refuses, "once", False)
    objects = [*nodes(2), group, *members("g", 2)]
    simulation = Simulation(objects, config=with_plugin(Refuses), plugins=[Refuses])
    simulation.run(60)
    assert bound(simulation) == [] and len(simulation.decisions) == 2
    Refuses.refused.clear()
    simulation.create(make_node("n2"))
    simulation.run(60)
    assert bound(simulation) == ["g-0", "g-1"]


def test_pods_wait_until_the_slowest_of_their_gang_is_ready(run: Callable[..., Simulation]) -> None:
    simulation = run({("pre_bind", "g-1"): 5.0}, *GANG)
    engine = simulation.scheduler.engine
    waits = {pod.pod.name: pod.describe_wait(simulation.clock.now()) for pod in engine.cluster.waiting}
    assert waits["g-0"] == "in GangScheduling.placement_feasible for 1 s"
    assert waits["g-1"] == "in Prepares.pre_bind for 1 s"
    simulation.run(6)
    assert bound(simulation) == ALL
    assert len(simulation.decisions) == 3


def test_pods_beyond_the_minimum_wait_for_nobody(run: Callable[..., Simulation]) -> None:
    simulation = run({("pre_bind", "g-1"): 5.0}, gang("g", 2), *members("g", 3, cpu="3"))
    assert bound(simulation) == ["g-0", "g-2"]


def test_pods_of_a_group_without_a_minimum_wait_for_nobody(run: Callable[..., Simulation]) -> None:
    simulation = run({("pre_bind", "g-1"): 5.0}, basic("g"), *members("g", 3, cpu="3"))
    assert bound(simulation) == ["g-0", "g-2"]


def test_room_is_kept_for_a_gang_until_it_is_tried_again(run: Callable[..., Simulation]) -> None:
    simulation = run({("pre_bind", "g-2"): BROKEN}, *GANG)
    simulation.create(make_pod("other", cpu="3"))
    simulation.run(30)
    assert bound(simulation) == ALL


def test_gang_that_loses_a_pod_while_it_is_prepared_gives_its_room_back(run: Callable[..., Simulation]) -> None:
    simulation = run({("pre_bind", "g-1"): 5.0}, *GANG)
    simulation.delete(Pod, "g-1")
    simulation.run(20)
    assert bound(simulation) == []
    simulation.create(members("g", 4, cpu="3")[3])
    simulation.run(30)
    assert bound(simulation) == ["g-0", "g-2", "g-3"]


def test_gang_without_its_minimum_keeps_no_room(run: Callable[..., Simulation]) -> None:
    simulation = run({("pre_bind", "g-1"): 5.0}, *GANG)
    simulation.delete(Pod, "g-1")
    simulation.run(20)
    for number in range(3):
        simulation.create(make_pod(f"other-{number}", cpu="3"))
    simulation.run(30)
    assert bound(simulation) == ["other-0", "other-1", "other-2"]


def test_gang_of_which_a_ready_pod_is_preempted_is_not_bound_in_part(run: Callable[..., Simulation]) -> None:
    simulation = run({("pre_bind", "g-1"): 5.0}, *GANG)
    simulation.create(make_pod("high", cpu="3", priority=10))
    for _ in range(30):
        simulation.run(0.5)
        assert set(bound(simulation)) <= {"high"}
    assert bound(simulation) == ["high"]
    assert not simulation.scheduler.engine.cluster.assumed


def test_pods_that_only_need_to_be_bound_do_not_overtake_their_gang(run: Callable[..., Simulation]) -> None:
    simulation = run({("pre_bind", "g-1"): 5.0}, *GANG)
    binder, (root,) = simulation.scheduler.engine.group_binder, simulation.objects(PodGroup)
    assert not binder.may_skip(root)
    simulation.run(10)
    assert binder.may_skip(root)
    binder.time_limit = 1.0
    assert not binder.may_skip(root) and binder.may_skip(basic("g"))


def test_late_pod_of_a_gang_does_not_wait_for_bindings_that_are_under_way(run: Callable[..., Simulation]) -> None:
    simulation = run({}, *GANG)
    simulation.create(members("g", 4)[3])
    simulation.run(1)
    assert bound(simulation) == [*ALL, "g-3"]
    assert len(simulation.decisions) == 4
