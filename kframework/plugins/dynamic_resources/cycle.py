"""The claims of one pod in one scheduling cycle: the nodes where they can be used, and their devices there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from itertools import chain
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kframework.framework.cycle_state import CycleState, StateKey
from kframework.objects import (
    AllocationResult,
    ContainerExtendedResourceRequest,
    DeviceClaim,
    DeviceRequestAllocationResult,
    ObjectMeta,
    OwnerReference,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
)
from kframework.objects.requests import is_scalar
from kframework.objects.resource_claims import DELETE_PROTECTION, EXTENDED_RESOURCE_CLAIM
from kframework.plugins.dynamic_resources.allocated import results_of
from kframework.plugins.dynamic_resources.allocator import Allocations, BudgetExceeded, ChosenDevice
from kframework.plugins.dynamic_resources.devices import Devices
from kframework.plugins.dynamic_resources.errors import InvalidPools
from kframework.plugins.dynamic_resources.extended_resources import (
    BackedResources,
    DeviceRequests,
    replace_extended_resources,
)
from kframework.plugins.dynamic_resources.feasibility import (
    FITS,
    INVALID_POOLS,
    RANKS,
    TIMED_OUT,
    TOO_FEW,
    Feasibilities,
    Feasibility,
    Measure,
    StepBudget,
    rank,
)
from kframework.plugins.dynamic_resources.requests import claims_options
from kframework.plugins.dynamic_resources.results import build_allocation
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.selection import match_terms
from kframework.values.scores import Rows, Scores

# Reasons to reject a node besides the results of its search.
UNAVAILABLE, CANNOT_FIT, LEFTOVER = range(8, 11)

UNAVAILABLE_REASON = "resourceclaim not available on the node"

Ints = NDArray[np.int64]

#: The name of the claim for extended resources before it is created.
UNCREATED = "<extended-resources>"


class ClaimAllocation(msgspec.Struct, frozen=True):
    """A claim, and its new allocation, None if it is allocated already; the PodGroup if it is reserved for that."""

    claim: ResourceClaim
    allocation: AllocationResult | None
    group: ResourceClaimConsumerReference | None = None

    @property
    def allocated_claim(self) -> ResourceClaim:
        metadata = self.claim.metadata
        finalizers = tuple(dict.fromkeys((*metadata.finalizers, DELETE_PROTECTION)))
        status = replace(self.claim.status, allocation=self.allocation)
        return replace(self.claim, metadata=replace(metadata, finalizers=finalizers), status=status)


class ExtendedResources(NamedTuple):
    """The extended resources that a pod requests: those backed by classes, and others."""

    backed: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


_NO_DEVICES = ExtendedResources()
_NO_GROUPS: Mapping[str, ResourceClaimConsumerReference] = {}


def extended_resources(pod: PodInfo, classes: BackedResources) -> ExtendedResources:
    """Return which of a pod's extended resources may be devices; empty if none may."""
    template = pod.template
    scalars = template.cached(
        extended_resources, lambda spec: [name for name, n in template.fit if n and is_scalar(name)]
    )
    backed = tuple([name for name in scalars if classes.class_for(name) is not None]) if scalars else ()
    return ExtendedResources(backed, tuple(set(scalars).difference(backed))) if backed else _NO_DEVICES


class ClaimsInCycle:
    """The claims of a pod, in one cycle.

    `leftover` is the claim that an earlier attempt created for extended resources. `unready` are the claims whose
    devices were not ready in time. Those that another pod of the PodGroup got in the same walk count as allocated.
    `groups` has the PodGroup by the names of the claims that are reserved for it.
    """

    def __init__(
        self,
        devices: Devices,
        feasibilities: Feasibilities,
        classes: BackedResources,
        pod: PendingPod,
        claims: Sequence[ResourceClaim],
        *,
        leftover: ResourceClaim | None = None,
        unready: Collection[ResourceClaim] = (),
        group_state: CycleState | None = None,
        groups: Mapping[str, ResourceClaimConsumerReference] = _NO_GROUPS,
    ) -> None:
        self.pod = pod
        self.leftover = leftover
        self._devices = devices
        self._group_state = group_state
        self._groups = groups
        self._stored = claims
        self.claims: Sequence[ResourceClaim] = [self._with_shared_allocation(claim) for claim in claims]
        self._feasibilities = feasibilities
        self._classes = classes
        self._unready = unready
        self._unallocated = [claim for claim in self.claims if claim.status.allocation is None]
        self._feasibility: Feasibility | None = None  # of those that are not allocated
        self._extended = extended_resources(pod, classes)
        self._step_budget = StepBudget(feasibilities.budget)
        #: The claims for extended resources, by the resources that would be devices.
        self._extended_claims: dict[tuple[str, ...], ResourceClaim] = {}
        #: The claims of pods that a what-if has removed, by the pods' uids.
        self._removed: dict[str, Sequence[ResourceClaim]] = {}

    def _with_shared_allocation(self, claim: ResourceClaim) -> ResourceClaim:
        allocation = self._devices.allocated.shared_allocation(claim, self._group_state)
        return claim if allocation is None else replace(claim, status=replace(claim.status, allocation=allocation))

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def rejections(self, nodes: NodeTable, rows: Rows) -> Scores:
        """Return the rejection of each row, FITS for none; AllocationError for an invalid claim."""
        row_numbers = rows if isinstance(rows, np.ndarray) else np.arange(nodes.capacity)[rows]
        if self.leftover is not None:
            return np.full(len(row_numbers), LEFTOVER)
        if not self._extended.backed:
            rejections = self._search_rows(self._unallocated, nodes, row_numbers)
        else:
            rejections = np.full(len(row_numbers), FITS)
            for resources, positions in self._by_resources(nodes, row_numbers):
                rejections[positions] = self._search_rows(self._claims_for(resources), nodes, row_numbers[positions])
        for claim in self.claims:
            if claim.status.allocation is not None:
                rejections[(rejections == FITS) & ~self._is_usable_on(claim, nodes, row_numbers)] = UNAVAILABLE
        if self._extended.others:
            rejections[self._positions_lacking(nodes, row_numbers)] = CANNOT_FIT
        return rejections

    def _by_resources(self, nodes: NodeTable, rows: Ints) -> Iterator[tuple[tuple[str, ...], Ints]]:
        """Group the positions of rows by the extended resources that must be devices there: those not offered."""
        backed = self._extended.backed
        if not backed:
            yield (), np.arange(len(rows))
            return
        missing = np.array([nodes.allocatable(resource)[rows] == 0 for resource in backed]).reshape(-1, len(rows))
        # A scalar filter passes one row, for which sorting would take twice as long as the answer.
        for kind in missing.T if len(rows) == 1 else np.unique(missing, axis=1).T:
            positions = np.flatnonzero((missing.T == kind).all(axis=1))
            yield tuple(name for name, is_missing in zip(backed, kind.tolist(), strict=True) if is_missing), positions

    def _search_rows(self, claims: Sequence[ResourceClaim], nodes: NodeTable, rows: Ints) -> Scores:
        if not claims:
            return np.full(len(rows), FITS)
        released = self._released_devices() if self._removed else ()
        if not released:
            return self._feasibility_of(claims).check_rows(rows, self._step_budget)
        allocated = self._devices.as_if_released(released)
        return np.array([self._search_node(claims, nodes[row], allocated) for row in rows.tolist()], np.int64)

    def _feasibility_of(self, claims: Sequence[ResourceClaim]) -> Feasibility:
        """Return the cached search results of claims; those of the pod's own are looked up once."""
        if claims is not self._unallocated:
            return self._feasibilities.for_claims(claims)
        if self._feasibility is None:
            self._feasibility = self._feasibilities.for_claims(claims)
        return self._feasibility

    def _released_devices(self) -> list[DeviceRequestAllocationResult]:
        """Return the devices released by pods that a what-if has removed: those of claims without other users."""
        claims = {claim.metadata.uid: claim for claim in chain.from_iterable(self._removed.values())}
        return [
            result
            for claim in claims.values()
            if all(user.uid in self._removed for user in claim.status.reserved_for)
            for result in results_of(claim)
        ]

    def _search_node(self, claims: Sequence[ResourceClaim], node: NodeInfo, allocated: Allocations) -> int:
        if self._step_budget.is_exhausted:
            return TIMED_OUT
        try:
            return TOO_FEW if self._search(claims, node, allocated) is None else FITS
        except BudgetExceeded:
            self._step_budget.is_exhausted = True
            return TIMED_OUT
        except InvalidPools:
            return INVALID_POOLS

    def _is_usable_on(self, claim: ResourceClaim, nodes: NodeTable, rows: Ints) -> NDArray[np.bool_]:
        """Return a mask of the rows where an allocated claim can be used; all if it is not allocated."""
        allocation = claim.status.allocation
        if any(claim is each for each in self._unready):
            return np.zeros(len(rows), dtype=np.bool_)
        if allocation is None or allocation.node_selector is None:
            return np.ones(len(rows), dtype=np.bool_)
        return match_terms(nodes, allocation.node_selector.node_selector_terms, rows)

    def _positions_lacking(self, nodes: NodeTable, rows: Ints) -> list[int]:
        """Return the positions of rows without an extended resource that no class backs."""
        others = set(self._extended.others)
        some_missing = np.array([nodes.allocatable(resource)[rows] == 0 for resource in sorted(others)]).any(axis=0)
        positions: list[int] = np.flatnonzero(some_missing).tolist()
        return [
            position
            for position in positions
            if not others <= nodes[int(rows[position])].object.status.allocatable.keys()
        ]

    def unusable_claims(self, nodes: NodeTable, rows: Ints) -> list[ResourceClaim]:
        """Return the claims allocated in the cluster that cannot be used on some of these rows."""
        return [claim for claim in self._stored if not self._is_usable_on(claim, nodes, rows).all()]

    @property
    def has_alternatives(self) -> bool:
        return any(request.first_available for claim in self.claims for request in claim.spec.devices.requests)

    @property
    def requests_devices(self) -> bool:
        """Whether devices are to be allocated, on some nodes at least."""
        return bool(self._unallocated or self._extended.backed)

    def ranks(self, nodes: NodeTable, rows: Rows) -> Scores:
        """Return for each row the rank of the alternatives that the claims have, or would get there."""
        return self.measure_rows(rank, nodes, rows, sum(map(_rank, self.claims)))

    def measure_rows(self, measure: Measure, nodes: NodeTable, rows: Rows, extra: int = 0) -> Scores:
        """Return for each row the measure of the devices that would be allocated, plus `extra`; 0 if none."""
        row_numbers = rows if isinstance(rows, np.ndarray) else np.arange(nodes.capacity)[rows]
        results = np.zeros(len(row_numbers), dtype=np.int64)
        for resources, positions in self._by_resources(nodes, row_numbers):
            claims = self._claims_for(resources)
            if claims:
                feasibility = self._feasibility_of(claims)
                results[positions] = (
                    feasibility.measure_rows(measure, row_numbers[positions], self._step_budget) + extra
                )
        return results

    # -- one node ------------------------------------------------------------------------------------------------------

    def allocate(self, node: NodeInfo, share_id: Callable[[], str]) -> list[ClaimAllocation] | None:
        """Return the allocations of the claims on a node, including existing ones; None if it is impossible.

        AllocationError for an invalid claim, and if the search took too many steps.
        """
        claims = self.claims_to_allocate(node)
        chosen_by_claim = self._feasibility_of(claims).chosen_devices(node) if claims else []
        if chosen_by_claim is None:
            # There is no allocation, or else this raises the error.
            chosen_by_claim = self.search(node)
        if chosen_by_claim is None:
            return None
        allocations: dict[str, AllocationResult | None] = {
            claim.metadata.name: build_allocation(claim, chosen, node.name, share_id, self._devices.gates)
            for claim, chosen in zip(claims, chosen_by_claim, strict=True)
        }
        extended_claims = [claim for claim in claims if claim.metadata.name == UNCREATED]
        for stored, claim in zip(self._stored, self.claims, strict=True):
            if claim is not stored:
                shared = self._devices.allocated.shared_allocation(stored, self._group_state)
                allocations[stored.metadata.name] = shared or claim.status.allocation
        return [
            ClaimAllocation(claim, allocations.get(claim.metadata.name), self._groups.get(claim.metadata.name))
            for claim in (*self._stored, *extended_claims)
        ]

    def search(self, node: NodeInfo) -> Sequence[Sequence[ChosenDevice]] | None:
        """Search for devices on a node; None if impossible, AllocationError as in `allocate`."""
        return self._search(self.claims_to_allocate(node), node, self._devices.allocated)

    def claims_to_allocate(self, node: NodeInfo) -> list[ResourceClaim]:
        """Return the claims that are to get devices on a node, the one for extended resources among them."""
        return self._claims_for(self._resources_as_devices(node))

    def _search(
        self, claims: Sequence[ResourceClaim], node: NodeInfo, allocated: Allocations
    ) -> Sequence[Sequence[ChosenDevice]] | None:
        devices = self._devices
        options = claims_options(claims, devices.classes)
        pools = devices.pools_of(node)
        search = devices.search(claims, options, node, pools, allocated)
        try:
            return search.run(self._feasibilities.budget)
        finally:
            self._step_budget.spend(search.steps)

    def _resources_as_devices(self, node: NodeInfo) -> tuple[str, ...]:
        return tuple(name for name in self._extended.backed if node.allocatable(name) == 0)

    def _claims_for(self, resources: tuple[str, ...]) -> list[ResourceClaim]:
        if not resources:
            return self._unallocated
        claim = self._extended_claims.get(resources)
        if claim is None:
            pod, requests = self.pod, self._device_requests(resources).requests
            owner = OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True)
            metadata = ObjectMeta(
                name=UNCREATED,
                namespace=pod.namespace,
                uid=pod.uid,
                generate_name=f"{pod.name}-extended-resources-",
                owner_references=(owner,),
                annotations={EXTENDED_RESOURCE_CLAIM: "true"},
            )
            spec = ResourceClaimSpec(devices=DeviceClaim(requests=requests))
            claim = self._extended_claims[resources] = ResourceClaim(metadata=metadata, spec=spec)
        return [*self._unallocated, claim]

    def mappings(self, node: NodeInfo) -> tuple[ContainerExtendedResourceRequest, ...]:
        resources = self._resources_as_devices(node)
        return self._device_requests(resources).mappings if resources else ()

    def _device_requests(self, resources: tuple[str, ...]) -> DeviceRequests:
        return replace_extended_resources(self.pod.spec, resources, self._classes)

    def clone(self) -> ClaimsInCycle:
        clone = copy(self)
        clone._removed = dict(self._removed)
        return clone

    def remove_pod(self, pod: PodInfo, claims: Sequence[ResourceClaim]) -> None:
        """Ignore a removed pod as a user of its reserved claims."""
        self._removed[pod.uid] = claims

    def add_pod(self, pod: PodInfo) -> None:
        self._removed.pop(pod.uid, None)


#: The claims of the pod; None if it has none, or one of them cannot be used.
CLAIMS = StateKey[ClaimsInCycle | None]("DynamicResources")


def _rank(claim: ResourceClaim) -> int:
    allocated = {result.request for result in results_of(claim)}
    return sum(
        RANKS - index
        for request in claim.spec.devices.requests
        for index, option in enumerate(request.first_available)
        if f"{request.name}/{option.name}" in allocated
    )
