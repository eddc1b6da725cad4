"""The shadows of an engine decide before the next messages are applied, on the tables as they were."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from kframework.core.attempt_follower import AttemptFollower
from kframework.core.cycle.attempt import Attempt
from kframework.core.cycle.records import GroupDecision
from kframework.core.queue.queued_group import QueuedGroup
from kframework.core.shadow.difference import AGREED
from kframework.core.shadow.follower import ShadowFollower
from kframework.state.pods import QueuedPod
from kframework.testing import make_node, make_pod, pending_pod
from tests.core.shadow.shadowed import only_shadow, shadowed


@pytest.mark.parametrize("follower", [None, AttemptFollower()], ids=["none", "base of followers"])
def test_engine_without_shadows_records_no_changes(follower: AttemptFollower | None) -> None:
    simulation = shadowed([make_node("a"), make_pod("p")])
    simulation.scheduler.engine.follower = follower
    simulation.run()
    assert len(simulation.scheduler.engine.cluster.undo_log) == 0


def test_follower_leaves_order_and_amounts_on_nodes_as_they_are() -> None:
    pods = [make_pod(f"p{number}", cpu="1") for number in range(40)]
    simulation = shadowed([make_node("a", cpu=64), make_node("b", cpu=64), *pods]).run()
    simulation_without = shadowed([make_node("a", cpu=64), make_node("b", cpu=64), *pods])
    simulation_without.scheduler.engine.follower = None
    simulation_without.run()

    both = [each.scheduler.engine.cluster.nodes for each in (simulation, simulation_without)]
    shadowed_nodes, nodes = ([[pod.name for pod in node.pods] for node in each] for each in both)
    assert shadowed_nodes == nodes
    assert only_shadow(simulation).counts[AGREED] == 40
    assert only_shadow(simulation_without).counts[AGREED] == 0


def test_pods_of_profiles_without_shadows_are_not_decided_again() -> None:
    simulation = shadowed([make_node("a"), make_pod("p")])
    follower = simulation.scheduler.engine.follower
    assert isinstance(follower, ShadowFollower)
    follower._shadows.clear()
    simulation.run()
    assert [*follower] == []
    assert len(simulation.scheduler.engine.cluster.undo_log) == 0


def test_what_a_cancelled_cycle_began_is_forgotten() -> None:
    simulation = shadowed([make_node("a"), make_pod("p")])
    follower = simulation.scheduler.engine.follower
    assert isinstance(follower, ShadowFollower)
    follower.begin(cast("Attempt", SimpleNamespace(profile=SimpleNamespace(name="of another pod"))))
    simulation.run()
    assert only_shadow(simulation).counts[AGREED] == 1

    member = QueuedPod(pending_pod(make_pod("member")), 0.0)
    follower.begin_group(cast("QueuedGroup", SimpleNamespace(root=None)), [member])
    follower.look_back()
    follower.end_group(cast("GroupDecision", None), ())
    assert follower._noted == []
