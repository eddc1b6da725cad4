"""What must hold of devices: at every write of a claim and every binding, and when all is over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from kframework.cluster.claim_controller import is_done
from kframework.cluster.kind_store import Change
from kframework.cluster.memory import MemoryCluster
from kframework.objects import (
    Device,
    DeviceRequestAllocationResult,
    Node,
    NodeSelector,
    Pod,
    ResourceClaim,
    ResourceSlice,
)
from kframework.objects.node_selectors import node_predicate
from kframework.objects.quantity import nano
from kframework.plugins.dynamic_resources.allocated import results_of
from kframework.plugins.dynamic_resources.plugin import DynamicResources
from kframework.plugins.dynamic_resources.slices import DeviceId
from kframework.scheduler.scheduler import Scheduler
from tests.faults.devices import BACKED

__all__ = ["DeviceBooks"]

Result = DeviceRequestAllocationResult


class DeviceBooks:
    """Who has which device, and what drivers said of it last: in the world that is kept here, that never changes."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.complaints: list[str] = []
        self._cluster = cluster
        self._devices: dict[DeviceId, Device] = {}
        self._counters: dict[tuple[str, str], Counter[tuple[str, str]]] = {}
        self._had: dict[DeviceId, dict[str, list[Result]]] = {}
        cluster.subscribe([ResourceSlice], self._published)
        cluster.subscribe([ResourceClaim], self._written)
        cluster.subscribe([Pod], self._bound)

    # -- devices -------------------------------------------------------------------------------------------------------

    def _published(self, change: Change) -> None:
        if isinstance(change.new, ResourceSlice):
            spec = change.new.spec
            self._devices |= {DeviceId(spec.driver, spec.pool.name, device.name): device for device in spec.devices}
            for each in spec.shared_counters:
                there = {(each.name, name): nano(counter.value) for name, counter in each.counters.items()}
                self._counters.setdefault((spec.driver, spec.pool.name), Counter()).update(there)

    def _written(self, change: Change) -> None:
        old, new = change.old, change.new
        if isinstance(old, ResourceClaim):
            for device, _ in _held(old):
                self._had[device].pop(old.metadata.uid, None)
        if not isinstance(new, ResourceClaim):
            return
        for device, result in _held(new):
            self._had.setdefault(device, {}).setdefault(new.metadata.uid, []).append(result)
        if not isinstance(old, ResourceClaim) or results_of(old) != results_of(new):
            for device in dict.fromkeys(device for device, _ in _held(new)):
                self.complaints += (f"{what}, by {new.metadata.name}" for what in self._wrong(device))

    def _wrong(self, device: DeviceId) -> Iterator[str]:
        """Say what must not be of a device that somebody has now."""
        results = [result for of_claim in self._had[device].values() for result in of_claim]
        whole = [result for result in results if result.share_id is None]
        if whole and len(results) > 1:
            yield f"{device} was given {len(results)} times, {len(whole)} times as a whole"
        consumed = Counter[str]()
        for result in results:
            consumed.update({name: nano(amount) for name, amount in result.consumed_capacity.items()})
        for name, capacity in self._devices[device].capacity.items():
            if consumed[name] > nano(capacity.value):
                yield f"{device} has {capacity.value} of {name}, of which too much is consumed"
        taken = self._taken(device[:2])
        for counter, there in self._counters.get(device[:2], Counter()).items():
            if taken[counter] > there:
                yield f"too much of {counter} of the pool {device[:2]} is taken"

    def _taken(self, pool: tuple[str, str]) -> Counter[tuple[str, str]]:
        taken = Counter[tuple[str, str]]()
        for device, had in self._had.items():
            if device[:2] == pool and had:
                for each in self._devices[device].consumes_counters:
                    taken.update({(each.counter_set, name): nano(of.value) for name, of in each.counters.items()})
        return taken

    # -- pods ----------------------------------------------------------------------------------------------------------

    def _bound(self, change: Change) -> None:
        old, new = change.old, change.new
        if isinstance(new, Pod) and isinstance(old, Pod) and new.spec.node_name and not old.spec.node_name:
            self.complaints += self._unready(new)

    def _unready(self, pod: Pod) -> Iterator[str]:
        """Say which claims of a pod it has not, or not where it is."""
        name, node = pod.metadata.name, self._cluster.find(Node, pod.spec.node_name)
        for claim_name in _named(pod):
            claim = self._cluster.find(ResourceClaim, claim_name, pod.metadata.namespace)
            if claim is None or claim.status.allocation is None:
                yield f"{name} is bound without devices for {claim_name}"
                continue
            if all(each.uid != pod.metadata.uid for each in claim.status.reserved_for):
                yield f"{name} is bound though {claim_name} is not reserved for it"
            selector = claim.status.allocation.node_selector
            if node is not None and selector is not None and not _reaches(node, selector):
                yield f"{name} is bound to {node.metadata.name}, which does not reach the devices of {claim_name}"

    # -- when all is over ----------------------------------------------------------------------------------------------

    def leftovers(self, scheduler: Scheduler) -> Iterator[str]:
        """Say what was left behind, and who waits, though nobody has anything any more."""
        pods = {pod.metadata.uid: pod for pod in self._cluster.objects(Pod) if not is_done(pod)}
        for claim in self._cluster.objects(ResourceClaim):
            yield from _kept(claim, pods.keys())
        for _, plugin in scheduler.profiles.plugins():
            if isinstance(plugin, DynamicResources):
                yield from self._unlike(plugin)
        yield from (
            f"{pod.metadata.name} waits for devices that nobody has" for pod in pods.values() if self._waits(pod)
        )

    def _unlike(self, plugin: DynamicResources) -> Iterator[str]:
        """Say how what the plugin counts differs from what claims have."""
        allocated = plugin.devices.allocated
        if allocated._pending:
            yield f"allocations are pending: {allocated._pending}"
        for device in self._devices:
            in_use = bool(self._had.get(device))
            if allocated.is_in_use(device) != in_use:
                yield f"{device} is {'in use' if in_use else 'free'}, which the scheduler does not know"

    def _waits(self, pod: Pod) -> bool:
        """Whether a pod waits that can have its devices, as far as its claims are there."""
        claims = (self._cluster.find(ResourceClaim, name, pod.metadata.namespace) for name in _named(pod))
        there = all(claim is not None and claim.metadata.deletion_timestamp is None for claim in claims)
        return not pod.spec.node_name and there and _asks_for_devices(pod)


def _reaches(node: Node, selector: NodeSelector) -> bool:
    return node_predicate(selector)(node.metadata.labels, node.metadata.name)


def _asks_for_devices(pod: Pod) -> bool:
    return bool(pod.spec.resource_claims) or any(BACKED in each.resources.requests for each in pod.spec.containers)


def _held(claim: ResourceClaim) -> Iterator[tuple[DeviceId, Result]]:
    """Yield the devices that a claim has, but not those that it only administers."""
    for result in results_of(claim):
        if not result.admin_access:
            yield DeviceId(result.driver, result.pool, result.device), result


def _named(pod: Pod) -> Iterator[str]:
    """Yield the names of a pod's claims, as far as they are known."""
    yield from (each.resource_claim_name for each in pod.spec.resource_claims if each.resource_claim_name is not None)
    yield from (each.resource_claim_name for each in pod.status.resource_claim_statuses if each.resource_claim_name)
    if pod.status.extended_resource_claim_status is not None:
        yield pod.status.extended_resource_claim_status.resource_claim_name


def _kept(claim: ResourceClaim, pods: Collection[str]) -> Iterator[str]:
    """Say what a claim keeps though those pods are gone for whom it did."""
    name, metadata = claim.metadata.name, claim.metadata
    yield from (
        f"{name} is reserved for {each.name}, which is gone"
        for each in claim.status.reserved_for
        if each.uid not in pods
    )
    if claim.status.allocation is not None and not claim.status.reserved_for:
        yield f"{name} has devices, and nobody uses it"
    if any(owner.uid not in pods for owner in metadata.owner_references):
        yield f"{name} outlives its pod"
