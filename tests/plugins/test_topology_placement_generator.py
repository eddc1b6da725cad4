"""TopologyPlacementGenerator lists the domains of a label, or the one where the group has pods."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kframework.framework.answers import GroupPlacement
from kframework.plugins.topology_placement_generator import TopologyPlacementGenerator
from kframework.testing import make_node, stub_handle
from kframework.values.status import Code, Status
from tests.support.groups import gang, in_one, members


def generate(scheduled: Sequence[str] = (), key: str = "rack") -> dict[str, list[str]] | Status | None:
    """Return the names of the nodes of each placement of a group with pods on these nodes."""
    racks = {"n0": "b", "n1": "a", "n2": "", "n3": "b"}
    nodes = [make_node(name, labels={"rack": rack} if rack else {}) for name, rack in racks.items()]
    pods = members("g", len(scheduled))
    placed = [replace(pod, spec=replace(pod.spec, node_name=node)) for pod, node in zip(pods, scheduled, strict=True)]
    handle = stub_handle(nodes=nodes, pods=placed)
    plugin = TopologyPlacementGenerator(TopologyPlacementGenerator.Args(), handle)
    answer = plugin.placement_generate(in_one(key, gang("g", 1)) if key else gang("g", 1), handle.nodes)
    if not isinstance(answer, Sequence):
        return answer
    assert all(isinstance(each, GroupPlacement) for each in answer)
    return {each.name: [handle.nodes[row].name for row in each.rows.tolist()] for each in answer}


def test_placements_are_the_domains_by_name_with_nodes_in_their_order() -> None:
    assert generate() == {"a": ["n1"], "b": ["n0", "n3"]}


def test_group_without_a_constraint_is_not_restricted() -> None:
    assert generate(key="") is None


def test_label_that_no_node_has_makes_no_placement() -> None:
    assert generate(key="zone") == {}


def test_domains_follow_the_nodes() -> None:
    handle = stub_handle(nodes=[make_node(name, labels={"rack": "a"}) for name in ("n0", "n1")])
    plugin = TopologyPlacementGenerator(TopologyPlacementGenerator.Args(), handle)

    def racks(key: str = "rack") -> dict[str, list[str]]:
        answer = plugin.placement_generate(in_one(key, gang("g", 1)), handle.nodes)
        assert isinstance(answer, Sequence)
        return {each.name: [handle.nodes[row].name for row in each.rows.tolist()] for each in answer}

    assert racks() == racks() == {"a": ["n0", "n1"]} and racks("zone") == {}
    handle.nodes.put(make_node("n0", labels={"rack": "b"}))
    assert racks() == {"a": ["n1"], "b": ["n0"]}
    handle.nodes.put(make_node("n2", labels={"rack": "b"}))
    assert racks() == {"a": ["n1"], "b": ["n0", "n2"]}
    handle.nodes.remove("n1")
    assert racks() == {"b": ["n0", "n2"]}


def test_scheduled_pods_pin_the_domain() -> None:
    assert generate(["n3", "n0"]) == {"b": ["n0", "n3"]}


def test_scheduled_pods_without_one_domain_are_an_error() -> None:
    unclear = "cannot determine domain for already scheduled pods"
    assert generate(["n0", "n1"]) == Status(Code.ERROR, (f"{unclear}: more than 1 domain found for pod group: a, b",))
    assert generate(["n2"]) == Status(Code.ERROR, (f"{unclear}: no topology domain found for pod default/g-0",))
