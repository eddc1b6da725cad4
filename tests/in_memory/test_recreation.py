"""Deleted pods come again unless they ended, or their owner in the cluster replaces them."""

from __future__ import annotations

from kframework import Simulation
from kframework.in_memory.recreation import create_recreation
from kframework.objects import Pod
from kframework.simulation.controllers import STANDARD_CONTROLLERS
from kframework.testing import make_node, make_pod


def test_a_deleted_pod_is_created_anew_and_scheduled() -> None:
    controllers = (*STANDARD_CONTROLLERS, create_recreation)
    with Simulation([make_node("a"), make_pod("p", priority=7)], controllers=controllers) as simulation:
        (before,) = simulation.run().objects(Pod)
        simulation.delete(Pod, "p")
        (after,) = simulation.run().objects(Pod)
    assert (after.spec.node_name, after.spec.priority, after.status.phase) == ("a", 7, "Running")
    assert after.metadata.uid != before.metadata.uid and after.metadata.deletion_timestamp is None


def test_a_pod_that_has_ended_does_not_come_again() -> None:
    controllers = (*STANDARD_CONTROLLERS, create_recreation)
    ending = make_pod("p", annotations={"kframework.dev/run-seconds": "5"})
    with Simulation([make_node("a"), ending], controllers=controllers) as simulation:
        simulation.run().delete(Pod, "p")
        assert not simulation.run().objects(Pod)
