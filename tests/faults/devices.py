"""Devices in a world in which much happens: pools that drivers republish, claims of all kinds, and their users."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import (
    Device,
    DeviceClass,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    Node,
    ObjectMeta,
    Pod,
    PodResourceClaim,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from tests.faults.run_settings import EXTENDED

__all__ = ["BACKED", "DeviceWorld"]

#: The extended resource that is devices of the class `gpu`.
BACKED = "example.com/gpu"

#: How long a driver takes at most to publish the next slice of a pool, and to make a device ready, in seconds.
PUBLISHED, READY = 3.0, 8.0

#: The driver whose devices take of counters.
PARTITIONED = "part.example.com"

_Written = dict[str, object]

K = TypeVar("K", ResourceClaim, ResourceClaimTemplate, DeviceClass, ResourceSlice)


class DeviceWorld:
    """Publishes devices and takes them away, and lets pods ask for them; it also is the driver of them all.

    What devices have and consume stays the same, and a device that takes of counters goes with its pool alone: so what
    is allocated never comes to more than there is.
    """

    def __init__(self, cluster: MemoryCluster, random: Random, nodes: Sequence[Node], troubles: Counter[str]) -> None:
        self._cluster = cluster
        self._random = random
        self._troubles = troubles
        #: Each pool with all its devices, by its driver and its name, and as it is to be now.
        self._whole = {(each[0].spec.driver, each[0].spec.pool.name): each for each in _pools(nodes)}
        self._pools = dict(self._whole)
        self._classes = [_class(name) for name in ("gpu", "part", "share", "net", "fabric")]
        self._templates = [_template(name, *requests) for name, requests in _ASKED.items()]
        #: Whether a device may fail to become ready.
        self.may_fail = True
        self._shared = 0
        for each in (*self._classes, *self._templates):
            cluster.add(each)
        for pool in self._pools:
            self._publish(pool)
        cluster.subscribe([ResourceClaim], self._allocated)

    @property
    def changes(self) -> list[tuple[Callable[[], None], float]]:
        """What happens to devices, and how often compared with a pod that is made."""
        return [
            (self._taint, 0.03),
            (self._publish_generation, 0.04),
            (self._withdraw, 0.01),
            (self._restore, 0.02),
            (self._delete_class, 0.003),
            (self._restore_classes, 0.01),
            (self._delete_claim, 0.005),
        ]

    def end_faults(self) -> None:
        """Let all be there as it was at first, and stay so."""
        self.may_fail = False
        self._restore_classes()
        for rule in self._cluster.objects(DeviceTaintRule):
            self._cluster.remove(DeviceTaintRule, rule.metadata.name)
        for pool in self._pools:
            self._begin_generation(pool, fewer=0)
            self._publish(pool)

    def with_claims(self, pod: Pod) -> Pod:
        """Let a pod ask for devices, or leave it as it is."""
        random = self._random
        way = random.random()
        if way < 0.5:
            self._troubles["pods with claims of templates"] += 1
            names = {random.choice(list(_ASKED)): None} | (
                {random.choice(_BESIDE): None} if random.random() < 0.3 else {}
            )
            return _with_claims(pod, [PodResourceClaim(name=name, resource_claim_template_name=name) for name in names])
        if way < 0.65:
            self._troubles["pods that share claims"] += 1
            return _with_claims(pod, [PodResourceClaim(name="shared", resource_claim_name=self._shared_claim())])
        if way < 0.8 and not any(EXTENDED in each.resources.requests for each in pod.spec.containers):
            # Beside devices no node fits what only an extender knows of, in kube-scheduler neither.
            self._troubles["pods with extended resources that are devices"] += 1
            (container,) = pod.spec.containers
            asked = container.resources.requests | {BACKED: random.choice(["1", "1", "2"])}
            container = replace(container, resources=replace(container.resources, requests=asked))
            return replace(pod, spec=replace(pod.spec, containers=(container,)))
        return pod

    def _shared_claim(self) -> str:
        known = [each.metadata.name for each in self._shared_claims() if each.metadata.deletion_timestamp is None]
        if known and self._random.random() < 0.6:
            return self._random.choice(known)
        self._shared += 1
        name = f"shared-{self._shared}"
        requests = _ASKED[self._random.choice(list(_ASKED))]
        self._cluster.add(_object(ResourceClaim, name, {"devices": {"requests": requests}}))
        return name

    def _shared_claims(self) -> list[ResourceClaim]:
        return [each for each in self._cluster.objects(ResourceClaim) if not each.metadata.owner_references]

    def sweep(self) -> None:
        """Delete shared claims that no pod names any more."""
        named = {each.resource_claim_name for pod in self._cluster.objects(Pod) for each in pod.spec.resource_claims}
        for claim in self._shared_claims():
            if claim.metadata.name not in named:
                self._cluster.remove(ResourceClaim, claim.metadata.name, claim.metadata.namespace)

    def _delete_claim(self) -> None:
        claims = self._shared_claims()
        if claims:
            metadata = self._random.choice(claims).metadata
            self._cluster.remove(ResourceClaim, metadata.name, metadata.namespace)
            self._troubles["claims deleted"] += 1

    def _publish(self, pool: tuple[str, str]) -> None:
        for each in self._pools[pool]:
            self._cluster.put(each)

    def _publish_one_by_one(self, pool: tuple[str, str]) -> None:
        """Publish one slice now, and the rest in a while: until then the pool is incomplete."""
        self._cluster.put(self._random.choice(self._pools[pool]))
        asyncio.get_running_loop().call_later(self._random.uniform(0.0, PUBLISHED), self._publish, pool)

    def _any_pool(self) -> tuple[str, str]:
        return self._random.choice(list(self._pools))

    def _publish_generation(self) -> None:
        """Begin a generation: with fewer devices, or all of them again, where they do not share counters."""
        pool = self._any_pool()
        self._begin_generation(pool, fewer=0 if pool[0] == PARTITIONED else self._random.choice([0, 0, 1]))
        self._publish_one_by_one(pool)
        self._troubles["pools published anew"] += 1

    def _begin_generation(self, pool: tuple[str, str], *, fewer: int) -> None:
        generation = self._pools[pool][0].spec.pool.generation + 1
        self._pools[pool] = tuple(_of_generation(each, generation, fewer) for each in self._whole[pool])

    def _taint(self) -> None:
        """Taint a device of a pool, every other time by a rule, or take all taints away there."""
        pool = self._any_pool()
        rule = _rule(pool, self._pools[pool][0].spec.devices)
        if self._cluster.find(DeviceTaintRule, rule.metadata.name) is not None:
            self._cluster.remove(DeviceTaintRule, rule.metadata.name)
        elif self._troubles["devices tainted"] > self._troubles["devices tainted by rules"]:
            self._cluster.add(rule)
            self._troubles["devices tainted by rules"] += 1
        elif any(device.taints for each in self._pools[pool] for device in each.spec.devices):
            self._pools[pool] = tuple(map(_untainted, self._pools[pool]))
        else:
            self._pools[pool] = tuple(map(_tainted, self._pools[pool]))
            self._troubles["devices tainted"] += 1
        self._publish(pool)

    def _withdraw(self) -> None:
        pool = self._any_pool()
        for each in self._pools[pool]:
            if self._cluster.find(ResourceSlice, each.metadata.name) is not None:
                self._cluster.remove(ResourceSlice, each.metadata.name)
        self._troubles["pools withdrawn"] += 1

    def _restore(self) -> None:
        self._publish_one_by_one(self._any_pool())

    def _delete_class(self) -> None:
        name = self._random.choice(self._classes).metadata.name
        if self._cluster.find(DeviceClass, name) is not None:
            self._cluster.remove(DeviceClass, name)
            self._troubles["classes deleted"] += 1

    def _restore_classes(self) -> None:
        for each in self._classes:
            self._cluster.put(each)

    def _allocated(self, change: Change) -> None:
        """Make devices ready in a while that were allocated now."""
        old, new = change.old, change.new
        if not isinstance(new, ResourceClaim) or new.status.allocation is None:
            return
        is_new = not isinstance(old, ResourceClaim) or old.status.allocation is None
        if is_new and any(each.binding_conditions for each in new.status.allocation.devices.results):
            asyncio.get_running_loop().call_later(self._random.uniform(0.0, READY), self._report_status, new)

    def _report_status(self, claim: ResourceClaim) -> None:
        """Tell of the devices of a claim that they are ready, or will not be; nothing if it has given them back."""
        metadata = claim.metadata
        now = self._cluster.find(ResourceClaim, metadata.name, metadata.namespace)
        if now is None or now.metadata.uid != metadata.uid or now.status.allocation != claim.status.allocation:
            return
        condition = "Failed" if self.may_fail and self._random.random() < 0.2 else "Ready"
        self._troubles[f"devices {condition.lower()}"] += 1
        told = [
            {
                **{"driver": each.driver, "pool": each.pool, "device": each.device, "shareID": each.share_id},
                "conditions": [{"type": condition, "status": "True", "reason": "Wired", "message": ""}],
            }
            for each in claim.status.allocation.devices.results  # type: ignore[union-attr]  # it was allocated
            if each.binding_conditions
        ]
        self._cluster.merge(ResourceClaim, metadata.name, {"status": {"devices": told}}, metadata.namespace)


def _exactly(device_class: str, **said: object) -> _Written:
    return {"deviceClassName": device_class, **said}


#: What claims ask for, by the names of templates.
_ASKED: dict[str, list[_Written]] = {
    "one": [{"name": "r", "exactly": _exactly("gpu")}],
    "two": [{"name": "r", "exactly": _exactly("gpu", count=2)}],
    "all": [{"name": "r", "exactly": _exactly("gpu", allocationMode="All")}],
    "tolerant": [{"name": "r", "exactly": _exactly("gpu", tolerations=[{"operator": "Exists"}])}],
    "admin": [{"name": "r", "exactly": _exactly("gpu", adminAccess=True)}],
    "part": [{"name": "r", "exactly": _exactly("part")}],
    "parts": [{"name": "r", "exactly": _exactly("part", count=2)}],
    "share": [{"name": "r", "exactly": _exactly("share", capacity={"requests": {"memory": "3Gi"}})}],
    "net": [{"name": "r", "exactly": _exactly("net")}],
    "fabric": [{"name": "r", "exactly": _exactly("fabric")}],
    "both": [{"name": "gpu", "exactly": _exactly("gpu")}, {"name": "net", "exactly": _exactly("net")}],
    "either": [{"name": "r", "firstAvailable": [_exactly("gpu", name="gpus", count=2), _exactly("part", name="part")]}],
}

#: What can be had beside any of them.
_BESIDE = ("admin", "share", "net")


def _object(kind: type[K], name: str, spec: object) -> K:
    metadata = {"name": name} | ({"namespace": "default"} if kind in (ResourceClaim, ResourceClaimTemplate) else {})
    return msgspec.convert({"metadata": metadata, "spec": spec}, kind)


def _class(name: str) -> DeviceClass:
    spec: _Written = {"selectors": [{"cel": {"expression": f"device.driver == '{name}.example.com'"}}]}
    return _object(DeviceClass, name, spec | ({"extendedResourceName": BACKED} if name == "gpu" else {}))


def _template(name: str, *requests: _Written) -> ResourceClaimTemplate:
    return _object(ResourceClaimTemplate, name, {"spec": {"devices": {"requests": requests}}})


def _pools(nodes: Sequence[Node]) -> list[tuple[ResourceSlice, ...]]:
    """Make pools for each node: whole devices, partitions of one, a shared one; and what is reached from more nodes."""
    pools = []
    for node in nodes:
        name = node.metadata.name
        here: _Written = {"nodeName": name}
        counters = [{"name": "card", "counters": {"memory": {"value": "4"}}}]
        parts = [_partition(f"part-{size}-{n}", size) for size in (1, 2, 4) for n in range(4 // size)]
        capacity = {"memory": {"value": "8Gi"}}
        shares = [{"name": "shared", "allowMultipleAllocations": True, "capacity": capacity}]
        pools += [
            _pool("gpu", name, {"devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]} | here),
            _pool("part", name, {"sharedCounters": counters} | here, {"devices": parts} | here),
            _pool("share", name, {"devices": shares} | here),
        ]
    for zone in "abc":
        terms = [{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]
        selected: _Written = {"nodeSelector": {"nodeSelectorTerms": terms}}
        pools.append(_pool("net", f"zone-{zone}", {"devices": [{"name": "net-0"}, {"name": "net-1"}]} | selected))
    wired = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"]}
    fabric = [{"name": f"port-{n}", **wired} for n in range(3)]
    return [*pools, _pool("fabric", "everywhere", {"devices": fabric, "allNodes": True})]


def _partition(name: str, size: int) -> _Written:
    return {
        "name": name,
        "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": str(size)}}}],
    }


def _pool(driver: str, name: str, *specs: _Written) -> tuple[ResourceSlice, ...]:
    pool = {"name": name, "generation": 1, "resourceSliceCount": len(specs)}
    said = {"driver": f"{driver}.example.com", "pool": pool}
    return tuple(_object(ResourceSlice, f"{driver}-{name}-{n}", said | spec) for n, spec in enumerate(specs))


def _with_devices(published: ResourceSlice, devices: Sequence[Device]) -> ResourceSlice:
    return replace(published, spec=replace(published.spec, devices=tuple(devices)))


def _of_generation(published: ResourceSlice, generation: int, fewer: int) -> ResourceSlice:
    spec = published.spec
    spec = replace(spec, pool=replace(spec.pool, generation=generation))
    return _with_devices(replace(published, spec=spec), spec.devices[: len(spec.devices) - fewer])


def _rule(pool: tuple[str, str], devices: Sequence[Device]) -> DeviceTaintRule:
    driver, name = pool
    selector = DeviceTaintSelector(driver=driver, pool=name, device=devices[0].name if devices else None)
    spec = DeviceTaintRuleSpec(
        device_selector=selector, taint=DeviceTaint(key="example.com/broken", effect="NoExecute")
    )
    return DeviceTaintRule(metadata=ObjectMeta(name=f"{driver}.{name}"), spec=spec)


def _tainted(published: ResourceSlice) -> ResourceSlice:
    taint = DeviceTaint(key="example.com/broken", effect="NoSchedule")
    first, rest = published.spec.devices[:1], published.spec.devices[1:]
    return _with_devices(published, [*(replace(each, taints=(taint,)) for each in first), *rest])


def _untainted(published: ResourceSlice) -> ResourceSlice:
    return _with_devices(published, [replace(each, taints=()) for each in published.spec.devices])


def _with_claims(pod: Pod, claims: Sequence[PodResourceClaim]) -> Pod:
    return replace(pod, spec=replace(pod.spec, resource_claims=tuple(claims)))
