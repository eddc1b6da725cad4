"""DeviceBinPacking, asked as the scheduler asks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kframework_device_packing import DeviceBinPacking
from kframework_device_packing.packing import MAX_OPENNESS

from benchmarks.device_packing import CARDS, DRIVER, SIZES, CardRoom, make_devices, make_nodes, with_claim
from kframework.objects import ApiObject, DeviceClass, Pod, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from kframework.testing import PluginContract, Scenario, make_node, make_pod

#: Nothing scores but DeviceBinPacking, so that totals are its own.
ALONE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins:
      score: {enabled: [{name: DeviceBinPacking, weight: 1}], disabled: [{name: "*"}]}
      preScore: {enabled: [{name: DeviceBinPacking}], disabled: [{name: "*"}]}
"""
NODES = 3


def claim(name: str, *devices: str, pool: str = "", **said: Any) -> ResourceClaim:
    """Make a claim with devices, in use by something other than a pod."""
    results = [{"request": "gpu", "driver": DRIVER, "pool": pool, "device": each, **said} for each in devices]
    user = {"apiGroup": "example.com", "resource": "users", "name": "somebody", "uid": "1"}
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [user]}
    return msgspec.convert({"metadata": {"name": name, "namespace": "default"}, "status": status}, ResourceClaim)


def taken(by_node: Mapping[str, Sequence[str]]) -> list[ApiObject]:
    """Take partitions, each written as the number of a card, a size, and the number of the partition."""
    return [claim(f"had-{node}", *(f"card-{each}" for each in had), pool=node) for node, had in by_node.items() if had]


def best(pod: Pod, *, nodes: int = NODES, objects: Sequence[ApiObject]) -> set[str]:
    """Return the nodes with the best score, of three at most that the scheduler tells of."""
    scenario = Scenario(nodes=make_nodes(nodes), objects=objects, pods=[pod], plugins=[DeviceBinPacking], config=ALONE)
    decision = scenario.run(until=30).decisions_on(pod.metadata.name)[-1]
    return {name for name, score in decision.best_nodes if score == decision.best_nodes[0][1]}


ALL_WHOLE = [f"{card}-whole-0" for card in range(1, CARDS)]


@pytest.mark.parametrize(
    ("size", "had", "chosen"),
    [
        # a card that is broken up already, rather than a whole one
        ("small", {"gpu-0": [], "gpu-1": ["0-small-0"], "gpu-2": []}, {"gpu-1"}),
        ("large", {"gpu-0": [], "gpu-1": ["0-large-0"], "gpu-2": []}, {"gpu-1"}),
        # what no larger one can use any more, rather than a large one that is left
        ("small", {"gpu-0": ["0-large-0"], "gpu-1": ["0-large-0", "0-middle-0", "0-small-0"], "gpu-2": []}, {"gpu-1"}),
        # whole cards: nothing is lost that is not used, so the node that has the fewest
        ("whole", {"gpu-0": ["0-whole-0"], "gpu-1": ["0-whole-0", "1-whole-0"], "gpu-2": []}, {"gpu-1"}),
        # the first card with room is taken on each node, however good another is
        ("small", {"gpu-0": ["1-small-0"], "gpu-1": ["0-small-0"], "gpu-2": []}, {"gpu-1"}),
        # all alike
        ("small", {"gpu-0": [], "gpu-1": [], "gpu-2": []}, {"gpu-0", "gpu-1", "gpu-2"}),
    ],
)
def test_large_partitions_stay_free_for_large_claims(
    size: str, had: Mapping[str, Sequence[str]], chosen: set[str]
) -> None:
    pod = with_claim(make_pod("new"), size)
    assert best(pod, objects=[*make_devices(NODES), *taken(had)]) == chosen


def test_small_claims_leave_a_whole_card_free() -> None:
    pods = [
        with_claim(make_pod(f"small-{number}", cpu=8, memory="64Gi"), "small") for number in range(SIZES["small"].each)
    ]
    devices = [*make_devices(2), *taken({"gpu-0": ALL_WHOLE, "gpu-1": ALL_WHOLE})]
    late = with_claim(make_pod("whole"), "whole")
    placed: dict[bool, str | None] = {}
    for packing in (True, False):
        plugins = [DeviceBinPacking] if packing else []
        scenario = Scenario(nodes=make_nodes(2), objects=devices, pods=pods, plugins=plugins)
        placed[packing] = scenario.at(60, lambda cluster: cluster.add(late)).run(until=300).node_of("whole")
    assert placed[True] is not None
    assert placed[False] is None


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.sampled_from(list(SIZES)))
def test_best_node_equals_that_of_the_slow_rules(seed: int, size: str) -> None:
    random, nodes = Random(seed), [node.metadata.name for node in make_nodes(NODES)]
    left = {node: [CardRoom(7, 80)] * CARDS for node in nodes}
    had: dict[str, list[str]] = {node: [] for node in nodes}
    for node in nodes:
        for _ in range(random.randint(0, 8)):
            card, drawn = random.randrange(CARDS), random.choice(list(SIZES))
            free = [f"{card}-{drawn}-{each}" for each in range(SIZES[drawn].each)]
            free = [each for each in free if each not in had[node]]
            if free and left[node][card].room(SIZES[drawn]):
                had[node].append(random.choice(free))
                left[node][card] = less(left[node][card], drawn)
    lost_and_left = {
        node: slowly(left[node], size) for node in nodes if any(each.room(SIZES[size]) for each in left[node])
    }
    if len(lost_and_left) > 1:
        least = min(lost_and_left.values())
        found = best(with_claim(make_pod("new"), size), objects=[*make_devices(NODES), *taken(had)])
        assert found == {node for node, each in lost_and_left.items() if each == least}


def slowly(cards: list[CardRoom], size: str) -> tuple[int, int]:
    """Let the first card with room have a claim: how much less open it is then, and how open all cards are."""
    index = next(index for index, card in enumerate(cards) if card.room(SIZES[size]))
    after = [less(card, size) if each == index else card for each, card in enumerate(cards)]
    return openness(cards[index]) - openness(after[index]), sum(map(openness, after))


def less(card: CardRoom, size: str) -> CardRoom:
    return CardRoom(card.slices - SIZES[size].slices, card.memory - SIZES[size].memory)


def openness(card: CardRoom) -> int:
    return sum(MAX_OPENNESS * card.room(size) // size.each for size in SIZES.values()) // len(SIZES)


def devices(name: str, each: Mapping[str, object], number: int) -> ResourceSlice:
    """Make as many devices of one kind for a node."""
    listed = [{"name": f"card-{index}", **each} for index in range(number)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": listed}
    return msgspec.convert({"metadata": {"name": f"of-{name}"}, "spec": spec}, ResourceSlice)


def asking(*, backs: str | None = None, **said: object) -> list[ApiObject]:
    """Make a class of all devices, and a template of claims to one."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "any", **said}}
    template = {
        "metadata": {"name": "any", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    of_class = {"metadata": {"name": "any"}, "spec": {"extendedResourceName": backs}}
    return [msgspec.convert(template, ResourceClaimTemplate), msgspec.convert(of_class, DeviceClass)]


WHOLE = [devices("gpu-0", {}, 4), devices("gpu-1", {}, 4)]
NIC = {
    "allowMultipleAllocations": True,
    "capacity": {"bandwidth": {"value": "100", "requestPolicy": {"default": "10"}}},
}


def test_whole_devices_are_used_up_node_by_node() -> None:
    had = claim("had", "card-0", pool="gpu-1")
    assert best(with_claim(make_pod("new"), "any"), nodes=2, objects=[*asking(), *WHOLE, had]) == {"gpu-1"}


def test_extended_resources_backed_by_devices_are_used_up_node_by_node() -> None:
    had = claim("had", "card-0", pool="gpu-1")
    pod = make_pod("new", requests={"example.com/gpu": 1})
    assert best(pod, nodes=2, objects=[*asking(backs="example.com/gpu"), *WHOLE, had]) == {"gpu-1"}


def test_shared_devices_are_packed() -> None:
    nics = [devices("gpu-0", NIC, 2), devices("gpu-1", NIC, 2)]
    had = claim("had", "card-0", pool="gpu-1", shareID="1", consumedCapacity={"bandwidth": "20"})
    assert best(with_claim(make_pod("new"), "any"), nodes=2, objects=[*asking(), *nics, had]) == {"gpu-1"}


def test_admin_access_takes_no_devices() -> None:
    had = claim("had", "card-0", pool="gpu-1")
    objects = [*asking(adminAccess=True), *WHOLE, had]
    assert best(with_claim(make_pod("new"), "any"), nodes=2, objects=objects) == {"gpu-0", "gpu-1"}


def test_pods_without_claims_score_alike_everywhere() -> None:
    assert best(make_pod("new"), objects=make_devices(NODES)) == {"gpu-0", "gpu-1", "gpu-2"}


class TestContract(PluginContract):
    plugin = DeviceBinPacking
    examples = 4
    nodes = [make_node("gpus", allocatable={"example.com/gpu": 4})]
    pods = [make_pod("asking", requests={"example.com/gpu": 1})]
