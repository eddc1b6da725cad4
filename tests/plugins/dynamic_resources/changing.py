"""Clusters with devices that change step by step, and the answers of an uncached search for each node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from random import Random
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from kframework import Handle
from kframework.objects import (
    DeviceClass,
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    ObjectMeta,
    ResourceClaim,
    ResourceSlice,
)
from kframework.plugins.dynamic_resources.allocated import results_of
from kframework.plugins.dynamic_resources.allocator import Allocations, DeviceSearch
from kframework.plugins.dynamic_resources.devices import Devices
from kframework.plugins.dynamic_resources.feasibility import DevicePlacement
from kframework.plugins.dynamic_resources.pools import gather_pools
from kframework.plugins.dynamic_resources.requests import claims_options
from kframework.plugins.dynamic_resources.results import build_allocation
from kframework.plugins.dynamic_resources.selection import SelectorEvaluator
from kframework.plugins.dynamic_resources.slices import DeviceId, PoolId, SliceView
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeInfo
from kframework.testing import make_node

__all__ = ["DRIVER", "ChangingCluster", "Held", "devices_in", "searched_afresh"]

DRIVER = "gpu.example.com"
MODEL = 'device.attributes["gpu.example.com"].model == "{}"'
UNREADABLE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Like", "values": ["a"]}]}]}


def devices_in(state: ClusterState) -> Devices:
    """See the devices of a cluster as the plugin does."""
    return Devices(cast("Handle", state))


class Held(Allocations):
    """What these results take, counted again at each access."""

    def __init__(self, results: Sequence[DeviceRequestAllocationResult]) -> None:
        self._results = [each for each in results if not each.admin_access]

    def _of(self, device: DeviceId) -> list[DeviceRequestAllocationResult]:
        return [each for each in self._results if (each.driver, each.pool, each.device) == device]

    def is_dedicated(self, device: DeviceId) -> bool:
        return any(each.share_id is None for each in self._of(device))

    def is_in_use(self, device: DeviceId) -> bool:
        return bool(self._of(device))

    def consumed_capacity(self, device: DeviceId) -> Mapping[str, int]:
        amounts = [int(str(each.consumed_capacity["memory"])) for each in self._of(device) if each.consumed_capacity]
        return {"memory": sum(amounts) * 10**9} if amounts else {}


def searched_afresh(
    state: ClusterState, claims: Sequence[ResourceClaim], node: NodeInfo, held: Allocations
) -> DevicePlacement | None:
    """Search for claims on a node with nothing remembered; raises AllocationError."""
    views = [SliceView(_tainted(each, state.objects(DeviceTaintRule))) for each in state.objects(ResourceSlice)]
    pools = gather_pools(node, [each for each in views if each.node_name in ("", node.name)], _of_pool(views))
    pools = [pool for pool in pools if pool.devices or pool.incomplete]
    asked, selection = claims_options(claims, state.objects(DeviceClass)), SelectorEvaluator()
    search = DeviceSearch(claims, asked, pools, held, lambda each, device: selection.matches(each, device, node))
    chosen = search.run(None)
    return None if chosen is None else DevicePlacement(chosen, pools, held)


def _tainted(subject: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> ResourceSlice:
    """Write the taints of rules into the slice, as if its driver had published them."""
    spec, devices = subject.spec, list(subject.spec.devices)
    for rule, (index, device) in product(rules, enumerate(spec.devices)):
        where = msgspec.to_builtins(rule.spec.device_selector or {})
        there = {"driver": spec.driver, "pool": spec.pool.name, "device": device.name}
        if where.items() <= there.items():
            devices[index] = replace(devices[index], taints=(*devices[index].taints, rule.spec.taint))
    return replace(subject, spec=replace(spec, devices=tuple(devices)))


def _of_pool(views: Sequence[SliceView]) -> Callable[[PoolId], Sequence[SliceView]]:
    return lambda pool: [each for each in views if each.pool == pool]


class ChangingCluster:
    """Nodes, slices and claims that come, change and go; some claims are about to get devices.

    `state` is what a plugin sees of it, `held` what claims have or are about to get.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.state = ClusterState()
        self.devices = devices_in(self.state)
        self.pending: dict[str, ResourceClaim] = {}
        self._version = 0
        self._put_class()
        for _ in range(2):
            self._put_node()
        for _ in range(4):
            self._put_slice()

    @property
    def held(self) -> Held:
        return Held([each for claim in self._claims() for each in results_of(claim)])

    def _claims(self) -> list[ResourceClaim]:
        there = list(self.state.objects(ResourceClaim))
        return [self.pending.get(each.metadata.name, each) for each in there]

    def change(self) -> str:
        """Let something happen, and say what."""
        changes = (
            *[self._put_slice] * 3,
            self._remove_slice,
            self._put_rule,
            self._remove_rule,
            *[self._put_node] * 2,
            self._remove_node,
            *[self._reserve] * 3,
            self._release,
            *[self._tell] * 2,
            *[self._allocate] * 2,
            self._free,
            self._remove_claim,
        )
        change = self.random.choice(changes)
        change()
        return change.__name__

    def _next(self) -> str:
        self._version += 1
        return str(self._version)

    def _put_class(self) -> None:
        made = msgspec.convert({"metadata": {"name": "gpu"}}, DeviceClass)
        self.state.objects(DeviceClass).put(made.metadata, made)

    def _put_node(self) -> None:
        labels = {"disk": self.random.choice(["ssd", "hdd"])} if self.random.random() < 0.5 else {}
        self.state.put_node(make_node(f"n{self.random.randint(1, 4)}", labels=labels))

    def _remove_node(self) -> None:
        if len(self.state.nodes) > 1:
            self.state.remove_node(self.random.choice([node.name for node in self.state.nodes]))

    def _put_slice(self) -> None:
        random, name = self.random, f"s{self.random.randint(0, 5)}"
        pool, generation = random.choice("pqr"), random.choice([1, 1, 1, 2])
        # All slices of a generation say how many they are.
        said = {
            "name": pool,
            "generation": generation,
            "resourceSliceCount": 2 if (pool, generation) == ("r", 1) else 1,
        }
        spec: dict[str, Any] = {"driver": DRIVER, "pool": said, **self._reach()}
        if random.random() < 0.15:
            counters = {"slices": {"value": str(random.randint(1, 4))}}
            spec["sharedCounters"] = [{"name": "whole", "counters": counters}]
        else:
            per_device = "perDeviceNodeSelection" in spec
            spec["devices"] = [self._device(f"{name}-{each}", per_device) for each in range(random.randint(1, 3))]
        metadata = {"name": name, "resourceVersion": self._next()}
        made = msgspec.convert({"metadata": metadata, "spec": spec}, ResourceSlice)
        self.state.objects(ResourceSlice).put(made.metadata, made)

    def _reach(self) -> dict[str, Any]:
        if self.random.random() < 0.15:
            return {"perDeviceNodeSelection": True}
        return self._reach_of_one()

    def _reach_of_one(self) -> dict[str, Any]:
        expression = {"key": "disk", "operator": self.random.choice(["In", "NotIn"]), "values": ["ssd"]}
        ways: list[dict[str, Any]] = [
            *[{"nodeName": f"n{number}"} for number in range(1, 5)],
            *[{"allNodes": True}] * 2,
            *[{"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}] * 2,
        ]
        return {"nodeSelector": UNREADABLE} if self.random.random() < 0.02 else self.random.choice(ways)

    def _device(self, name: str, per_device: bool) -> dict[str, Any]:
        random = self.random
        device: dict[str, Any] = {"name": name, **(self._reach_of_one() if per_device else {})}
        if random.random() < 0.9:
            device["attributes"] = {"model": {"string": random.choice("ab")}, "numa": {"int": random.randint(0, 1)}}
        if random.random() < 0.2:
            counters = {"slices": {"value": str(random.randint(1, 2))}}
            device["consumesCounters"] = [{"counterSet": "whole", "counters": counters}]
        if random.random() < 0.2:
            device["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
        if random.random() < 0.4:
            device["capacity"] = {"memory": {"value": str(random.randint(2, 4))}}
            device["allowMultipleAllocations"] = random.random() < 0.8
        if random.random() < 0.1:
            device |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
        return device

    def _remove_slice(self) -> None:
        slices = self.state.objects(ResourceSlice)
        if len(slices):
            slices.remove(self.random.choice(list(slices)).metadata)

    def _put_rule(self) -> None:
        random = self.random
        choices = {"driver": [DRIVER, "other"], "pool": ["p", "q"], "device": ["s0-0", "s1-0", "s2-1"]}
        selector = {field: random.choice(values) for field, values in choices.items() if random.random() < 0.4}
        taint = {"key": random.choice(["broken", "worn"]), "effect": random.choice(["NoSchedule", "NoExecute", "None"])}
        spec = {"deviceSelector": selector if random.random() < 0.9 else None, "taint": taint}
        metadata = {"name": f"r{random.randint(0, 2)}", "resourceVersion": self._next()}
        made = msgspec.convert({"metadata": metadata, "spec": spec}, DeviceTaintRule)
        self.state.objects(DeviceTaintRule).put(made.metadata, made)

    def _remove_rule(self) -> None:
        rules = self.state.objects(DeviceTaintRule)
        if len(rules):
            rules.remove(self.random.choice(list(rules)).metadata)

    def _new_claim(self) -> ResourceClaim:
        name = f"c{self.random.randint(0, 9)}"
        known = self.state.objects(ResourceClaim).get(name, "n")
        return known if known is not None else self._put_claim(ResourceClaim(metadata=ObjectMeta(name=name, uid=name)))

    def _put_claim(self, claim: ResourceClaim) -> ResourceClaim:
        metadata = replace(claim.metadata, namespace="n", resource_version=self._next())
        claim = replace(claim, metadata=metadata)
        self.state.objects(ResourceClaim).put(metadata, claim)
        return claim

    def _with_devices(self, claim: ResourceClaim) -> ResourceClaim | None:
        """Give a claim what some drawn one could get on some node."""
        node = self.random.choice(list(self.state.nodes))
        drawn = drawn_claim(self.random, "c")
        try:
            found = searched_afresh(self.state, [drawn], node, self.held)
            if found is None:
                return None
            got = build_allocation(drawn, found.chosen[0], node.name, lambda: f"share-{self._next()}")
        except Exception:  # it makes no sense
            return None
        return replace(claim, status=replace(claim.status, allocation=got))

    def _reserve(self) -> None:
        claim = self._new_claim()
        if claim.metadata.name in self.pending or claim.status.allocation is not None:
            return
        found = self._with_devices(claim)
        if found is not None:
            self.pending[claim.metadata.name] = found
            self.devices.allocated.reserve(found)

    def _release(self) -> None:
        if self.pending:
            self.devices.allocated.release(self.pending.pop(self.random.choice(list(self.pending))))

    def _tell(self) -> None:
        """Let the cluster say what was about to be written; a late Unreserve takes nothing of it back."""
        if not self.pending:
            return
        claim = self.pending.pop(self.random.choice(list(self.pending)))
        self._put_claim(claim)
        self.devices.allocated.release(claim)

    def _allocate(self) -> None:
        claim = self._new_claim()
        if claim.metadata.name not in self.pending and claim.status.allocation is None:
            found = self._with_devices(claim)
            if found is not None:
                self._put_claim(found)

    def _free(self) -> None:
        claim = self._new_claim()
        if claim.metadata.name not in self.pending:
            self._put_claim(replace(claim, status=replace(claim.status, allocation=None)))

    def _remove_claim(self) -> None:
        claim = self._new_claim()
        self.pending.pop(claim.metadata.name, None)
        self.state.objects(ResourceClaim).remove(claim.metadata)


def drawn_claim(random: Random, name: str) -> ResourceClaim:
    """Draw a claim of up to two requests."""
    requests = [_request(random, f"r{number}") for number in range(random.choice([1, 1, 2]))]
    devices: dict[str, Any] = {"requests": requests}
    if random.random() < 0.2:
        devices["constraints"] = [{random.choice(["matchAttribute", "distinctAttribute"]): f"{DRIVER}/numa"}]
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "n", "uid": name}, "spec": {"devices": devices}}, ResourceClaim
    )


def _request(random: Random, name: str) -> dict[str, Any]:
    if random.random() < 0.4:
        return {"name": name, "firstAvailable": [{"name": f"s{each}", **_asked(random)} for each in range(2)]}
    asked = _asked(random)
    return {"name": name, "exactly": asked | ({"adminAccess": True} if random.random() < 0.1 else {})}


def _asked(random: Random) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": random.choice([1, 1, 2]),
    }
    if random.random() < 0.1:
        asked |= {"allocationMode": "All", "count": 0}
    if random.random() < 0.5:
        asked["selectors"] = [{"cel": {"expression": MODEL.format(random.choice("ab"))}}]
    if random.random() < 0.3:
        asked["tolerations"] = [{"key": "broken", "operator": "Exists"}]
    if random.random() < 0.2:
        asked["capacity"] = {"requests": {"memory": str(random.randint(1, 3))}}
    return asked
