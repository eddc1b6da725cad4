"""Gangs and groups without a minimum, as in kube-scheduler's podgroup_test."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kframework import CycleState, PendingPod, Plugin, Status, hookimpl, unschedulable
from kframework.config.configuration import Configuration
from kframework.config.load import default_configuration, parse
from kframework.framework.answers import Diagnosis
from kframework.objects import Event, Pod, PodGroup, PodSchedulingGate
from tests.conformance.groups.story import Story, group, node, pods
from tests.support.groups import GROUPS, PLACEMENTS

GANG, BASIC = group("pg1", 3, 100), group("pg1", 0, 100)
THREE, FOUR = pods("p1 p2 p3", "pg1", priority=100), pods("p1 p2 p3 p4", "pg1", priority=100)
BLOCKER, LOW_BLOCKER = pods("blocker", cpu=2, priority=100), pods("low-blocker", cpu=2, priority=10)

#: Without and with placements; groups here have no topology.
BOTH = pytest.mark.parametrize("config", [GROUPS, PLACEMENTS], ids=["groups", "placements"])


@BOTH
def test_gang_is_scheduled_when_it_exists_and_there_is_room(config: Configuration) -> None:
    story = Story(node(), GANG, *THREE, config=config)
    story.expect(scheduled="p1 p2 p3")
    story.expect_condition("pg1", "True", "Scheduled")


@pytest.mark.parametrize("of", [GANG, BASIC], ids=["gang", "basic"])
def test_pods_of_a_group_are_scheduled_alone_with_the_gate_off(of: PodGroup) -> None:
    story = Story(node(cpu=2), of, *THREE, config=default_configuration())
    story.expect(scheduled="p1 p2", unschedulable="p3")


@BOTH
def test_gang_waits_for_its_quorum(config: Configuration) -> None:
    story = Story(node(), GANG, *THREE[:2], config=config)
    story.expect(gated="p1 p2")
    story.create(THREE[2])
    story.expect(scheduled="p1 p2 p3")


@BOTH
def test_gang_waits_for_its_group_and_then_for_room(config: Configuration) -> None:
    story = Story(node(), *BLOCKER, *THREE, config=config)
    story.expect(scheduled="blocker", incomplete="p1 p2 p3")
    story.create(GANG)
    story.expect(scheduled="blocker", unschedulable="p1 p2 p3")
    story.expect_condition("pg1", "False", "Unschedulable")
    story.delete(Pod, "blocker")
    story.expect(scheduled="p1 p2 p3")
    story.expect_condition("pg1", "True", "Scheduled")


@BOTH
def test_pod_beyond_the_minimum_waits_for_room_alone(config: Configuration) -> None:
    story = Story(node(), *pods("small-blocker", priority=100), *FOUR, config=config)
    story.create(GANG)
    story.expect(scheduled="small-blocker p1 p2 p3", unschedulable="p4")
    story.delete(Pod, "small-blocker")
    story.expect(scheduled="p1 p2 p3 p4")


@BOTH
@pytest.mark.parametrize("first", ["pg1", "pg2"])
def test_two_gangs_that_compete_do_not_block_each_other(config: Configuration, first: str) -> None:
    others = pods("other-p1 other-p2 other-p3", "pg2", priority=100)
    mixed = [pod for pair in zip(THREE, others, strict=True) for pod in pair]
    story = Story(node(), GANG, group("pg2", 3, 100), config=config)
    story.create(*(mixed if first == "pg1" else reversed(mixed)))
    mine, theirs = "p1 p2 p3", "other-p1 other-p2 other-p3"
    scheduled, unschedulable = (mine, theirs) if first == "pg1" else (theirs, mine)
    story.expect(scheduled=scheduled, unschedulable=unschedulable)


@BOTH
@pytest.mark.parametrize("of", [GANG, BASIC], ids=["gang", "basic"])
def test_group_is_scheduled_with_preemption(config: Configuration, of: PodGroup) -> None:
    story = Story(node(), *LOW_BLOCKER, config=config)
    story.create(of, *FOUR)
    story.expect(scheduled="p1 p2 p3 p4")
    story.expect_condition("pg1", "True", "Scheduled")
    assert story.victims() == {"low-blocker"}


@BOTH
def test_group_without_a_minimum_is_scheduled_pod_by_pod(config: Configuration) -> None:
    story = Story(node(), BASIC, THREE[0], config=config)
    story.expect(scheduled="p1")
    story.create(*THREE[1:])
    story.expect(scheduled="p1 p2 p3")


@BOTH
def test_group_without_a_minimum_waits_for_its_group_and_in_part_for_room(config: Configuration) -> None:
    story = Story(node(), *BLOCKER, *THREE, config=config)
    story.expect(scheduled="blocker", incomplete="p1 p2 p3")
    story.create(BASIC)
    story.expect(scheduled="blocker p1 p2", unschedulable="p3")
    story.delete(Pod, "blocker")
    story.expect(scheduled="p1 p2 p3")


@BOTH
def test_gang_preempts_all_that_is_less_important(config: Configuration) -> None:
    story = Story(node(), *pods("low-1 low-2 low-3 low-4", priority=10), config=config)
    story.create(GANG, *FOUR)
    story.expect(scheduled="p1 p2 p3 p4")
    notes = {event.note for event in story.simulation.objects(Event) if event.reason == "Preempted"}
    assert len(notes) == 1 and all(note.startswith("Preempted by podgroup ") for note in notes)


@BOTH
@pytest.mark.parametrize("rack", ["", "topology.kubernetes.io/zone"])
def test_gang_preempts_the_least_important_pods_only(config: Configuration, rack: str) -> None:
    """With a topology too, since groups in a domain may preempt in 1.37."""
    zone = replace(node(), metadata=replace(node().metadata, labels={"topology.kubernetes.io/zone": "zone1"}))
    story = Story(zone, *pods("very-low-1 very-low-2", priority=5), *pods("low-1 low-2", priority=10), config=config)
    story.create(group("mid", 2, 50, rack=rack), *pods("mid-1 mid-2", "mid", priority=50))
    story.expect(scheduled="mid-1 mid-2 low-1 low-2")


class CountsPostFilter(Plugin):
    """Counts the calls of PostFilter."""

    name = "CountsPostFilter"
    calls = 0

    @hookimpl
    def post_filter(self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> Status | None:
        type(self).calls += 1
        return unschedulable("no way")


COUNTED = parse("""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: CountsPostFilter}]}}}]
---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
featureGates: {GenericWorkload: true}
""")


def test_post_filter_is_not_called_for_pods_of_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CountsPostFilter, "calls", 0)
    story = Story(node(), *pods("low-1 low-2 low-3 low-4", priority=10), config=COUNTED, plugins=[CountsPostFilter])
    story.create(GANG, *THREE)
    assert CountsPostFilter.calls == 0
    story.create(*pods("single", cpu=9))
    assert CountsPostFilter.calls == 1


@pytest.mark.parametrize("gated", [False, True])
def test_pods_of_interleaved_shapes_find_nodes_together(gated: bool) -> None:
    """As in podgroup_batch_test: the third pod is like the first one, from the beginning or after an update."""
    one, two, three = (pods(name, "pg1", cpu, 100)[0] for name, cpu in (("p1", 3), ("p2", 4), ("p3", 3)))
    if gated:
        three = replace(three, spec=replace(three.spec, scheduling_gates=(PodSchedulingGate(name="gate"),)))
    story = Story(*(node(f"node{number}") for number in range(3)), GANG, one, two, three)
    if gated:
        story.expect(gated="p1 p2 p3")
        story.ungate("p3")
    story.expect(scheduled="p1 p2 p3")
    assert len(set(story.nodes_of("p1 p2 p3"))) == 3
