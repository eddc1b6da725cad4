"""What is remembered of claims is what a search would find now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from zlib import crc32

import numpy as np
import pytest

from kframework.objects import DeviceClass, ResourceClaim, ResourceSlice
from kframework.plugins.dynamic_resources.allocator import Allocations, ChosenDevice, DeviceSearch
from kframework.plugins.dynamic_resources.devices import Devices
from kframework.plugins.dynamic_resources.errors import AllocationError, InvalidPools
from kframework.plugins.dynamic_resources.feasibility import (
    ERROR,
    FITS,
    INVALID_POOLS,
    TIMED_OUT,
    TOO_FEW,
    DevicePlacement,
    Feasibilities,
    StepBudget,
    rank,
)
from kframework.plugins.dynamic_resources.pools import Pool
from kframework.plugins.dynamic_resources.requests import ClaimsOptions, claims_options
from kframework.plugins.dynamic_resources.slices import DeviceId
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeInfo
from kframework.testing import make_node
from tests.plugins.dynamic_resources.changing import ChangingCluster, devices_in, drawn_claim, searched_afresh
from tests.plugins.dynamic_resources.claiming import GPUS, a_class, gpus, wanting

#: How many steps a search may take.
BUDGET = 1000


def afresh(
    state: ClusterState, claims: Sequence[ResourceClaim], node: NodeInfo, held: Allocations
) -> tuple[int, DevicePlacement | None]:
    """Search on a node: what it comes to, and what is found."""
    try:
        found = searched_afresh(state, claims, node, held)
    except InvalidPools:
        return INVALID_POOLS, None
    except AllocationError:
        return ERROR, None
    return TOO_FEW if found is None else FITS, found


def fingerprint(placement: DevicePlacement) -> int:
    """Tell placements apart: by what is chosen, and what of the same pools is in use."""
    chosen = [each.device for of_claim in placement.chosen for each in of_claim]
    pools = {device.slice.pool for device in chosen}
    beside = [
        (device.id, sorted(placement.allocated.consumed_capacity(device.id).items()))
        for pool in placement.pools
        if pool.id in pools
        for device in pool.devices
        if placement.allocated.is_in_use(device.id)
    ]
    return crc32(repr(([device.id for device in chosen], sorted(beside))).encode())


def names_of(chosen: Sequence[Sequence[ChosenDevice]] | None) -> list[list[DeviceId]] | None:
    return None if chosen is None else [[each.device.id for each in of_claim] for of_claim in chosen]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(60))
def test_after_any_changes_it_is_as_if_searched_anew(seed: int) -> None:
    assert_as_searched_anew(Random(seed), 40)


def test_changes_come_by_all_answers() -> None:
    met = Counter[object]()
    for seed in range(15):
        met += assert_as_searched_anew(Random(f"met {seed}"), 20)
    assert met.keys() >= {FITS, TOO_FEW, INVALID_POOLS, ERROR, "ranked"}
    assert min(met.values()) > 10, met


def assert_as_searched_anew(random: Random, changes: int) -> Counter[object]:
    cluster, met, happened = ChangingCluster(random), Counter[object](), list[str]()
    kinds = [[drawn_claim(random, f"x{number}") for number in range(random.choice([1, 1, 2]))] for _ in range(4)]
    feasibilities = Feasibilities(cluster.devices, None)
    for _ in range(changes):
        for claims in random.sample(kinds, 3):
            try:
                known = feasibilities.for_claims(claims)
            except AllocationError:
                continue
            nodes = list(cluster.state.nodes)
            rows = np.array([node.row for node in nodes])
            first = random.choice(nodes)  # one may be asked what it is to get before any is asked whether it fits
            known.chosen_devices(first)
            got = {node.name: names_of(known.chosen_devices(node)) for node in nodes}
            answers = known.check_rows(rows, StepBudget(BUDGET)).tolist()
            measures = [
                known.measure_rows(measure, rows, StepBudget(BUDGET)).tolist() for measure in (rank, fingerprint)
            ]
            for node, answer, *measured in zip(nodes, answers, *measures, strict=True):
                expected, found = afresh(cluster.state, claims, node, cluster.held)
                assert answer == expected, (node.name, happened)
                assert got[node.name] == (None if found is None else names_of(found.chosen)), (node.name, happened)
                assert found is None or measured == [rank(found), fingerprint(found)], (node.name, happened)
                met[expected] += 1
                met["ranked"] += found is not None and rank(found) > 0
        happened += [cluster.change() for _ in range(random.randint(1, 3))]
    return met


def cluster(*slices: ResourceSlice, nodes: Iterable[str] = "ab") -> ClusterState:
    state = ClusterState()
    for name in nodes:
        state.put_node(make_node(name))
    for each in slices:
        state.objects(ResourceSlice).put(each.metadata, each)
    state.objects(DeviceClass).put(GPUS.metadata, GPUS)
    return state


def mixed(node_name: str) -> list[ResourceSlice]:
    """Make pools of a node whose devices are of three sorts, eight of each."""
    return [
        gpus(
            node_name,
            *(f"{sort}-{number}" for number in range(8)),
            pool=f"{node_name}-{sort}",
            device={"attributes": {"numa": {"int": sort}}},
        )
        for sort in range(3)
    ]


def test_pod_waits_for_one_long_search_at_most() -> None:
    """Nine devices of one sort are to be found among those of two nodes, and the third has none at all."""
    state = cluster(*mixed("a"), *mixed("b"), nodes="abc")
    alike = wanting(count=9, constraints=[{"matchAttribute": "gpu.example.com/numa"}])
    known = Feasibilities(devices_in(state), BUDGET).for_claims([alike])
    rows, first, second = state.nodes.order, StepBudget(BUDGET), StepBudget(BUDGET)
    assert known.check_rows(rows[2:], first).tolist() == [TOO_FEW]
    assert not first.is_exhausted
    assert known.check_rows(rows, first).tolist() == [TIMED_OUT, TIMED_OUT, TOO_FEW]
    assert first.is_exhausted
    # What was not searched is not remembered; what took too long is, until something changes.
    assert known.check_rows(rows[1:], second).tolist() == [TIMED_OUT, TOO_FEW]
    state.objects(ResourceSlice).remove(mixed("b")[0].metadata)
    state.objects(ResourceSlice).remove(mixed("b")[1].metadata)
    assert known.check_rows(rows[1:], StepBudget(BUDGET)).tolist() == [TOO_FEW, TOO_FEW]


def test_many_searches_are_made_in_several_attempts() -> None:
    """On each of thirty nodes it takes some steps to find that two devices have nothing in common."""
    names = [f"n{number:02}" for number in range(30)]
    slices = (
        gpus(name, "x", device={"attributes": {"numa": {"int": sort}}}, pool=f"{name}-{sort}")
        for name in names
        for sort in range(2)
    )
    state = cluster(*slices, nodes=names)
    alike = wanting(count=2, constraints=[{"matchAttribute": "gpu.example.com/numa"}])
    devices, rows = devices_in(state), state.nodes.order
    node = state.nodes[0]
    search = devices.search([alike], claims_options([alike], devices.classes), node, devices.pools_of(node))
    assert search.run(None) is None
    known = Feasibilities(devices, search.steps).for_claims([alike])
    searched = []
    for _ in range(3):
        patience = StepBudget(search.steps)
        searched.append(known.check_rows(rows, patience).tolist().count(TOO_FEW))
        assert patience.is_exhausted == (searched[-1] < 30)
    assert searched == [11, 22, 30]
    assert (
        Feasibilities(devices, None).for_claims([alike]).check_rows(rows, StepBudget(None)).tolist() == [TOO_FEW] * 30
    )


def test_claims_that_ask_for_the_same_share_what_is_known() -> None:
    state = cluster(gpus("a", "x"))
    feasibilities = Feasibilities(devices_in(state), None)
    assert feasibilities.for_claims([wanting("c")]) is feasibilities.for_claims([wanting("d")])
    assert feasibilities.for_claims([wanting("c", 2)]) is not feasibilities.for_claims([wanting("c")])
    # Those asked about last are remembered.
    known, other = feasibilities.for_claims([wanting("c")]), feasibilities.for_claims([wanting("c", 2)])
    for count in range(3, 300):
        feasibilities.for_claims([wanting("c", count)])
        assert feasibilities.for_claims([wanting("c")]) is known
    assert feasibilities.for_claims([wanting("c", 2)]) is not other


def test_nothing_is_known_once_a_class_has_changed() -> None:
    state = cluster(gpus("a", "x"))
    feasibilities = Feasibilities(devices_in(state), None)
    known = feasibilities.for_claims([wanting()])
    assert known.check_rows(state.nodes.order, StepBudget(BUDGET)).tolist() == [FITS, TOO_FEW]
    other = a_class("other")
    state.objects(DeviceClass).put(other.metadata, other)
    assert feasibilities.for_claims([wanting()]) is not known
    state.objects(DeviceClass).remove(GPUS.metadata)
    with pytest.raises(AllocationError, match="could not retrieve device class gpu"):
        feasibilities.for_claims([wanting()])


def test_nodes_that_reach_the_same_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    state, searched = cluster(*(gpus(name, "x") for name in "ab"), nodes="abcdefgh"), list[str]()
    devices = devices_in(state)

    def search(
        claims: Sequence[ResourceClaim], options: ClaimsOptions, node: NodeInfo, pools: Sequence[Pool]
    ) -> DeviceSearch:
        searched.append(node.name)
        return Devices.search(devices, claims, options, node, pools)

    monkeypatch.setattr(devices, "search", search)
    known = Feasibilities(devices, None).for_claims([wanting()])
    assert known.check_rows(state.nodes.order, StepBudget(BUDGET)).tolist() == [FITS, FITS, *[TOO_FEW] * 6]
    assert searched == ["a", "b", "c"]


def test_node_is_measured_once_until_its_devices_come_or_go() -> None:
    state = cluster(gpus("a", "x", "y"), gpus("b", "x"))
    known, seen = Feasibilities(devices_in(state), None).for_claims([wanting()]), list[str]()

    def noted(placement: DevicePlacement) -> int:
        seen.append(placement.pools[0].id.pool)
        return len(seen)

    assert known.check_rows(state.nodes.order, StepBudget(BUDGET)).tolist() == [FITS, FITS]
    for _ in range(2):
        assert known.measure_rows(noted, state.nodes.order, StepBudget(BUDGET)).tolist() == [1, 2]
    results = [{"request": "r", "driver": "gpu.example.com", "pool": "a", "device": "x"}]
    had = wanting("had", allocation={"devices": {"results": results}})
    state.objects(ResourceClaim).put(had.metadata, had)
    assert known.check_rows(state.nodes.order, StepBudget(BUDGET)).tolist() == [FITS, FITS]
    assert known.measure_rows(noted, state.nodes.order, StepBudget(BUDGET)).tolist() == [3, 2]
    assert seen == ["a", "b", "a"]
