"""What-ifs about groups: how many pods find nodes together, and whether the remedies hold."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kframework import Simulation
from kframework.explain.explanation import State
from kframework.objects import ApiObject, PersistentVolume
from kframework.testing import make_node, make_pod
from tests.explain.explained_groups import bound, explain, group_of, rack
from tests.plugins.dynamic_resources.claiming import GPUS, gpus, wanting
from tests.plugins.dynamic_resources.groups import CLAIMS, is_clean, owning, team
from tests.support.devices import with_claim
from tests.support.groups import GROUPS, PLACEMENTS, basic, gang, in_one, members, nodes
from tests.support.storage import claim, claim_volumes, storage_class, volume


@pytest.mark.parametrize(("minimum", "added"), [(3, 1), (4, 1), (5, 2), (6, 2)])
def test_added_nodes_and_lower_minimum_let_the_gang_be_scheduled(minimum: int, added: int) -> None:
    # Four cores hold two pods each; the busy node counts as a model without its pod.
    busy = make_pod("busy", cpu=4, node_name="n1")
    pods = members("blue", 6, cpu="2")
    objects = [*nodes(2), busy, gang("blue", minimum), *pods]
    group = group_of(objects, "blue-0")
    assert group.fits == 2
    by_nodes, by_minimum = group.remedies
    assert by_nodes.text == f"add {added} node{'s' if added > 1 else ''} like n0"
    assert by_minimum.text == "lower minCount of PodGroup default/blue to 2"

    assert bound([*objects, *(make_node(f"new{number}", cpu=4) for number in range(added))]) >= minimum
    assert bound([*objects, *(make_node(f"new{number}", cpu=4) for number in range(added - 1))]) == 0
    assert bound([*nodes(2), busy, gang("blue", 2), *pods]) == 2


def test_pod_that_is_on_its_node_keeps_its_room_in_the_what_if() -> None:
    explanation = explain([*nodes(1, cpu=2), basic("tools"), *members("tools", 3, cpu="1")], "tools-0")
    assert explanation.group is not None
    assert (explanation.state, explanation.group.fits) == (State.BOUND, 0)
    assert [remedy.text for remedy in explanation.group.remedies] == ["add 1 node like n0"]


def test_remedies_of_a_group_in_one_domain_hold() -> None:
    constrained, anywhere = in_one("rack", gang("g", 4)), gang("g", 4)
    cluster, pods = [*rack("a", 2), *rack("b", 3)], members("g", 4, cpu="2")
    group = group_of([*cluster, constrained, *pods], "g-0", PLACEMENTS)
    assert [remedy.text for remedy in group.remedies] == [
        "add 1 node like b-0 in rack b",
        "recreate PodGroup default/g without its constraint on rack",
        "lower minCount of PodGroup default/g to 3",
    ]
    assert group.remedies[0].changes == ({"kind": "addNodes", "like": "b-0", "count": 1, "placement": "b"},)
    assert bound([*cluster, constrained, *pods], PLACEMENTS) == 0
    assert bound([*cluster, *rack("b", 4)[3:], constrained, *pods], PLACEMENTS) == 4
    assert bound([*cluster, anywhere, *pods], PLACEMENTS) == 4
    assert bound([*cluster, in_one("rack", gang("g", 3)), *pods], PLACEMENTS) == 3


def test_removing_the_constraint_is_no_remedy_if_there_is_no_room_anywhere() -> None:
    objects = [*rack("a", 1), *rack("b", 1), in_one("rack", gang("g", 3)), *members("g", 3, cpu="2")]
    texts = [remedy.text for remedy in group_of(objects, "g-0", PLACEMENTS).remedies]
    assert texts == ["add 2 nodes like a-0 in rack a", "lower minCount of PodGroup default/g to 1"]


def test_groups_of_hundreds_of_pods_are_tried() -> None:
    group = group_of([*nodes(50), gang("big", 300), *members("big", 300, cpu="1")], "big-0")
    assert group.fits == 200
    assert group.remedies[0].text == "add 25 nodes like n0"


def test_nodes_are_counted_for_pods_of_different_sizes() -> None:
    large, small = members("mix", 3, cpu="3"), members("mix", 6, cpu="1")[3:]
    group = group_of([*nodes(1), gang("mix", 6), *large, *small], "mix-0")
    assert group.fits == 2
    assert group.remedies[0].text == "add 2 nodes like n0"
    assert bound([*nodes(2), gang("mix", 6), *large, *small]) == 0
    assert bound([*nodes(3), gang("mix", 6), *large, *small]) == 6


@pytest.mark.parametrize(("minimum", "devices", "fits"), [(3, 2, 2), (3, 1, 1)])
def test_pods_with_claims_are_placed_on_nodes_with_free_devices(minimum: int, devices: int, fits: int) -> None:
    claims = [wanting(f"c{number}") for number in range(3)]
    pods = [with_claim(pod, claim=f"c{number}") for number, pod in enumerate(members("g", 3))]
    objects: list[ApiObject] = [GPUS, *nodes(2), gpus("n0", *"ab"[:devices]), *claims, *pods]
    group = group_of([*objects, gang("g", minimum)], "g-0")
    assert group.fits == fits
    assert [remedy.text for remedy in group.remedies] == [f"lower minCount of PodGroup default/g to {fits}"]
    assert bound([*objects, gang("g", fits)]) == fits


def test_pods_with_volumes_are_placed_while_there_are_volumes() -> None:
    """There are two local volumes for three pods; after the what-if both are free again."""
    volumes = [volume(f"disk-{number}") for number in range(2)]
    claims = [claim(f"c{number}") for number in range(3)]
    pods = [
        replace(pod, spec=replace(pod.spec, volumes=tuple(claim_volumes(f"c{number}"))))
        for number, pod in enumerate(members("g", 3))
    ]
    objects: list[ApiObject] = [*nodes(2), storage_class(), *volumes, *claims, gang("g", 3), *pods]
    with Simulation(objects, config=GROUPS) as simulation:
        simulation.run(5)
        group = simulation.explain("g-0").explanation.group
        store = simulation.scheduler.engine.cluster.objects(PersistentVolume)
        assert all(store.latest(each.metadata.name) is each for each in store)
    assert group is not None and group.fits == 2
    assert [remedy.text for remedy in group.remedies] == ["lower minCount of PodGroup default/g to 2"]


def test_pods_that_share_a_claim_are_placed_where_its_device_is() -> None:
    objects = [GPUS, *nodes(2, cpu=2), gpus("n1", "a"), owning(gang("g", 3), team(3)), *team(3), wanting("shared")]
    with Simulation(objects, config=CLAIMS) as simulation:
        simulation.run(5)
        group = simulation.explain("g-0").explanation.group
        assert is_clean(simulation)
    assert group is not None and group.fits == 2
    assert [remedy.text for remedy in group.remedies] == ["lower minCount of PodGroup default/g to 2"]
    assert bound([*objects[:4], owning(gang("g", 2), team(3)), *objects[5:]], CLAIMS) == 2


def test_pods_that_wait_for_victims_do_not_keep_room_from_each_other() -> None:
    """Each pod is nominated to a node of its own; only the large victim is in the way."""
    victim = make_pod("victim", cpu=2, node_name="n0", priority=0, annotations={"kframework.dev/grace-seconds": "60"})
    high = members("high", 3, cpu="2", priority=9)
    with Simulation([*nodes(2, cpu=2), victim, gang("high", 2, priority=9), *high], config=GROUPS) as simulation:
        simulation.run(0.001)
        group = simulation.explain("high-0").explanation.group
    assert group is not None
    assert group.fits == 1
