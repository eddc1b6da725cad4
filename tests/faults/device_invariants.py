"""What must hold of devices: at every write of a claim and every binding, and when all is over."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from kframework.core.pod_engine import PodEngine
from kframework.in_memory.claim_controller import is_pod_done
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import (
    ApiObject,
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
from kframework.objects.resource_claims import EXTENDED_RESOURCE_CLAIM
from kframework.plugins.dynamic_resources.allocated import results_of
from kframework.plugins.dynamic_resources.plugin import DynamicResources
from kframework.plugins.dynamic_resources.slices import DeviceId
from kframework.scheduler.scheduler import Scheduler
from tests.faults.scheduler_run import SchedulerRun

__all__ = ["DeviceChecker"]

#: How long it is from one look at pods that wait to the next, in seconds.
CHECK_INTERVAL = 7.0

Result = DeviceRequestAllocationResult


class DeviceChecker:
    """Who has which device, and what drivers said of it last: in the world that is kept here, that never changes."""

    def __init__(self, cluster: MemoryCluster, lives: Sequence[SchedulerRun[PodEngine]]) -> None:
        self.problems: list[str] = []
        self._cluster = cluster
        self._lives = lives
        self._devices: dict[DeviceId, Device] = {}
        self._counters: dict[tuple[str, str], Counter[tuple[str, str]]] = {}
        self._had: dict[DeviceId, dict[str, list[Result]]] = {}
        #: The pods that have got a node, by their uids.
        self._ran: set[str] = set()
        cluster.subscribe([ResourceSlice], self._published)
        cluster.subscribe([ResourceClaim], self._written)
        cluster.subscribe([Pod], self._bound)

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
            for device, _ in _devices_of(old):
                self._had[device].pop(old.metadata.uid, None)
        if not isinstance(new, ResourceClaim):
            return
        self.problems += self._unreleased_devices(old, new)
        for device, result in _devices_of(new):
            self._had.setdefault(device, {}).setdefault(new.metadata.uid, []).append(result)
        if not isinstance(old, ResourceClaim) or results_of(old) != results_of(new):
            for device in dict.fromkeys(device for device, _ in _devices_of(new)):
                self.problems += (f"{what}, by {new.metadata.name}" for what in self._device_problems(device))

    def _unreleased_devices(self, old: ApiObject | None, new: ResourceClaim) -> Iterator[str]:
        """List claims that keep devices without a user; a pod may get back what it released before it was bound."""
        if isinstance(old, ResourceClaim) and new.status.allocation is not None and not new.status.reserved_for:
            for user in old.status.reserved_for:
                if user.uid in self._ran:
                    yield f"{new.metadata.name} keeps the devices of {user.name}"

    def _device_problems(self, device: DeviceId) -> Iterator[str]:
        """Describe what must not be true of a device in use."""
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

    def _bound(self, change: Change) -> None:
        old, new = change.old, change.new
        if isinstance(new, Pod) and isinstance(old, Pod) and new.spec.node_name and not old.spec.node_name:
            self._ran.add(new.metadata.uid)
            self.problems += self._claim_problems(new)

    def _claim_problems(self, pod: Pod) -> Iterator[str]:
        """Say which claims of a pod it has not, or not where it is."""
        name, node = pod.metadata.name, self._cluster.find(Node, pod.spec.node_name)
        for claim_name in _claim_names(pod):
            claim = self._cluster.find(ResourceClaim, claim_name, pod.metadata.namespace)
            if claim is None or claim.status.allocation is None:
                yield f"{name} is bound without devices for {claim_name}"
                continue
            if all(each.uid != pod.metadata.uid for each in claim.status.reserved_for):
                yield f"{name} is bound though {claim_name} is not reserved for it"
            selector = claim.status.allocation.node_selector
            if node is not None and selector is not None and not _reaches(node, selector):
                yield f"{name} is bound to {node.metadata.name}, which does not reach the devices of {claim_name}"

    async def run(self) -> None:
        """Look again and again whether pods that wait have given back what was reserved for them.

        That holds where one scheduler lives all the time: what another one has reserved it does not take back.
        """
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            differences = self._still_reserved(self._lives[-1].scheduler)
            self.problems += (each for each in differences if each not in self.problems)

    def _still_reserved(self, scheduler: Scheduler) -> Iterator[str]:
        """List the claims reserved for pods without a node, though no write of that is pending."""
        writes = [each._writes for _, each in scheduler.profiles.plugins() if isinstance(each, DynamicResources)]
        waiting = {queued.pod.uid for queued in scheduler.engine.queue}
        waiting -= {pod.metadata.uid for pod in self._cluster.objects(Pod) if pod.spec.node_name}
        for claim in self._cluster.objects(ResourceClaim):
            is_written = any(claim.metadata.uid in each._turns for each in writes)
            # Those for extended resources are deleted, at the latest when the pod is tried again.
            if not is_written and EXTENDED_RESOURCE_CLAIM not in claim.metadata.annotations:
                for user in claim.status.reserved_for:
                    if user.uid in waiting:
                        yield f"{claim.metadata.name} is reserved for {user.name}, which waits"

    def leftovers(self, scheduler: Scheduler) -> Iterator[str]:
        """Describe what is left over, and which pods wait, though all devices are free."""
        pods = {pod.metadata.uid: pod for pod in self._cluster.objects(Pod) if not is_pod_done(pod)}
        for claim in self._cluster.objects(ResourceClaim):
            yield from _claim_leftovers(claim, pods.keys())
        for _, plugin in scheduler.profiles.plugins():
            if isinstance(plugin, DynamicResources):
                yield from self._allocation_differences(plugin)
        for queued in scheduler.engine.queue:
            pod = pods.get(queued.pod.uid)
            if queued.pod.group:
                continue  # it may wait for the others of its group
            if pod is not None and DynamicResources.name in queued.rejectors and self._has_its_claims(pod):
                yield f"{queued.pod.name} waits for devices that nobody has"

    def _allocation_differences(self, plugin: DynamicResources) -> Iterator[str]:
        """Say how what the plugin counts differs from what claims have."""
        allocated = plugin.devices.allocated
        if allocated._pending:
            yield f"allocations are pending: {allocated._pending}"
        for device in self._devices:
            in_use = bool(self._had.get(device))
            if allocated.is_in_use(device) != in_use:
                yield f"{device} is {'in use' if in_use else 'free'}, which the scheduler does not know"

    def _has_its_claims(self, pod: Pod) -> bool:
        """Whether a pod's claims are there, as far as they are known."""
        claims = (self._cluster.find(ResourceClaim, name, pod.metadata.namespace) for name in _claim_names(pod))
        return all(claim is not None and claim.metadata.deletion_timestamp is None for claim in claims)


def _reaches(node: Node, selector: NodeSelector) -> bool:
    return node_predicate(selector)(node.metadata.labels, node.metadata.name)


def _devices_of(claim: ResourceClaim) -> Iterator[tuple[DeviceId, Result]]:
    """Yield the devices that a claim has, but not those that it only administers."""
    for result in results_of(claim):
        if not result.admin_access:
            yield DeviceId(result.driver, result.pool, result.device), result


def _claim_names(pod: Pod) -> Iterator[str]:
    """Yield the names of a pod's claims, as far as they are known."""
    yield from (each.resource_claim_name for each in pod.spec.resource_claims if each.resource_claim_name is not None)
    yield from (each.resource_claim_name for each in pod.status.resource_claim_statuses if each.resource_claim_name)
    if pod.status.extended_resource_claim_status is not None:
        yield pod.status.extended_resource_claim_status.resource_claim_name


def _claim_leftovers(claim: ResourceClaim, pods: Collection[str]) -> Iterator[str]:
    """Say what a claim keeps though those pods are gone for whom it did."""
    name, metadata = claim.metadata.name, claim.metadata
    yield from (
        f"{name} is reserved for {each.name}, which is gone"
        for each in claim.status.reserved_for
        if each.uid not in pods
    )
    if any(owner.uid not in pods for owner in metadata.owner_references):
        yield f"{name} outlives its pod"
