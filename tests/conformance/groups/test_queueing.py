"""Pods that come to, leave and hold back groups, as in kube-scheduler's queueing_test."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest

from kframework import CycleState, NodeTable, PendingPod, Plugin, Status, hookimpl
from kframework.config.load import parse
from kframework.objects import ApiObject, Pod, PodGroup
from kframework.values.status import Code
from tests.conformance.groups.story import SETTLED, Story, group, node, pods

GANG, BASIC = group("pg", 2), group("pg")
P1, P2, P3, P4 = pods("p1 p2 p3 p4", "pg", cpu=2)
SMALL = pods("p1 p2", "pg")
GATED_1, GATED_3 = pods("p1 p3", "pg", cpu=2, gates=["foo-gate"])
LARGE = pods("p2", "pg", cpu=4)
NODE, NODE_2 = node("node", 2), node("node2", 6)

EITHER = pytest.mark.parametrize("of", [GANG, BASIC], ids=["gang", "basic"])


def test_gang_takes_new_pods_in_while_it_waits_and_after_it_was_scheduled() -> None:
    story = Story(NODE, GANG, P1, P2)
    story.expect(unschedulable="p1 p2")
    story.create(P3)
    story.expect(unschedulable="p1 p2 p3")
    story.create(NODE_2)
    story.expect(scheduled="p1 p2 p3")
    story.create(P4)
    story.expect(scheduled="p1 p2 p3 p4")


def test_group_without_a_minimum_takes_new_pods_in() -> None:
    story = Story(NODE, BASIC, P1)
    story.expect(scheduled="p1")
    story.create(P2)
    story.expect(scheduled="p1", unschedulable="p2")
    story.create(P3)
    story.expect(scheduled="p1", unschedulable="p2 p3")
    story.create(NODE_2)
    story.expect(scheduled="p1 p2 p3")


@EITHER
def test_gated_pod_holds_its_group_back(of: PodGroup) -> None:
    story = Story(NODE, NODE_2, of, GATED_1)
    story.expect(gated="p1")
    story.create(P2, P3)
    story.expect(gated="p1 p2 p3")
    story.ungate("p1")
    story.expect(scheduled="p1 p2 p3")


@EITHER
def test_group_that_waits_is_held_back_by_a_new_gated_pod(of: PodGroup) -> None:
    story = Story(NODE, of, P1, P2)
    waiting = "p1 p2" if of is GANG else "p2"
    others = {} if of is GANG else {"scheduled": "p1"}
    story.expect(unschedulable=waiting, **others)
    story.create(GATED_3)
    story.expect(gated=f"{waiting} p3", **others)
    story.create(NODE_2)
    story.expect(gated=f"{waiting} p3", **others)
    story.ungate("p3")
    story.expect(scheduled="p1 p2 p3")


# -- a pod that comes in the middle of a cycle, and one whose binding fails -----------------------------------------


class Interferes(Plugin):
    """Creates a pod while another is looked at, and fails another in PreBind, each once."""

    name = "Interferes"
    on_pre_filter: ClassVar[dict[str, Callable[[], object]]] = {}
    fails: ClassVar[set[str]] = set()

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        self.on_pre_filter.pop(pod.name, lambda: None)()
        return None

    @hookimpl
    def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        if pod.name not in self.fails:
            return None
        self.fails.remove(pod.name)
        return Status(Code.ERROR, ("mock binding failure",))


CONFIG = parse("""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Interferes}]}}}]
---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
featureGates: {GenericWorkload: true}
""")


@EITHER
@pytest.mark.parametrize("has_room", [False, True])
def test_pod_that_comes_during_the_cycle_of_its_group_is_tried_next(
    of: PodGroup, has_room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    script: dict[str, Callable[[], object]] = {}
    monkeypatch.setattr(Interferes, "on_pre_filter", script)
    story = Story(NODE, *([NODE_2] if has_room else []), of, config=CONFIG, plugins=[Interferes])
    script["p1"] = lambda: story.simulation.create(P3)
    story.create(P1, P2)
    if not has_room:
        others = {} if of is GANG else {"scheduled": "p1"}
        story.expect(unschedulable="p1 p2 p3" if of is GANG else "p2 p3", **others)
        story.create(NODE_2)
    story.expect(scheduled="p1 p2 p3")


@EITHER
def test_event_during_the_cycle_of_a_group_counts_for_it(of: PodGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    """kube-scheduler forgets it, and finds out when it tries the group again after a backoff: a difference."""
    script: dict[str, Callable[[], object]] = {}
    monkeypatch.setattr(Interferes, "on_pre_filter", script)
    story = Story(node("node", 1), of, config=CONFIG, plugins=[Interferes])
    script["p2" if of is BASIC else "p1"] = lambda: story.simulation.create(NODE_2)
    story.create(P1, P2)
    story.expect(scheduled="p1 p2")


@pytest.mark.parametrize(
    ("of", "members", "room"),
    [
        (GANG, [P1, P2], [NODE, NODE_2]),
        (BASIC, [P1, P2], [NODE, NODE_2]),
        (group("pg", 1), [P1], [NODE]),
        (BASIC, [P1], [NODE]),
        (group("pg", 1), [P1, *LARGE], [NODE]),
        (BASIC, [P1, *LARGE], [NODE]),
    ],
)
def test_pod_that_fails_in_pre_bind_is_scheduled_in_the_end(
    of: PodGroup, members: list[Pod], room: list[ApiObject], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Interferes, "fails", {"p1"})
    story = Story(*room, of, config=CONFIG, plugins=[Interferes])
    story.create(*members)
    if LARGE[0] in members:
        story.expect(scheduled="p1", unschedulable="p2")
        story.create(NODE_2)
    story.expect(scheduled=" ".join(pod.metadata.name for pod in members))


# -- groups that are deleted ----------------------------------------------------------------------------------------


@EITHER
def test_new_pod_of_a_deleted_group_is_incomplete(of: PodGroup) -> None:
    story = Story(NODE, of, *SMALL)
    story.delete_group("pg")
    story.create(P3)
    story.expect(scheduled="p1 p2", incomplete="p3")


@EITHER
def test_left_pod_of_a_deleted_group_is_incomplete(of: PodGroup) -> None:
    story = Story(NODE, of, *SMALL, P3)
    story.expect(scheduled="p1 p2", unschedulable="p3")
    story.delete_group("pg")
    story.expect(scheduled="p1 p2", incomplete="p3")


def test_pods_of_a_deleted_gang_that_waited_are_incomplete() -> None:
    story = Story(NODE, group("pg", 3), *SMALL, P3)
    story.expect(unschedulable="p1 p2 p3")
    story.delete_group("pg")
    story.expect(incomplete="p1 p2 p3")


# -- retries --------------------------------------------------------------------------------------------------------


@EITHER
def test_rejected_group_is_not_tried_again_without_an_event(of: PodGroup) -> None:
    """In kube-scheduler it is, after 1 to 10 seconds each time: a difference."""
    story = Story(NODE, of, P1, P2)
    story.simulation.run(SETTLED)
    attempts = len(story.order())
    story.simulation.run(SETTLED)
    assert len(story.order()) == attempts
    # p2 is left of the group without a minimum, and tried once more by itself.
    assert story.order().count("p2") == (1 if of is GANG else 2)
