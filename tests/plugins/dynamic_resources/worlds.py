"""Small worlds of devices and claims, and the slow, obvious way to find out whether the claims can have what they ask.

All devices are in reach of one node. Where a search chooses one device after the other and takes back, the obvious way
tries every set of devices for every request, and looks at each whole in the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from random import Random
from typing import Any, NamedTuple

import msgspec

from kframework.objects import DeviceClass, ResourceClaim, ResourceSlice
from kframework.objects.quantity import nano
from kframework.plugins.dynamic_resources.allocator import Allocations, ChosenDevice, DeviceSearch
from kframework.plugins.dynamic_resources.pools import Pool
from kframework.plugins.dynamic_resources.requests import RequestOption, request_options
from kframework.plugins.dynamic_resources.slices import DeviceId, PoolDevice, SliceView

__all__ = ["DRIVER", "InUse", "World", "drawn", "feasible", "searched", "selects", "world"]

#: A pool and the name of a device: all devices of a world have one driver.
DRIVER = "gpu.example.com"


class InUse(Allocations):
    """Devices that are allocated: some as a whole, of others so much memory, in nanos."""

    def __init__(self, dedicated: Sequence[DeviceId] = (), memory: Mapping[DeviceId, int] = {}) -> None:
        self._dedicated = frozenset(dedicated)
        self._capacity = {device: {"memory": amount} if amount else {} for device, amount in memory.items()}

    def is_dedicated(self, device: DeviceId) -> bool:
        return device in self._dedicated

    def consumed_capacity(self, device: DeviceId) -> Mapping[str, int]:
        return self._capacity.get(device, {})

    def is_in_use(self, device: DeviceId) -> bool:
        return device in self._dedicated or device in self._capacity


class World(NamedTuple):
    """Pools that a node can reach, claims, and what is in use; selectors are values of the attribute `model`."""

    pools: list[Pool]
    claims: list[ResourceClaim]
    asked: list[list[tuple[RequestOption, ...]]]
    in_use: InUse

    @property
    def devices(self) -> list[PoolDevice]:
        return [device for pool in self.pools for device in pool.devices]


def world(slices: Sequence[Mapping[str, object]], claims: Sequence[Mapping[str, object]], in_use: InUse) -> World:
    """Make a world of the specs of slices, a pool each, and of what claims say of devices."""
    pools = []
    for number, spec in enumerate(slices):
        pool = {"name": f"p{number}", "resourceSliceCount": 1}
        said = {"metadata": {"name": f"s{number}"}, "spec": {"driver": DRIVER, "pool": pool, "allNodes": True, **spec}}
        view = SliceView(msgspec.convert(said, ResourceSlice))
        pools.append(Pool(view.pool, (view,)))
    made = [
        msgspec.convert(
            {"metadata": {"name": f"c{number}", "namespace": "n"}, "spec": {"devices": said}}, ResourceClaim
        )
        for number, said in enumerate(claims)
    ]
    classes = {"gpu": msgspec.convert({"metadata": {"name": "gpu"}}, DeviceClass)}
    asked = [[request_options(claim, request, classes) for request in claim.spec.devices.requests] for claim in made]
    return World(pools, made, asked, in_use)


def selects(asked: RequestOption, device: PoolDevice) -> bool:
    """Let a selector name the model of the device."""
    found = device.attribute(f"{DRIVER}/model")
    return all(
        each.cel is not None and found is not None and each.cel.expression == found.string_value
        for each in asked.selectors
    )


def searched(here: World, budget: int = 1_000_000) -> list[list[ChosenDevice]] | None:
    """Search as the plugin does."""
    return DeviceSearch(here.claims, here.asked, here.pools, here.in_use, selects).run(budget)


# -- the obvious way -----------------------------------------------------------------------------------------------

#: For each request of all claims: the number of its claim, the way chosen, and its devices.
Solution = Sequence[tuple[int, RequestOption, tuple[PoolDevice, ...]]]


def feasible(here: World) -> bool:
    """Return whether any choice of devices satisfies all claims."""
    requests = [(number, ways) for number, claim in enumerate(here.asked) for ways in claim]
    for solution in product(*(list(_choices(here, number, ways)) for number, ways in requests)):
        if _holds(here, solution):
            return True
    return False


def _choices(
    here: World, claim: int, ways: Sequence[RequestOption]
) -> Iterator[tuple[int, RequestOption, tuple[PoolDevice, ...]]]:
    for asked in ways:
        wanted = [device for device in here.devices if selects(asked, device)]
        if asked.all:
            enough = tuple(
                each for each in wanted if _consumed(asked, each) is not None and _has_room(here, asked, each)
            )
            if enough:
                yield claim, asked, enough
        else:
            for devices in combinations(wanted, asked.count):
                yield claim, asked, devices


def _holds(here: World, solution: Solution) -> bool:
    taken = [(claim, asked, device) for claim, asked, devices in solution for device in devices]
    return (
        _nobody_shares_unasked(here, taken)
        and all(asked.tolerates(device) for _, asked, device in taken)
        and _capacity_suffices(here, taken)
        and _counters_suffice(here, taken)
        and all(_constraints_hold(here, number, solution) for number in range(len(here.claims)))
    )


Taken = Sequence[tuple[int, RequestOption, PoolDevice]]


def _nobody_shares_unasked(here: World, taken: Taken) -> bool:
    for index, (claim, asked, device) in enumerate(taken):
        if device.shared:
            continue
        if not asked.admin and here.in_use.is_dedicated(device.id):
            return False
        before = {other for other, _, same in taken[:index] if same.id == device.id}
        if claim in before or (before and not asked.admin):
            return False
    return True


def _consumed(asked: RequestOption, device: PoolDevice) -> int | None:
    """Return how much memory a request consumes, None if the device has none to ask for."""
    memory = device.object.capacity.get("memory")
    if memory is None:
        return None if asked.capacity else 0
    return nano(asked.capacity.get("memory", memory.value))


def _room(here: World, device: PoolDevice) -> int:
    memory = device.object.capacity.get("memory")
    return 0 if memory is None else nano(memory.value) - here.in_use.consumed_capacity(device.id).get("memory", 0)


def _has_room(here: World, asked: RequestOption, device: PoolDevice) -> bool:
    return (_consumed(asked, device) or 0) <= _room(here, device)


def _capacity_suffices(here: World, taken: Taken) -> bool:
    together = Counter[DeviceId]()
    for _, asked, device in taken:
        amount = _consumed(asked, device)
        if amount is None or not _has_room(here, asked, device):
            return False
        if device.shared:
            together[device.id] += amount
    return all(together[device.id] <= _room(here, device) for _, _, device in taken if device.shared)


def _counters_suffice(here: World, taken: Taken) -> bool:
    """A shared device takes of the counters once, and nothing more if it is in use already."""
    for pool in here.pools:
        used, added = Counter[tuple[str, str]](), False
        for device in pool.devices:
            in_use = here.in_use.is_in_use(device.id)
            times = sum(each.id == device.id for _, _, each in taken)
            if device.shared:
                times = 0 if in_use else min(1, times)
            added |= bool(times and device.consumes)
            for counter, amount in device.consumes.items():
                used[counter] += amount * (times + in_use)
        if added and any(used[counter] > total for counter, total in pool.counters.items()):
            return False
    return True


def _constraints_hold(here: World, number: int, solution: Solution) -> bool:
    for constraint in here.claims[number].spec.devices.constraints:
        values = [
            device.attribute(constraint.match_attribute or constraint.distinct_attribute or "")
            for claim, asked, devices in solution
            for device in devices
            if claim == number and (not constraint.requests or {asked.request, asked.name} & {*constraint.requests})
        ]
        if None in values:
            return False
        different = len({*values})
        if constraint.match_attribute is not None and different > 1:
            return False
        if constraint.distinct_attribute is not None and different < len(values):
            return False
    return True


def drawn(random: Random) -> World:
    """Draw a world of up to two pools with three devices each, and up to two claims."""
    slices = [_slice(random) for _ in range(random.randint(1, 2))]
    claims = [_claim(random) for _ in range(random.randint(1, 2))]
    here = world(slices, claims, InUse())
    dedicated = [each.id for each in here.devices if not each.shared and random.random() < 0.15]
    memory = {each.id: nano(random.randint(1, 2)) for each in here.devices if each.shared and random.random() < 0.3}
    return here._replace(in_use=InUse(dedicated, memory))


def _slice(random: Random) -> dict[str, Any]:
    devices = [_device(random, number) for number in range(random.randint(1, 3))]
    counters = {"slices": {"value": str(random.randint(2, 5))}}
    return {"devices": devices, "sharedCounters": [{"name": "whole", "counters": counters}]}


def _device(random: Random, number: int) -> dict[str, Any]:
    device: dict[str, Any] = {"name": f"d{number}", "attributes": {"model": {"string": random.choice("ab")}}}
    if random.random() < 0.8:
        device["attributes"]["numa"] = {"int": random.randint(0, 1)}
    if random.random() < 0.5:
        counters = {"slices": {"value": str(random.randint(1, 2))}}
        device["consumesCounters"] = [{"counterSet": "whole", "counters": counters}]
    if random.random() < 0.2:
        device["taints"] = [{"key": "broken", "effect": random.choice(["NoSchedule", "NoExecute", "None"])}]
    if random.random() < 0.5:
        device["capacity"] = {"memory": {"value": str(random.randint(2, 4))}}
        device["allowMultipleAllocations"] = random.random() < 0.6
    return device


def _claim(random: Random) -> dict[str, Any]:
    requests = [_request(random, f"r{number}") for number in range(random.randint(1, 2))]
    claim: dict[str, Any] = {"requests": requests}
    if random.random() < 0.4:
        kind = random.choice(["matchAttribute", "distinctAttribute"])
        about = [] if random.random() < 0.5 else [random.choice(["r0", "r1", "r0/s0"])]
        claim["constraints"] = [{"requests": about, kind: f"{DRIVER}/numa"}]
    return claim


def _request(random: Random, name: str) -> dict[str, Any]:
    if random.random() < 0.3:
        ways = [{"name": f"s{number}", **_exactly(random)} for number in range(random.randint(1, 2))]
        return {"name": name, "firstAvailable": ways}
    exactly = _exactly(random)
    if random.random() < 0.15:
        exactly["adminAccess"] = True
    return {"name": name, "exactly": exactly}


def _exactly(random: Random) -> dict[str, Any]:
    asked: dict[str, Any] = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": random.randint(1, 2)}
    if random.random() < 0.1:
        asked |= {"allocationMode": "All", "count": 0}
    if random.random() < 0.3:
        asked["selectors"] = [{"cel": {"expression": random.choice("ab")}}]
    if random.random() < 0.3:
        asked["tolerations"] = [{"key": "broken", "operator": "Exists"}]
    if random.random() < 0.15:
        asked["capacity"] = {"requests": {"memory": str(random.randint(1, 3))}}
    return asked
