"""Each device is counted once for each request, as lost to the first thing that keeps it, or as one that can be had."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kframework.objects import ResourceClaim
from kframework.objects.quantity import nano
from kframework.plugins.dynamic_resources.shortfalls import Loss, LossReason, Shortfall, Shortfalls
from kframework.plugins.dynamic_resources.slices import PoolDevice
from tests.support.device_objects import DRIVER, resource_slice
from tests.support.missing_devices import (
    CARD,
    MODEL,
    NUMA,
    WORN,
    claim,
    give_devices,
    gpu,
    partition,
    request,
    shortfalls,
    slice_of_n1,
)


def losses(found: Shortfalls) -> list[tuple[int, dict[Loss, int]]]:
    """Say of each request how many devices it could have, and what the others are lost to."""
    return [(len(each.available), dict(each.losses)) for each in found.each_option]


@pytest.mark.parametrize(
    ("devices", "asked", "in_use", "left", "loss"),
    [
        ([gpu("a")], request(), [], 1, None),
        ([gpu("a", "other")], request(), [], 0, Loss(LossReason.CLASS, "gpu")),
        ([gpu("a")], request(), [give_devices("a")], 0, Loss(LossReason.IN_USE, "default/holder")),
        ([gpu("a")], request(adminAccess=True), [give_devices("a")], 1, None),
        # What would not be selected is not lost to whoever has it.
        ([gpu("a", "other")], request(), [give_devices("a")], 0, Loss(LossReason.CLASS, "gpu")),
        (
            [gpu("a")],
            request(selectors=[f"{MODEL} == 'b'"]),
            [give_devices("a")],
            0,
            Loss(LossReason.SELECTOR, f"{MODEL} == 'b'"),
        ),
        # The clause that is false, of the selector that is.
        (
            [gpu("a", numa=1)],
            request(selectors=["true", f"{MODEL} == 'a' && {NUMA} == 0"]),
            [],
            0,
            Loss(LossReason.SELECTOR, f"{NUMA} == 0"),
        ),
        ([gpu("a", taints=[WORN])], request(), [], 0, Loss(LossReason.TAINT, "worn:NoSchedule")),
        ([gpu("a", taints=[WORN])], request(tolerations=[{"key": "worn", "operator": "Exists"}]), [], 1, None),
        ([gpu("a", capacity={"memory": {"value": "4"}})], request(), [], 1, None),
        ([gpu("a")], request(capacity={"requests": {"memory": "1"}}), [], 0, Loss(LossReason.NO_CAPACITY, "memory")),
        # A capacity that no device has is not what the holder uses up.
        (
            [gpu("a", capacity={"memory": {"value": "4"}})],
            request(capacity={"requests": {"other.example.com/memory": "1"}}),
            [give_devices("a")],
            0,
            Loss(LossReason.NO_CAPACITY, "other.example.com/memory"),
        ),
        (
            [
                gpu(
                    "a",
                    capacity={
                        "memory": {"value": "4", "requestPolicy": {"validValues": ["1"]}},
                        "slots": {"value": "2"},
                    },
                )
            ],
            request(capacity={"requests": {"memory": "2"}}),
            [],
            0,
            Loss(LossReason.POLICY, "memory"),
        ),
        (
            [gpu("a", capacity={"memory": {"value": "4"}})],
            request(capacity={"requests": {"memory": "5"}}),
            [],
            0,
            Loss(LossReason.CAPACITY, "memory"),
        ),
        (
            [gpu("a", capacity={"memory": {"value": "4"}}, allowMultipleAllocations=True)],
            request(capacity={"requests": {f"{DRIVER}/memory": "2"}}),
            [give_devices("a", shareID="s", consumedCapacity={"memory": "3"})],
            0,
            Loss(LossReason.CAPACITY, "memory"),
        ),
        (
            [gpu("a", capacity={"memory": {"value": "4"}}, allowMultipleAllocations=True)],
            request(capacity={"requests": {"memory": "2"}}),
            [give_devices("a", shareID="s", consumedCapacity={"memory": "3"})],
            0,
            Loss(LossReason.CAPACITY, "memory"),
        ),
    ],
)
def test_each_loss_is_told(
    devices: list[dict[str, Any]], asked: dict[str, Any], in_use: list[ResourceClaim], left: int, loss: Loss | None
) -> None:
    found = losses(shortfalls([slice_of_n1(*devices)], [claim(asked)], in_use))
    assert found == [(left, {} if loss is None else {loss: 1})]


def test_selector_that_fails_is_shown_whole() -> None:
    wrong = f"device.attributes['{DRIVER}'].missing == 1 && true"
    ((_, told),) = losses(shortfalls([slice_of_n1(gpu("a"))], [claim(request(selectors=[wrong]))]))
    ((loss, count),) = told.items()
    assert (loss.reason, count) == (LossReason.SELECTOR, 1)
    assert loss.detail.startswith(f"{wrong}, as it fails: CEL runtime error")


def test_counters_are_lost_to_whoever_uses_their_pool() -> None:
    devices = [partition("whole", 40), partition("half", 20), partition("other-half", 20)]
    said = {"generation": 1, "resourceSliceCount": 2, "name": "n1"}
    slices = [
        slice_of_n1(*devices, pool=said),
        resource_slice("counters", [], nodeName="n1", sharedCounters=CARD, pool=said),
    ]
    found = shortfalls(slices, [claim(request())], [give_devices("half")])
    lost = {Loss(LossReason.IN_USE, "default/holder"): 1, Loss(LossReason.COUNTERS, "card/memory"): 1}
    assert losses(found) == [(1, lost)]
    (whole,) = next(found.each_option).devices_lost_to(LossReason.COUNTERS)
    assert [each.id.device for each in found.consumers(whole)] == ["half"]


def test_counters_of_a_shared_device_in_use_are_consumed_once() -> None:
    """The device has no capacity, and is tainted, so that what it consumes of the counters is all the difference."""
    pool = {"generation": 1, "resourceSliceCount": 2, "name": "n1"}
    shared = {**partition("whole", 40), "allowMultipleAllocations": True, "taints": [WORN]}
    slices = [
        slice_of_n1(shared, pool=pool),
        resource_slice("counters", [], nodeName="n1", sharedCounters=CARD, pool=pool),
    ]
    found = shortfalls(slices, [claim(request())], [give_devices("whole", shareID="s")])
    assert losses(found) == [(0, {Loss(LossReason.TAINT, "worn:NoSchedule"): 1})]


def test_devices_in_the_network_may_be_out_of_reach() -> None:
    far = resource_slice("far", {"x": "a", "y": "other"}, nodeSelector={"nodeSelectorTerms": [_in("n2")]})
    near = resource_slice("near", [gpu("p", nodeName="n1"), gpu("q", nodeName="n2")], perDeviceNodeSelection=True)
    elsewhere = resource_slice("n2", {"not": "mine"}, nodeName="n2")
    assert losses(shortfalls([far, near, elsewhere], [claim(request())])) == [
        (1, {Loss(LossReason.CLASS, "gpu"): 1, Loss(LossReason.REACH): 2})
    ]


def _in(name: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}


def test_pools_of_which_something_is_wrong_or_missing_are_told() -> None:
    twice, incomplete = slice_of_n1(gpu("a"), gpu("a")), {"name": "half", "generation": 1, "resourceSliceCount": 2}
    half = resource_slice("half", [gpu("b")], nodeName="n1", pool=incomplete)
    found = shortfalls([twice, half], [claim(request())])
    assert losses(found) == [(0, {Loss(LossReason.POOL, "duplicate device name a"): 2})]
    assert [str(each) for each in found.incomplete_pools] == [f"{DRIVER}/half"]


def test_devices_that_do_not_match_most_are_lost_to_the_constraint() -> None:
    devices = [gpu("c", numa=1), gpu("a"), gpu("b"), gpu("d", numa=None)]
    match = {"matchAttribute": f"{DRIVER}/numa"}
    lost = Loss(LossReason.CONSTRAINT, f"matchAttribute {DRIVER}/numa")
    found = shortfalls([slice_of_n1(*devices)], [claim(request(count=3), constraints=[match])])
    assert losses(found) == [(2, {lost: 2})]
    assert next(found.each_option).missing == 1
    distinct = {"distinctAttribute": f"{DRIVER}/numa", "requests": ["r"]}
    found = shortfalls([slice_of_n1(*devices)], [claim(request(count=3), request("s"), constraints=[distinct])])
    lost = Loss(LossReason.CONSTRAINT, f"distinctAttribute {DRIVER}/numa")
    assert losses(found) == [(2, {lost: 2}), (4, {})]


def test_requests_that_must_match_keep_the_value_that_serves_most_of_them() -> None:
    devices = [gpu("a", numa=0), gpu("b", numa=0), gpu("c", numa=0), gpu("x", "nic", numa=1), gpu("d", numa=1)]
    nic, card = request("nic", selectors=[f"{MODEL} == 'nic'"]), request("card", selectors=[f"{MODEL} == 'a'"])
    match = [{"matchAttribute": f"{DRIVER}/numa"}]
    found = shortfalls([slice_of_n1(*devices)], [claim(nic, card, constraints=match)])
    assert [[each.id.device for each in every.available] for every in found.each_option] == [["x"], ["d"]]
    assert found.are_met_alone


def test_of_requests_that_could_each_be_met_the_first_unmet_is_named() -> None:
    found = shortfalls([slice_of_n1(gpu("a"), gpu("b"))], [claim(request("one"), request("two", 2)), claim(request())])
    assert found.are_met_alone
    assert found.first_unmet_together() == "request two of claim default/c"
    assert not shortfalls([slice_of_n1(gpu("a"))], [claim(request(count=2))]).are_met_alone


def test_all_devices_that_are_selected_are_wanted() -> None:
    devices = [gpu("a"), gpu("b", "b"), gpu("c")]
    every = request(count=0, selectors=[f"{MODEL} == 'a'"], allocationMode="All")
    (found,) = shortfalls([slice_of_n1(*devices)], [claim(every)], [give_devices("c")]).each_option
    assert (found.needed, len(found.available), found.missing) == (2, 1, 1)
    (none,) = shortfalls([slice_of_n1(gpu("b", "b"))], [claim(every)]).each_option
    assert (none.needed, none.missing) == (1, 1)


@pytest.mark.parametrize("seed", range(60))
def test_random_worlds_are_recounted(seed: int) -> None:
    """Every device has one verdict, the first thing against it, and one device can be had where a search finds one."""
    random = Random(seed)
    devices = [_drawn(random, f"d{number}") for number in range(random.randint(1, 6))]
    in_use = [give_devices(each["name"], by=each["name"], **_share(each)) for each in devices if random.random() < 0.3]
    tolerant: dict[str, Any] = {"tolerations": [{"operator": "Exists"}]} if random.random() < 0.5 else {}
    wanted: dict[str, Any] = {"capacity": {"requests": {"memory": "2"}}} if random.random() < 0.3 else {}
    asked = claim(request(selectors=[f"{MODEL} == 'a' && {NUMA} == 0"], **tolerant, **wanted))
    found = shortfalls([slice_of_n1(*devices)], [asked], in_use)
    (shortfall,) = found.each_option
    assert len(shortfall.verdicts) == len(devices) == len(shortfall.available) + sum(shortfall.losses.values())
    names = {each.metadata.name.removeprefix("of-") for each in in_use}
    for device, loss in shortfall.verdicts.items():
        against = _against(device, shortfall, device.id.device in names)
        assert (None if loss is None else loss.reason) == (against[0] if against else None), device
    assert (found.first_unmet_together() == "") == bool(shortfall.available)


def _drawn(random: Random, name: str) -> dict[str, Any]:
    said: dict[str, Any] = {"taints": [WORN]} if random.random() < 0.3 else {}
    if random.random() < 0.5:
        said |= {"capacity": {"memory": {"value": "3"}}, "allowMultipleAllocations": random.random() < 0.5}
    return gpu(name, random.choice(["a", "a", "b", "other"]), random.choice([0, 0, 1]), **said)


def _share(device: dict[str, Any]) -> dict[str, Any]:
    """Say what a holder has of a device that is shared: two of the three units of its memory."""
    return {"shareID": "s", "consumedCapacity": {"memory": "2"}} if device.get("allowMultipleAllocations") else {}


def _against(device: PoolDevice, shortfall: Shortfall, in_use: bool) -> list[LossReason]:
    """List all that is against a device, worked out from its object alone."""
    said, asked = device.object, shortfall.option
    model, numa = said.attributes["model"].string_value, said.attributes["numa"].int_value
    shared, memory = bool(said.allow_multiple_allocations), said.capacity.get("memory")
    wanted = nano(asked.capacity.get("memory", 0 if memory is None else memory.value))
    there = 0 if memory is None else nano(memory.value) - (nano(2) if in_use and shared else 0)
    return [
        why
        for why, is_against in {
            LossReason.CLASS: model == "other",
            LossReason.SELECTOR: (model, numa) != ("a", 0),
            LossReason.NO_CAPACITY: memory is None and bool(asked.capacity),
            LossReason.IN_USE: in_use and not shared,
            LossReason.CAPACITY: wanted > there,
            LossReason.TAINT: bool(said.taints) and not asked.tolerations,
        }.items()
        if is_against
    ]
