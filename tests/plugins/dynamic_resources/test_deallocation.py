"""Claims that keep the pods of an unschedulable group from other nodes are released."""

from __future__ import annotations

from msgspec.structs import replace

from kframework import ClusterError
from kframework.in_memory.cluster import Fault
from kframework.testing import make_pod
from tests.plugins.dynamic_resources.claiming import gpus
from tests.plugins.dynamic_resources.groups import (
    THE_GROUP,
    history,
    owning,
    places,
    simulate,
    simulation_of,
    team,
    the_claim,
    users,
)
from tests.support.devices import claim, with_claim
from tests.support.groups import GROUPS, basic, gang, nodes


def test_group_keeps_its_claim_while_binding_fails_and_gives_it_up_when_it_does_not_fit_there() -> None:
    """The group's reservation goes in one cycle, the devices in the next one, and then another node has them."""
    pods = team(2)
    simulation = simulation_of(*nodes(2), gpus("n0", "x"), claim(), owning(gang("g", 2), pods), *pods)
    refused = Fault(error=ClusterError("refused", status=403))
    simulation.cluster.faults.append(lambda method, *_: refused if method == "bind" else None)
    simulation.run(0.5)
    assert places(simulation) == [None, None] and users(simulation) == THE_GROUP
    simulation.create(make_pod("big", cpu="4", node_name="n0", priority=9))
    simulation.create(gpus("n1", "y"))
    simulation.cluster.faults.clear()
    states = history(simulation)
    simulation.run(60)
    assert list(dict.fromkeys(states)) == ["x", "none", "y g"]
    assert any("ResourceClaim unreserved for PodGroup" in each.message for each in simulation.decisions)
    assert places(simulation)[:2] == ["n1", "n1"] and users(simulation) == THE_GROUP


def test_group_with_a_pod_on_a_node_keeps_its_claim() -> None:
    pods = team(2, cpu="3")
    simulation = simulate(*nodes(2), gpus("n1", "x"), claim(), owning(basic("g"), pods), *pods, seconds=60)
    assert sorted(map(str, places(simulation))) == ["None", "n1"]
    assert users(simulation) == THE_GROUP
    assert not any("unreserved" in each.message for each in simulation.decisions)


def test_claim_of_a_pod_in_a_group_loses_its_devices_where_the_pod_does_not_fit() -> None:
    """The claim is allocated on a full node, and no pod has it."""
    pod, *_ = team(1)
    first = simulate(*nodes(2), gpus("n0", "x"), claim(), with_claim(make_pod("user"), claim="shared"), config=GROUPS)
    used = the_claim(first)
    idle = replace(used, status=replace(used.status, reserved_for=()))
    full = make_pod("full", cpu="4", node_name="n0")
    objects = [*nodes(2), gpus("n0", "x"), gpus("n1", "y"), idle, full, basic("g"), pod]
    simulation = simulation_of(*objects, config=GROUPS)
    states = history(simulation)
    simulation.run(60)
    assert list(dict.fromkeys(states)) == ["none", "y g-0"]
    assert places(simulation)[-1] == "n1"
