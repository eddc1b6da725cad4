"""The bindings of a gang wait for each other: enough of its pods are bound, or none of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

import pytest

from kframework import Code, CycleState, PendingPod, Plugin, Simulation, Status, Wait, hookimpl, unschedulable
from kframework.config.load import parse
from kframework.core.cycle.group_bindings import GroupBindings
from kframework.objects import ApiObject, Pod
from kframework.testing import make_pod
from tests.support.groups import basic, gang, members, nodes

MINIMUM = 3


class Bindings:
    """The bindings of a gang with three pods as its minimum; `decided` has what was decided."""

    def __init__(self, *preparing: str, others: int = 0) -> None:
        self.scheduled = len(preparing) + others
        self.decided: dict[str, str] = {}
        self.group = GroupBindings(lambda: self.scheduled, self.ask)
        for uid in preparing:
            self.group.add(uid)

    def ask(self, scheduled: int, remaining: int) -> Status | None:
        if scheduled >= MINIMUM:
            return None
        return unschedulable("too few") if scheduled + remaining < MINIMUM else Status(Code.WAIT)

    def ready(self, *uids: str) -> None:
        for uid in uids:
            self.group.on_decision(uid, lambda uid=uid: self.decide(uid))  # type: ignore[misc]

    def decide(self, uid: str) -> None:
        refusal = self.group.refusal(uid)
        self.decided[uid] = "bound" if refusal is None else refusal.message

    def fail(self, uid: str) -> None:
        self.scheduled -= 1
        self.group.remove(uid)


REFUSED = "pod group cannot be bound, too few"


@pytest.mark.parametrize(
    ("others", "events", "expected"),
    [
        (0, lambda b: b.ready("a", "b"), {}),
        (0, lambda b: b.ready("a", "b", "c"), dict.fromkeys("abc", "bound")),
        (0, lambda b: (b.ready("a", "b"), b.fail("c")), dict.fromkeys("ab", REFUSED)),
        (0, lambda b: (b.fail("c"), b.ready("a", "b")), dict.fromkeys("ab", REFUSED)),
        (0, lambda b: (b.ready("a", "b"), b.group.withdraw("b")), {"a": REFUSED}),
        (0, lambda b: (b.ready("a"), b.group.withdraw("c")), {}),
        (1, lambda b: b.ready("a", "b"), dict.fromkeys("ab", "bound")),
        (1, lambda b: (b.ready("a", "b"), b.fail("c")), dict.fromkeys("ab", "bound")),
        (1, lambda b: (b.ready("a"), b.fail("c"), b.fail("b")), {"a": REFUSED}),
        (3, lambda b: b.ready("a"), {"a": "bound"}),
    ],
)
def test_pods_are_bound_once_enough_can_be_and_refused_once_too_few_can(
    others: int, events: Callable[[Bindings], object], expected: dict[str, str]
) -> None:
    bindings = Bindings(*"abc", others=others)
    events(bindings)
    assert bindings.decided == expected


def test_refused_pods_count_no_more_until_they_have_ended() -> None:
    bindings = Bindings(*"abc")
    bindings.ready("a", "b")
    bindings.fail("c")
    bindings.scheduled += 1
    bindings.group.add("d")
    bindings.ready("d")
    assert bindings.decided == dict.fromkeys("abd", REFUSED)
    for uid in "abd":
        assert not bindings.group.is_idle
        bindings.fail(uid)
    assert bindings.group.is_idle


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


CONFIG = parse("""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Prepares}]}}}]
---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
featureGates: {GenericWorkload: true}
""")
BROKEN = Status(Code.ERROR, ("broken",))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Simulation]:
    """Return a function that runs a gang whose pods the plugin answers by script."""

    def begin(script: dict[tuple[str, str], Status | Wait | float], *objects: ApiObject) -> Simulation:
        monkeypatch.setattr(Prepares, "script", dict(script))
        simulation = Simulation([*nodes(3), *objects], config=CONFIG, plugins=[Prepares])
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
    simulation.create(make_pod("other", cpu="3"))
    simulation.create(members("g", 4, cpu="3")[3])
    simulation.run(30)
    assert bound(simulation) == ["g-0", "g-2", "g-3"]


def test_late_pod_of_a_gang_does_not_wait_for_bindings_that_are_under_way(run: Callable[..., Simulation]) -> None:
    simulation = run({}, *GANG)
    simulation.create(members("g", 4)[3])
    simulation.run(1)
    assert bound(simulation) == [*ALL, "g-3"]
    assert len(simulation.decisions) == 4
