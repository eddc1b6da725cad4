"""Pods of a PodGroup share claims: allocated once in a walk, and reserved for the group if they are its claims."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from msgspec.structs import replace

from kframework import ClusterError
from kframework.config.configuration import Configuration
from kframework.in_memory.cluster import Fault
from kframework.objects import ApiObject, Node, Pod, PodGroup, ResourceClaim, ResourceSlice
from kframework.testing import make_node, make_pod
from tests.plugins.dynamic_resources.claiming import DRIVER, gpus
from tests.plugins.dynamic_resources.groups import (
    CLAIMS,
    CLAIMS_AND_PLACEMENTS,
    CLAIMS_AND_TREES,
    THE_GROUP,
    is_clean,
    messages,
    owning,
    places,
    simulate,
    simulation_of,
    team,
    the_claim,
    users,
)
from tests.support.devices import claim, template, with_claim
from tests.support.groups import GROUPS, basic, below, claiming, gang, in_one, members, nodes, tree

# -- without claims of the group -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "count"),
    [(gang("g", 2), 2), (gang("g", 20), 20), (gang("g", 2), 5), (basic("g"), 2), (basic("g"), 20)],
)
def test_group_shares_a_claim_that_is_allocated_for_its_first_pod(group: PodGroup, count: int) -> None:
    pods = team(count, cpu="100m")
    simulation = simulate(*nodes(3), gpus("n1", "x"), claim(), group, *pods, config=GROUPS)
    assert places(simulation) == ["n1"] * count
    assert sorted(users(simulation)) == sorted(("pods", pod.metadata.name) for pod in pods)
    assert is_clean(simulation)


def test_claims_of_a_group_are_reserved_for_each_pod_while_their_gate_is_off() -> None:
    pods = team(2)
    simulation = simulate(*nodes(2), gpus("n1", "x"), claim(), owning(gang("g", 2), pods), *pods, config=GROUPS)
    assert users(simulation) == [("pods", "g-0"), ("pods", "g-1")]


def test_gang_without_room_beside_its_device_gives_the_device_back() -> None:
    simulation = simulate(*nodes(3), gpus("n1", "x"), claim(), gang("g", 3), *team(3, cpu="2"), config=GROUPS)
    assert places(simulation) == [None, None, None]
    assert messages(simulation)[2].startswith(
        "0/3 nodes are available: 1 Insufficient cpu, 2 resourceclaim not available on the node."
    )
    assert the_claim(simulation).status.allocation is None and is_clean(simulation)
    simulation.create(with_claim(make_pod("other"), claim="shared"))
    simulation.run(5)
    assert places(simulation)[-1] == "n1"


def test_pod_beside_the_group_waits_until_its_claim_is_written() -> None:
    objects = [*nodes(3), gpus("n1", "x"), claim(), gang("g", 2), *team(2)]
    simulation = simulation_of(*objects, config=GROUPS)
    simulation.cluster.faults.append(lambda method, kind, *_: Fault(delay=3) if method == "patch_status" else None)
    simulation.run(1)
    simulation.create(with_claim(make_pod("other"), claim="shared"))
    simulation.run(1)
    assert "resource claim default/shared is in the process of being allocated" in messages(simulation)[-1]
    simulation.run(60)
    assert places(simulation) == ["n1", "n1", "n1"]


def test_later_pod_of_a_group_waits_until_its_claim_is_written_too() -> None:
    first, second = team(2)
    simulation = simulation_of(*nodes(3), gpus("n1", "x"), claim(), basic("g"), first, config=GROUPS)
    simulation.cluster.faults.append(lambda method, kind, *_: Fault(delay=3) if method == "patch_status" else None)
    simulation.run(1)
    simulation.create(second)
    simulation.run(1)
    assert "resource claim default/shared is in the process of being allocated" in messages(simulation)[-1]
    simulation.run(60)
    assert places(simulation) == ["n1", "n1"]


# -- claims of the group -------------------------------------------------------------------------------------------


def test_claim_of_a_group_is_reserved_for_it_once() -> None:
    pods = team(3)
    simulation = simulation_of(*nodes(3), gpus("n1", "x"), claim(), owning(gang("g", 3), pods), *pods, config=CLAIMS)
    written = Counter[str]()

    def note(method: str, kind: type[ApiObject], namespace: str, name: str) -> None:
        written[method] += kind is ResourceClaim

    simulation.cluster.faults.append(note)
    simulation.run(5)
    assert places(simulation) == ["n1", "n1", "n1"]
    assert users(simulation) == THE_GROUP and is_clean(simulation)
    assert written["patch_status"] == 1


def test_more_pods_than_consumers_of_a_claim_share_the_claim_of_their_group() -> None:
    pods = team(300, cpu="10m")
    big = make_node("n1", cpu=8, memory="100Gi", pods=400)
    simulation = simulate(big, gpus("n1", "x"), claim(), owning(gang("g", 300), pods), *pods)
    assert places(simulation) == ["n1"] * 300
    assert users(simulation) == THE_GROUP


def racks(count: int) -> list[Node]:
    """Make two nodes in each rack."""
    return [make_node(f"n{number}", cpu=2, labels={"rack": f"r{number // 2}"}) for number in range(2 * count)]


def in_rack(rack: str, *names: str) -> ResourceSlice:
    """Make devices that are reached from all nodes of a rack."""
    terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": [rack]}]}]
    spec = {
        "driver": DRIVER,
        "nodeSelector": {"nodeSelectorTerms": terms},
        "pool": {"name": rack, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": name} for name in names],
    }
    return msgspec.convert({"metadata": {"name": f"slice-{rack}"}, "spec": spec}, ResourceSlice)


def test_members_follow_the_device_of_the_first_one_into_its_rack() -> None:
    pods = team(4)
    simulation = simulate(*racks(3), in_rack("r1", "x"), claim(), owning(gang("g", 4), pods), *pods)
    assert sorted(filter(None, places(simulation))) == ["n2", "n2", "n3", "n3"]
    assert users(simulation) == THE_GROUP


def test_claim_of_a_group_in_a_domain_is_allocated_in_the_best_one() -> None:
    """A walk in each rack allocates the claim again, and so does the walk in the chosen rack."""
    pods = team(4)
    group = in_one("rack", owning(gang("g", 3), pods))
    busy = make_pod("busy", cpu="1", node_name="n0")
    objects = [*racks(2), in_rack("r0", "x"), in_rack("r1", "y"), claim(), busy, group, *pods]
    simulation = simulate(*objects, config=CLAIMS_AND_PLACEMENTS)
    assert sorted(filter(None, places(simulation)[1:])) == ["n2", "n2", "n3", "n3"]
    allocation = the_claim(simulation).status.allocation
    assert allocation is not None and [each.device for each in allocation.devices.results] == ["y"]
    assert users(simulation) == THE_GROUP and is_clean(simulation)


def test_claim_from_a_template_of_the_group_is_shared_by_its_pods() -> None:
    pods = team(3, made=True)
    simulation = simulate(*nodes(3), gpus("n1", "x"), template(), owning(gang("g", 3), pods), *pods)
    assert places(simulation) == ["n1", "n1", "n1"]
    assert users(simulation) == THE_GROUP


def test_gang_waits_for_its_template() -> None:
    pods = team(2, made=True)
    simulation = simulate(*nodes(2), gpus("n1", "x"), owning(gang("g", 2), pods), *pods)
    assert places(simulation) == [None, None]
    simulation.create(template())
    simulation.run(5)
    assert places(simulation) == ["n1", "n1"]


def test_pods_of_a_group_have_claims_of_their_own_beside_the_shared_one() -> None:
    pods = [with_claim(pod, template="one-gpu", called="own") for pod in team(2)]
    group = claiming(gang("g", 2), pods[0].spec.resource_claims[0])
    simulation = simulate(*nodes(2), gpus("n1", "x", "y", "z"), template(), claim(), group, *pods)
    assert places(simulation) == ["n1", "n1"]
    reserved = {each.metadata.name[:4]: each.status.reserved_for[0].name for each in simulation.objects(ResourceClaim)}
    assert reserved == {"shar": "g", "g-0-": "g-0", "g-1-": "g-1"}
    assert is_clean(simulation)


def test_two_groups_have_a_claim_each_from_one_template() -> None:
    others = [with_claim(pod, template="one-gpu") for pod in members("h", 2)]
    pods = team(2, made=True)
    groups = [owning(gang("g", 2), pods), owning(gang("h", 2), others)]
    simulation = simulate(*nodes(2), gpus("n0", "x"), gpus("n1", "y"), template(), *groups, *pods, *others)
    first, second = places(simulation)[:2], places(simulation)[2:]
    assert {*first, *second} == {"n0", "n1"} and len({*first}) == len({*second}) == 1


def test_groups_of_a_tree_share_a_claim_that_is_reserved_for_each_of_them() -> None:
    pods = {name: [with_claim(pod, claim="shared") for pod in members(name, 2)] for name in ("a", "b")}
    groups = [below("root", owning(gang(name, 2), each)) for name, each in pods.items()]
    objects = [*nodes(2), gpus("n1", "x"), claim(), tree("root", 2), *groups, *pods["a"], *pods["b"]]
    simulation = simulate(*objects, config=CLAIMS_AND_TREES)
    assert places(simulation) == ["n1"] * 4
    assert users(simulation) == [("podgroups", "a"), ("podgroups", "b")] and is_clean(simulation)


@pytest.mark.parametrize(("enough", "bound"), [(1, "n1"), (2, None)])
def test_group_of_a_tree_without_room_gives_its_device_to_another_one(enough: int, bound: str | None) -> None:
    pods = {
        name: [with_claim(pod, claim=f"of-{name}") for pod in members(name, 2, cpu=cpu)]
        for name, cpu in {"a": "3", "b": "1"}.items()
    }
    groups = [below("root", owning(gang(name, 2), each)) for name, each in pods.items()]
    objects = [gpus("n1", "x"), claim("of-a"), claim("of-b"), tree("root", enough), *groups, *pods["a"], *pods["b"]]
    simulation = simulate(*nodes(2), *objects, config=CLAIMS_AND_TREES)
    assert places(simulation) == [None, None, bound, bound]
    assert is_clean(simulation)


def test_gang_preempts_pods_on_the_node_of_its_shared_device() -> None:
    pods = [replace(pod, spec=replace(pod.spec, priority=5)) for pod in team(2, cpu="2")]
    small = [make_pod(f"small-{number}", cpu="4", node_name=f"n{number}") for number in range(3)]
    objects = [*nodes(3), gpus("n1", "x"), claim(), owning(gang("g", 2, priority=5), pods), *small, *pods]
    simulation = simulate(*objects, seconds=60)
    assert [each.metadata.name for each in simulation.objects(Pod)] == ["small-0", "small-2", "g-0", "g-1"]
    assert places(simulation)[-2:] == ["n1", "n1"] and is_clean(simulation)


# -- failures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [GROUPS, CLAIMS], ids=["pods", "group"])
@pytest.mark.parametrize("refused", ["patch", "patch_status"])
def test_another_pod_writes_the_allocation_if_the_first_one_fails(refused: str, config: Configuration) -> None:
    pods = team(3)
    simulation = simulation_of(*nodes(3), gpus("n1", "x"), claim(), owning(gang("g", 2), pods), *pods, config=config)
    tries = list[str]()

    def refuse_once(method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        if (method, kind) != (refused, ResourceClaim):
            return None
        tries.append(method)
        return Fault(error=ClusterError("refused", status=403)) if len(tries) == 1 else None

    simulation.cluster.faults.append(refuse_once)
    simulation.run(1)
    assert sorted(map(str, places(simulation))) == ["None", "n1", "n1"]
    simulation.run(60)
    assert places(simulation) == ["n1", "n1", "n1"]
    expected = THE_GROUP if config is CLAIMS else [("pods", "g-0"), ("pods", "g-1"), ("pods", "g-2")]
    assert sorted(users(simulation)) == expected and is_clean(simulation)


def test_device_is_free_again_if_no_pod_of_the_group_can_write() -> None:
    pods = team(2)
    simulation = simulation_of(*nodes(2), gpus("n1", "x"), claim(), owning(gang("g", 2), pods), *pods, config=CLAIMS)
    refused = Fault(error=ClusterError("refused", status=403))
    simulation.cluster.faults.append(lambda method, *_: refused if method == "patch_status" else None)
    simulation.run(0.5)
    assert places(simulation) == [None, None]
    assert the_claim(simulation).status.allocation is None and is_clean(simulation)


def test_devices_are_released_when_the_group_is_deleted() -> None:
    pods = team(2, made=True)
    other = with_claim(make_pod("other"), template="one-gpu")
    simulation = simulate(*nodes(2), gpus("n1", "x"), template(), owning(gang("g", 2), pods), *pods)
    simulation.create(other)
    simulation.run(5)
    assert places(simulation) == ["n1", "n1", None]
    for pod in pods:
        simulation.delete(Pod, pod.metadata.name)
    simulation.run(60)
    assert places(simulation)[-1] is None
    simulation.delete(PodGroup, "g")
    simulation.run(60)
    assert places(simulation)[-1] == "n1"
