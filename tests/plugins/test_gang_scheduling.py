"""GangScheduling holds pods back until their gang can be whole, and rejects gangs that cannot."""

from __future__ import annotations

import pytest

from kframework.framework.answers import GroupProgress
from kframework.framework.events import QueueingHint
from kframework.objects import PodGroup
from kframework.plugins.gang_scheduling import GangScheduling, after_group, after_pod
from kframework.state.pods import PendingPod, TemplateInterner
from kframework.testing import make_pod, stub_handle
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates
from kframework.values.status import Code, Status
from tests.support.groups import basic, gang, members

ON = FeatureGates(settings={"GenericWorkload": True})


def pending(group: str = "g", number: int = 0) -> PendingPod:
    return PendingPod(members(group, number + 1)[number], TemplateInterner())


def gate_of(pod: PendingPod, *groups: PodGroup, known: int = 1, gates: FeatureGates = ON) -> Status | None:
    handle = stub_handle(feature_gates=gates)
    for group in groups:
        handle.objects(PodGroup).put(group.metadata, group)
    for number in range(known):
        handle.pod_groups.add(f"uid-{number}", ("default", "g"))
    return GangScheduling(GangScheduling.Args(), handle).pre_enqueue(pod)


def test_pod_waits_for_its_group() -> None:
    text = 'waiting for pods\'s pod group "g" to appear in scheduling queue'
    assert gate_of(pending()) == Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))


def test_pod_waits_until_as_many_as_the_minimum_exist() -> None:
    text = "waiting for minCount pods from a gang to appear in scheduling queue"
    assert gate_of(pending(), gang("g", 2)) == Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))
    assert gate_of(pending(), gang("g", 2), known=2) is None


@pytest.mark.parametrize("group", [basic("g"), gang("g", 1)])
def test_pod_of_a_group_that_can_be_scheduled_is_admitted(group: PodGroup) -> None:
    assert gate_of(pending(), group) is None


def test_pod_without_a_group_and_all_pods_with_the_gate_off_are_admitted() -> None:
    assert gate_of(PendingPod(make_pod("alone"), TemplateInterner())) is None
    assert gate_of(pending(), gates=DEFAULT_GATES) is None


@pytest.mark.parametrize(
    ("scheduled", "remaining", "status"),
    [
        (0, 2, Status(Code.UNSCHEDULABLE, ("minCount (3) cannot be satisfied: 0 scheduled, 2 remaining",))),
        (1, 2, Status(Code.WAIT, ("minCount (3) is not yet satisfied: 1 scheduled, 2 remaining",))),
        (3, 0, None),
        (3, 9, None),
    ],
)
def test_gang_is_feasible_from_its_minimum_on(scheduled: int, remaining: int, status: Status | None) -> None:
    plugin = GangScheduling(GangScheduling.Args(), stub_handle(feature_gates=ON))
    assert plugin.placement_feasible(gang("g", 3), GroupProgress(scheduled, remaining)) == status
    assert plugin.placement_feasible(basic("g"), GroupProgress(scheduled, remaining)) is None


def test_new_pod_wakes_those_of_its_group() -> None:
    assert after_pod(pending(), None, pending(number=1)) is QueueingHint.QUEUE
    assert after_pod(pending(), None, pending("h")) is QueueingHint.SKIP


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, gang("g", 3), True),
        (gang("g", 3), gang("g", 2), True),
        (gang("g", 3), gang("g", 4), False),
        (gang("g", 3), gang("g", 3), False),
        (None, gang("h", 3), False),
    ],
)
def test_group_wakes_its_pods_if_its_minimum_falls(old: PodGroup | None, new: PodGroup, wakes: bool) -> None:
    assert after_group(pending(), old, new) is (QueueingHint.QUEUE if wakes else QueueingHint.SKIP)
