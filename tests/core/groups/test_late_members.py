"""A pod that comes late to a gang starts only if the gang has its minimum with it."""

from __future__ import annotations

from msgspec.structs import replace

from kframework import Simulation
from kframework.objects import Pod, PodGroup
from tests.core.groups.test_cycle import condition, messages, places
from tests.support.groups import gang, members, nodes, simulate

#: Three pods of a gang that does not start with fewer.
GANG = [gang("g", 3), *members("g", 3)]


def held(pod: Pod) -> Pod:
    """Return the pod as one that is terminating for as long as the test wants."""
    return replace(pod, metadata=replace(pod.metadata, finalizers=("example.com/keep",)))


def late(simulation: Simulation, number: int) -> str | None:
    """Create a pod of the gang; return its node."""
    simulation.create(members("g", number + 1)[number])
    simulation.run(20)
    return places(simulation)[f"g-{number}"]


def test_late_pod_of_a_running_gang_starts_alone() -> None:
    assert late(simulate([*nodes(2), *GANG]), 3) is not None


def test_late_pod_of_a_gang_below_its_minimum_waits_for_others() -> None:
    simulation = simulate([*nodes(2), *GANG])
    simulation.delete(Pod, "g-0")
    simulation.delete(Pod, "g-1")
    assert late(simulation, 3) is None
    assert late(simulation, 4) is not None
    assert places(simulation)["g-3"] is not None


def test_terminating_pods_do_not_count_for_the_minimum() -> None:
    first, second, third = members("g", 3)
    simulation = simulate([*nodes(2), gang("g", 3), held(first), held(second), third])
    simulation.delete(Pod, "g-0")
    simulation.delete(Pod, "g-1")
    assert late(simulation, 3) is None
    text = "minCount (3) cannot be satisfied: 1 scheduled, 1 remaining"
    assert messages(simulation)["g-3"].startswith(f"pod group is unschedulable, {text}")
    assert late(simulation, 4) is not None
    assert places(simulation)["g-3"] is not None


def test_late_pod_does_not_start_a_gang_whose_minimum_rose() -> None:
    simulation = simulate([*nodes(2), *GANG])
    simulation.patch(PodGroup, "g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 5}}}})
    assert late(simulation, 3) is None
    assert late(simulation, 4) is not None


def test_gang_that_lost_pods_was_scheduled_initially_all_the_same() -> None:
    simulation = simulate([*nodes(2), *GANG])
    simulation.delete(Pod, "g-0")
    assert late(simulation, 3) is not None
    assert condition(simulation, "g")[:2] == ("True", "Scheduled")
