"""GangScheduling holds pods back until their gang can be whole, and rejects gangs that cannot."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kframework.framework.answers import GroupProgress
from kframework.objects import GenericPodGroup, PodGroup
from kframework.plugins.gang_scheduling import GangScheduling
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod
from kframework.testing import make_pod, stub_handle
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates
from kframework.values.status import Code, Status
from tests.support.groups import basic, below, gang, members, tree

ON = FeatureGates(settings={"GenericWorkload": True})
TREES = FeatureGates(
    settings=dict.fromkeys(("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup"), True)
)


def named(group: GenericPodGroup) -> GenericPodGroup:
    """Return the group with a uid."""
    return replace(group, metadata=replace(group.metadata, uid=f"uid-{group.metadata.name}"))


def pending(group: str = "g", number: int = 0) -> PendingPod:
    return PendingPod(members(group, number + 1)[number], TemplateInterner())


def gang_scheduling(*groups: GenericPodGroup, gates: FeatureGates = ON, **known: int) -> GangScheduling:
    """Make the plugin with these groups, each with its number of pods."""
    handle = stub_handle(feature_gates=gates, objects=groups)
    for group, count in known.items():
        for number in range(count):
            handle.pod_groups.add(f"{group}-{number}", ("default", group))
    return GangScheduling(GangScheduling.Args(), handle)


def gate_of(
    pod: PendingPod, *groups: GenericPodGroup, gates: FeatureGates = ON, g: int = 1, **known: int
) -> Status | None:
    return gang_scheduling(*groups, gates=gates, g=g, **known).pre_enqueue(pod)


def test_pod_waits_for_its_group() -> None:
    text = 'waiting for pods\'s pod group "g" to appear in scheduling queue'
    assert gate_of(pending()) == Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))


def test_pod_waits_until_as_many_as_the_minimum_exist() -> None:
    text = "waiting for minCount pods from a gang to appear in scheduling queue"
    assert gate_of(pending(), gang("g", 2)) == Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))
    assert gate_of(pending(), gang("g", 2), g=2) is None


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
    assert plugin.placement_feasible(tree("g", 3), GroupProgress(scheduled, remaining)) == status


@pytest.mark.parametrize("group", [basic("g"), tree("g")])
def test_group_without_a_minimum_is_feasible_from_one_part_on(group: GenericPodGroup) -> None:
    plugin = GangScheduling(GangScheduling.Args(), stub_handle(feature_gates=ON))
    wait = plugin.placement_feasible(group, GroupProgress(0, 1))
    assert wait == Status(Code.WAIT, ("minCount (1) is not yet satisfied: 0 scheduled, 1 remaining",))
    assert plugin.placement_feasible(group, GroupProgress(1, 1)) is None


#: A gang of two groups. The first needs one of its two groups, a gang and a basic one; the second is a gang of two.
TREE = (
    tree("root", 2),
    below("root", tree("left")),
    below("left", gang("a", 2)),
    below("left", basic("b")),
    below("root", gang("c", 2)),
)
QUORUM = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ('waiting for composite pod group "root" tree to meet quorum',))


@pytest.mark.parametrize(
    ("known", "status"),
    [
        ({"a": 2}, QUORUM),
        ({"a": 1, "c": 2}, QUORUM),
        ({"b": 1, "c": 1}, QUORUM),
        ({"b": 1, "c": 2}, None),
        ({"a": 2, "c": 2}, None),
    ],
)
def test_tree_is_ready_when_enough_of_its_groups_are(known: dict[str, int], status: Status | None) -> None:
    assert gang_scheduling(*TREE, gates=TREES, **known).pre_enqueue(pending("a")) == status


def test_pod_waits_while_a_group_above_its_own_is_unknown() -> None:
    text = "failed to build hierarchy snapshot: CompositePodGroup default/root: there is none"
    lacking = gate_of(pending("a"), *TREE[1:], gates=TREES)
    assert lacking == Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))


def test_parent_is_ignored_with_the_gate_off() -> None:
    assert gang_scheduling(*TREE[2:], a=2).pre_enqueue(pending("a")) is None


def test_new_pod_wakes_those_of_its_tree() -> None:
    plugin = gang_scheduling(named(gang("g", 2)), named(gang("h", 2)))
    assert plugin.group_of_new_pod(None, pending()) == ("uid-g",)
    assert plugin.group_of_new_pod(None, pending("h")) == ("uid-h",)
    assert plugin.group_of_new_pod(None, pending("unknown")) == ()
    assert plugin.group_of_new_pod(None, PendingPod(make_pod("alone"), TemplateInterner())) == ()


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, gang("g", 3), True),
        (gang("g", 3), gang("g", 2), True),
        (gang("g", 3), gang("g", 4), False),
        (gang("g", 3), gang("g", 3), False),
        (gang("g", 3), basic("g"), True),
        (None, tree("g", 3), True),
    ],
)
def test_group_wakes_its_pods_if_it_is_new_or_its_minimum_falls(
    old: PodGroup | None, new: GenericPodGroup, wakes: bool
) -> None:
    plugin = gang_scheduling(gang("g", 3))
    assert plugin.group_with_lower_minimum(old, named(new)) == (("uid-g",) if wakes else ())
