"""The rejection of each node, the devices that claims get there, and what both would be without some pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from kframework.objects import ApiObject, Node, Pod, ResourceClaim
from kframework.objects.resource_claims import DELETE_PROTECTION
from kframework.plugins.dynamic_resources.cycle import (
    CANNOT_FIT,
    LEFTOVER,
    UNAVAILABLE,
    UNCREATED,
    ClaimAllocation,
    ClaimsInCycle,
    ExtendedResources,
    extended_resources,
)
from kframework.plugins.dynamic_resources.devices import Devices
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.extended_resources import BackedResources
from kframework.plugins.dynamic_resources.feasibility import FITS, INVALID_POOLS, TOO_FEW, Feasibilities, rank
from kframework.plugins.dynamic_resources.results import build_allocation
from kframework.state.pods import PendingPod
from kframework.testing import make_node, make_pod, pending_pod, stub_handle
from tests.plugins.dynamic_resources.changing import ChangingCluster, Held, drawn_claim, searched_afresh
from tests.plugins.dynamic_resources.claiming import GPUS, gpus, wanting

GPU, FPGA = "example.com/gpu", "example.com/fpga"
ON_A = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]}
NODES = [make_node("a"), make_node("b")]


def having(name: str = "c", device: str = "x", *users: Pod, pool: str = "a", anywhere: bool = False) -> ResourceClaim:
    """Make a claim that has a device of the node a, reserved for these pods."""
    results = [{"request": "r", "driver": "gpu.example.com", "pool": pool, "device": device}]
    got: dict[str, Any] = {"devices": {"results": results}}
    reserved = [{"resource": "pods", "name": each.metadata.name, "uid": each.metadata.uid} for each in users]
    return wanting(name, allocation=got if anywhere else got | {"nodeSelector": ON_A}, reservedFor=reserved)


class Cluster:
    """A cluster of these objects, where claims are looked at."""

    def __init__(self, *objects: ApiObject, nodes: Sequence[Node] = NODES) -> None:
        handle = stub_handle(nodes=nodes, objects=[GPUS, *objects])
        self.nodes = handle.nodes
        self.devices = Devices(handle)
        self.backed: BackedResources = self.devices.classes.index(BackedResources)

    def cycle(self, *claims: ResourceClaim, pod: PendingPod | None = None, **said: Any) -> ClaimsInCycle:
        feasibilities = Feasibilities(self.devices, None)
        return ClaimsInCycle(self.devices, feasibilities, self.backed, pod or pending_pod(make_pod()), claims, **said)

    def answers(self, cycle: ClaimsInCycle) -> dict[str, int]:
        found = cycle.rejections(self.nodes, self.nodes.order)
        assert found.tolist() == [
            int(cycle.rejections(self.nodes, np.array([row]))[0]) for row in self.nodes.order.tolist()
        ]
        assert found.tolist() == cycle.rejections(self.nodes, slice(0, len(self.nodes))).tolist()
        names = [self.nodes[row].name for row in self.nodes.order.tolist()]
        return dict(zip(names, found.tolist(), strict=True))


@pytest.mark.parametrize(
    ("slices", "claims", "answers"),
    [
        ([gpus("a", "x")], [wanting()], {"a": FITS, "b": TOO_FEW}),
        ([gpus("a", "x"), gpus("b", "y", "z")], [wanting(), wanting("d")], {"a": TOO_FEW, "b": FITS}),
        ([gpus("a", "x", "x"), gpus("b", "y")], [wanting()], {"a": INVALID_POOLS, "b": FITS}),
        ([], [having()], {"a": FITS, "b": UNAVAILABLE}),
        ([], [having(anywhere=True)], {"a": FITS, "b": FITS}),
        ([gpus("b", "y")], [having(), wanting("d")], {"a": TOO_FEW, "b": UNAVAILABLE}),
        # That there are too few hides that another one cannot be used.
        ([gpus("a", "y")], [having(), wanting("d")], {"a": FITS, "b": TOO_FEW}),
        ([], [], {"a": FITS, "b": FITS}),
    ],
)
def test_rejections_of_nodes_name_the_reason(
    slices: Sequence[ApiObject], claims: Sequence[ResourceClaim], answers: Mapping[str, int]
) -> None:
    here = Cluster(*slices, *claims)
    assert here.answers(here.cycle(*claims)) == answers


def test_claims_whose_devices_are_not_ready_are_of_use_nowhere() -> None:
    claim, other = having(anywhere=True), having("d", anywhere=True)
    here = Cluster(claim, other)
    cycle = here.cycle(claim, other, unready=[other])
    assert here.answers(cycle) == {"a": UNAVAILABLE, "b": UNAVAILABLE}
    assert cycle.unusable_claims(here.nodes, here.nodes.order) == [other]


def test_unusable_claims_are_named() -> None:
    tied, free = having(), having("d", "y", anywhere=True)
    here = Cluster(tied, free)
    cycle = here.cycle(tied, free, wanting("e"))
    rows = {here.nodes[row].name: np.array([row]) for row in here.nodes.order.tolist()}
    assert (cycle.unusable_claims(here.nodes, rows["a"]), cycle.unusable_claims(here.nodes, rows["b"])) == ([], [tied])


def test_invalid_claim_is_an_error() -> None:
    here, claim = Cluster(gpus("a", "x")), wanting(device_class="none")
    with pytest.raises(AllocationError, match="could not retrieve device class none"):
        here.answers(here.cycle(claim))


def asking(**requests: int) -> PendingPod:
    named = {"gpu": GPU, "fpga": FPGA}
    return pending_pod(make_pod(requests={named[name]: amount for name, amount in requests.items()}))


@pytest.mark.parametrize(
    ("pod", "found"),
    [
        (asking(), ExtendedResources()),
        (asking(gpu=0), ExtendedResources()),
        (asking(gpu=1), ExtendedResources((GPU,))),
        (asking(fpga=1), ExtendedResources()),
        (asking(gpu=1, fpga=1), ExtendedResources((GPU,), (FPGA,))),
    ],
)
def test_extended_resources_backed_by_devices_are_known(pod: PendingPod, found: ExtendedResources) -> None:
    assert extended_resources(pod, Cluster().backed) == found


@pytest.mark.parametrize(
    ("pod", "answers"),
    [
        (asking(gpu=1), {"devices": FITS, "plugin": FITS, "bare": TOO_FEW}),
        (asking(gpu=2), {"devices": TOO_FEW, "plugin": FITS, "bare": TOO_FEW}),
        (asking(gpu=1, fpga=1), {"devices": CANNOT_FIT, "plugin": FITS, "bare": CANNOT_FIT}),
    ],
)
def test_extended_resources_are_devices_where_no_node_offers_them(pod: PendingPod, answers: Mapping[str, int]) -> None:
    nodes = [make_node("devices"), make_node("plugin", allocatable={GPU: 1, FPGA: 0}), make_node("bare")]
    here = Cluster(gpus("devices", "x"), nodes=nodes)
    assert here.answers(here.cycle(pod=pod)) == answers
    leftover = here.cycle(pod=pod, leftover=having(anywhere=True))
    assert set(here.answers(leftover).values()) == {LEFTOVER}


def test_claim_is_thought_of_for_extended_resources() -> None:
    here, pod = Cluster(gpus("a", "x", "y")), asking(gpu=1)
    own = wanting()
    cycle = here.cycle(own, pod=pod)
    placed = cycle.allocate(here.nodes[0], lambda: "share")
    assert placed is not None
    assert [each.claim.metadata.name for each in placed] == ["c", UNCREATED]
    made = placed[1].claim
    assert made.metadata.generate_name == "pod-extended-resources-"
    assert [(owner.kind, owner.uid, owner.controller) for owner in made.metadata.owner_references] == [
        ("Pod", pod.uid, True)
    ]
    names = [request.name for request in made.spec.devices.requests]
    assert names == [mapping.request_name for mapping in cycle.mappings(here.nodes[0])] == ["container-0-request-1"]


def test_claims_get_free_devices() -> None:
    taken, free = having(device="x"), wanting("d")
    here = Cluster(gpus("a", "x", "y"), taken)
    cycle = here.cycle(taken, free)
    placed = cycle.allocate(here.nodes[0], lambda: "share")
    assert placed is not None
    first, second = placed
    assert (first.claim, first.allocation) == (taken, None)
    assert second.allocation is not None
    assert [each.device for each in second.allocation.devices.results] == ["y"]
    assert second.allocated_claim.metadata.finalizers == (DELETE_PROTECTION,)
    assert second.allocated_claim.status.allocation == second.allocation
    assert cycle.allocate(here.nodes[1], lambda: "share") is None


def test_finalizer_is_not_added_twice() -> None:
    claim = wanting()
    claim = replace(claim, metadata=replace(claim.metadata, finalizers=(DELETE_PROTECTION, "other")))
    assert ClaimAllocation(claim, None).allocated_claim.metadata.finalizers == (DELETE_PROTECTION, "other")


def test_first_of_several_ways_ranks_highest() -> None:
    ways = [
        {"name": name, "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
        for name, count in (("two", 2), ("one", 1))
    ]
    devices = {"requests": [{"name": "r", "firstAvailable": ways}]}
    either = msgspec.convert({"metadata": {"name": "e", "namespace": "n"}, "spec": {"devices": devices}}, ResourceClaim)
    here = Cluster(gpus("a", "x"), gpus("b", "y", "z", "w"))
    cycle = here.cycle(either)
    assert cycle.ranks(here.nodes, here.nodes.order).tolist() == [7, 8]
    assert here.cycle(wanting()).ranks(here.nodes, here.nodes.order).tolist() == [0, 0]
    # What it has counts too, where something is still to be allocated.
    got = having(anywhere=True)
    result = replace(got.status.allocation.devices.results[0], request="r/one") if got.status.allocation else None
    assert result is not None and got.status.allocation is not None
    given = replace(got.status.allocation, devices=replace(got.status.allocation.devices, results=(result,)))
    has_one = replace(either, status=replace(either.status, allocation=given))
    assert here.cycle(has_one).ranks(here.nodes, here.nodes.order).tolist() == [0, 0]
    both = here.cycle(has_one, replace(either, metadata=replace(either.metadata, name="f")))
    assert both.ranks(here.nodes, here.nodes.order).tolist() == [14, 15]


@pytest.mark.parametrize("seed", range(10))
def test_on_each_node_they_get_what_a_search_made_anew_finds(seed: int) -> None:
    random = Random(seed)
    cluster = ChangingCluster(random)
    backed: BackedResources = cluster.devices.classes.index(BackedResources)
    for _ in range(20):
        claims = [drawn_claim(random, f"x{number}") for number in range(random.choice([1, 2]))]
        cycle = ClaimsInCycle(
            cluster.devices, Feasibilities(cluster.devices, None), backed, pending_pod(make_pod()), claims
        )
        for node in cluster.state.nodes:
            try:
                expected = searched_afresh(cluster.state, claims, node, cluster.held)
            except AllocationError:
                continue
            placed = cycle.allocate(node, lambda: "s")
            assert [each.allocation for each in placed or ()] == [
                build_allocation(claim, chosen, node.name, lambda: "s")
                for claim, chosen in zip(claims, expected.chosen if expected else (), strict=expected is not None)
            ]
            if expected is not None:
                assert cycle.ranks(cluster.state.nodes, np.array([node.row]))[0] == rank(expected)
        cluster.change()


def test_pod_that_would_be_gone_gives_its_devices_back() -> None:
    victim, friend = make_pod("victim"), make_pod("friend")
    own, shared = having("own", "x", victim), having("shared", "y", victim, friend)
    here = Cluster(gpus("a", "x", "y"), own, shared)
    before = here.cycle(wanting())
    twin = before.clone()
    gone = pending_pod(victim)
    assert here.answers(twin) == {"a": TOO_FEW, "b": TOO_FEW}
    twin.remove_pod(gone, [own, shared])
    assert here.answers(twin) == {"a": FITS, "b": TOO_FEW}
    assert here.answers(before) == {"a": TOO_FEW, "b": TOO_FEW}
    assert here.answers(twin.clone()) == {"a": FITS, "b": TOO_FEW}
    twin.add_pod(gone)
    assert here.answers(twin) == {"a": TOO_FEW, "b": TOO_FEW}
    twin.remove_pod(gone, [shared])
    assert here.answers(twin) == {"a": TOO_FEW, "b": TOO_FEW}


def test_pool_is_invalid_in_a_what_if_too() -> None:
    victim = make_pod("victim")
    own = having("own", "x", victim)
    here = Cluster(gpus("a", "x"), gpus("b", "y", "y"), own)
    cycle = here.cycle(wanting())
    cycle.remove_pod(pending_pod(victim), [own])
    assert here.answers(cycle) == {"a": FITS, "b": INVALID_POOLS}


@pytest.mark.parametrize("seed", range(10))
def test_what_if_is_a_search_without_what_is_given_back(seed: int) -> None:
    random, victim = Random(seed), make_pod("victim")
    cluster = ChangingCluster(random)
    backed: BackedResources = cluster.devices.classes.index(BackedResources)
    for _ in range(20):
        cluster.change()
        taken = [claim for claim in cluster.state.objects(ResourceClaim) if claim.status.allocation is not None]
        if not taken or cluster.pending:
            continue
        freed = random.choice(taken)
        user = having("u", "x", victim).status.reserved_for
        freed = replace(freed, status=replace(freed.status, reserved_for=user))
        rest = [claim for claim in taken if claim.metadata.name != freed.metadata.name]
        held = Held([each for claim in rest if (got := claim.status.allocation) for each in got.devices.results])
        claims = [drawn_claim(random, "x0")]
        cycle = ClaimsInCycle(
            cluster.devices, Feasibilities(cluster.devices, None), backed, pending_pod(make_pod()), claims
        )
        cycle.remove_pod(pending_pod(victim), [freed])
        for node in cluster.state.nodes:
            try:
                found = searched_afresh(cluster.state, claims, node, held)
            except AllocationError:
                continue
            if cycle._released_devices():
                answer = cycle.rejections(cluster.state.nodes, np.array([node.row])).tolist()
                assert answer == [TOO_FEW if found is None else FITS]
