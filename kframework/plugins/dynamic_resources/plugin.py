"""DynamicResources: a pod goes where the devices of its claims are or can be allocated, and waits until they are ready.

`cycle`, `feasibility` and `allocator` choose the devices, `writes` updates the claims.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Hashable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar
from uuid import UUID

import numpy as np

from kframework.framework.answers import NOTHING, Diagnosis, RejectedPod
from kframework.framework.cycle_state import CycleState, StateKey
from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint, queue_if
from kframework.framework.handle import FindNodes, Handle
from kframework.framework.plugin import Plugin, Reads, SignReads, Watch, hookimpl
from kframework.framework.suggestions import ChangeEstimates, Suggestions
from kframework.framework.suspendable import Suspendable, start, wait_for, wrap_waiting
from kframework.objects import (
    DeviceClass,
    DeviceTaintRule,
    GenericPodGroup,
    Pod,
    PodGroup,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceSlice,
)
from kframework.objects.claims import is_controlled_by
from kframework.objects.node_selectors import NodeSelectorTerms
from kframework.objects.resource_claims import EXTENDED_RESOURCE_CLAIM
from kframework.plugins.dynamic_resources import binding_conditions, suggestions
from kframework.plugins.dynamic_resources.args import DynamicResourcesArgs
from kframework.plugins.dynamic_resources.cycle import (
    CANNOT_FIT,
    CLAIMS,
    LEFTOVER,
    UNAVAILABLE,
    UNAVAILABLE_REASON,
    ClaimsInCycle,
    extended_resources,
)
from kframework.plugins.dynamic_resources.deallocation import Deallocation
from kframework.plugins.dynamic_resources.devices import Devices
from kframework.plugins.dynamic_resources.errors import AllocationError, ClaimWriteError, DevicesNotReady, WaitResult
from kframework.plugins.dynamic_resources.extended_resources import BackedResources
from kframework.plugins.dynamic_resources.feasibility import (
    ERROR,
    FITS,
    INVALID_POOLS,
    TIMED_OUT,
    TOO_FEW,
    Feasibilities,
)
from kframework.plugins.dynamic_resources.pod_claims import (
    MISSING,
    ClaimProblem,
    ClaimUsers,
    ExtendedResourceClaims,
    claims_of,
    consumers_of,
    is_reserved_for,
)
from kframework.plugins.dynamic_resources.requests import claim_key
from kframework.plugins.dynamic_resources.reservation import ClaimReservation
from kframework.plugins.dynamic_resources.shortfalls import explain_shortfalls
from kframework.plugins.dynamic_resources.writes import ClaimWrites, DeviceObserver
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.scores import Rows, Scores, default_normalize
from kframework.values.status import Skip, Status, error, unresolvable

IN_FLIGHT = "resource claim {} is in the process of being allocated"
NO_CLASS = "request {}: device class {} does not exist"
CLASS_NOT_SET = "request {}: unsupported request type"
UNKNOWN_REQUEST = "resource claim {}, request {}: unknown request type"
SEARCH_TIMED_OUT = "node {}: timed out trying to allocate devices"
NO_ALLOCATION = "claim allocation not found for node"
REASONS: dict[int, str] = {
    TOO_FEW: "cannot allocate all claims",
    INVALID_POOLS: "invalid resource pools were encountered",
    UNAVAILABLE: UNAVAILABLE_REASON,
    CANNOT_FIT: "cannot fit resource",
    LEFTOVER: "cannot schedule extended resource claim",
}

RESERVED = StateKey[ClaimReservation]("DynamicResources.reserved")

#: The search steps that `filterTimeout` allows per second: 200,000 by default, which take half a second. The scheduler
#: is blocked meanwhile, so it is fewer than possible in that time.
STEPS_PER_SECOND = 20_000
#: The interval of checking claims while devices become ready, in seconds.
_INTERVAL = 5.0


class DynamicResources(Plugin[DynamicResourcesArgs]):
    """Reject nodes without the devices that the pod's claims request, allocate these, and wait until they are ready."""

    name = "DynamicResources"
    reads: ClassVar[Reads] = "pods"
    sign_reads: ClassVar[SignReads] = (DeviceClass,)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(ResourceClaim, verbs=("get", "create", "patch", "patch_status", "delete")),
        Watch(ResourceSlice),
        Watch(DeviceClass),
        Watch(DeviceTaintRule, gate="DRADeviceTaintRules"),
        Watch(PodGroup, gate="DRAWorkloadResourceClaims"),
        Watch(Pod, verbs=("patch_status",)),
    )
    parallel_pre_bind: ClassVar[bool] = True
    #: It waits for `bindingTimeout`, and for the answers to its writes.
    own_timeouts: ClassVar[frozenset[str]] = frozenset({"pre_bind"})

    def __init__(self, args: DynamicResourcesArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._gates = handle.feature_gates
        self._claims = handle.objects(ResourceClaim)
        self._classes = handle.objects(DeviceClass)
        self._backed = self._classes.index(BackedResources)
        self._extended_claims = self._claims.index(ExtendedResourceClaims)
        self._users = ClaimUsers(handle)
        #: The uid of the last pod whose reservation was undone.
        self._last_unreserved = ""
        self._writes = ClaimWrites(handle)
        self._deallocation = Deallocation(self.name, handle, self._writes)

    def set_observer(self, observer: DeviceObserver) -> None:
        self._writes.observer = observer

    @cached_property
    def devices(self) -> Devices:
        return Devices(self.handle)

    @cached_property
    def _feasibilities(self) -> Feasibilities:
        seconds = self.args.filter_timeout
        return Feasibilities(self.devices, round(seconds * STEPS_PER_SECOND) if seconds else None)

    # -- claims --------------------------------------------------------------------------------------------------------

    @hookimpl
    def pre_enqueue(self, pod: PendingPod) -> Status | None:
        if not pod.spec.resource_claims:
            return None
        self._users.add(pod)
        try:
            self._claims_of(pod)
        except ClaimProblem as problem:
            return unresolvable(str(problem))
        return None

    def _claims_of(self, pod: PodInfo) -> list[ResourceClaim]:
        return claims_of(pod, self._claims, self._gates)

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable | None:
        return None if self._uses_claims(pod) else NOTHING

    def _uses_claims(self, pod: PodInfo) -> bool:
        return bool(pod.spec.resource_claims or extended_resources(pod, self._backed).backed)

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        state[CLAIMS] = None
        if not self._uses_claims(pod):
            return Skip
        try:
            claims = self._claims_of(pod)
        except ClaimProblem as problem:
            return unresolvable(str(problem))
        has_backed = bool(extended_resources(pod, self._backed).backed)
        if not claims and not has_backed:
            return Skip
        for claim in claims:
            rejection = self._claim_rejection(claim, state.group)
            if rejection is not None:
                return rejection
        unready = [claim for claim in claims if self._is_unready(claim)]
        leftover = self._extended_claims.claim_of(pod) if has_backed else None
        state[CLAIMS] = ClaimsInCycle(
            self.devices,
            self._feasibilities,
            self._backed,
            pod,
            claims,
            leftover=leftover,
            unready=unready,
            group_state=state.group,
            groups=self._consumers_of(pod),
        )
        return None

    def _consumers_of(self, pod: PodInfo) -> Mapping[str, ResourceClaimConsumerReference]:
        if not pod.group or not self._gates.has_group_claims:
            return {}
        return consumers_of(pod, self.handle.objects(PodGroup).get(pod.group, pod.namespace))

    def _claim_rejection(self, claim: ResourceClaim, group_state: CycleState | None) -> Status | None:
        """Return why a claim cannot be used, or allocated, anywhere."""
        if claim.status.allocation is not None:
            selector = claim.status.allocation.node_selector
            errors = () if selector is None else NodeSelectorTerms(selector.node_selector_terms).errors
            return error(str(errors[0])) if errors else None
        if self.devices.allocated.shared_allocation(claim, group_state) is not None:
            return None
        if self.devices.allocated.is_pending(claim):
            return unresolvable(IN_FLIGHT.format(claim_key(claim)))
        for request in claim.spec.devices.requests:
            options = [
                (f"{request.name}/{option.name}", option.device_class_name) for option in request.first_available
            ]
            if request.exactly is not None:
                options = [(request.name, request.exactly.device_class_name)]
            if not options:
                return unresolvable(UNKNOWN_REQUEST.format(claim_key(claim), request.name))
            for name, device_class in options:
                if not device_class:
                    return error(CLASS_NOT_SET.format(name))
                if self._classes.get(device_class) is None:
                    return unresolvable(NO_CLASS.format(name, device_class))
        return None

    def _is_unready(self, claim: ResourceClaim) -> bool:
        """Whether the devices of a claim failed to become ready, or not in time."""
        if not binding_conditions.devices_with_conditions(claim):
            return False
        timeout, now = self.args.binding_timeout, self.handle.clock.now()
        is_late = not binding_conditions.is_ready(claim) and binding_conditions.has_timed_out(claim, now, timeout)
        return is_late or bool(binding_conditions.find_failure(claim))

    # -- nodes ---------------------------------------------------------------------------------------------------------

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        claims = state[CLAIMS]
        if claims is None:
            return None
        try:
            answer = int(claims.rejections(node.table, np.array([node.row]))[0])
            if answer == ERROR:
                claims.search(node)
        except AllocationError as problem:
            return error(str(problem))
        if answer == TIMED_OUT:
            return error(SEARCH_TIMED_OUT.format(node.name))
        return None if answer == FITS else self.filter_status(pod, answer)

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        claims = state[CLAIMS]
        if claims is None:
            return np.zeros(nodes.capacity, dtype=np.int64)[rows]
        answers = claims.rejections(nodes, rows)
        if len(answers) and answers.max() >= ERROR:
            raise AllocationError("cannot determine for some node whether claims can be allocated")
        return answers

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return unresolvable(REASONS[bits])

    @hookimpl
    def add_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> None:
        claims = state[CLAIMS]
        if claims is not None:
            claims.add_pod(other)

    @hookimpl
    def remove_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> None:
        claims = state[CLAIMS]
        if claims is not None:
            claims.remove_pod(other, self._reserved_claims(other))

    def _reserved_claims(self, pod: PodInfo) -> list[ResourceClaim]:
        try:
            claims = self._claims_of(pod)
        except ClaimProblem:
            claims = []
        extended_claim = self._extended_claims.claim_of(pod)
        return [claim for claim in (*claims, extended_claim) if claim is not None and is_reserved_for(claim, pod.uid)]

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        claims = state[CLAIMS]
        if claims is None or not claims.has_alternatives:
            return 0
        return int(claims.ranks(node.table, np.array([node.row]))[0])

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores | int:
        claims = state[CLAIMS]
        return 0 if claims is None or not claims.has_alternatives else claims.ranks(nodes, rows)

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
        return default_normalize(scores)

    # -- explanations and suggestions ----------------------------------------------------------------------------------

    @hookimpl
    def explain(self, state: CycleState, pod: PendingPod, node: NodeInfo, status: Status) -> Sequence[str]:
        claims = state[CLAIMS]
        return [] if claims is None else explain_shortfalls(self.devices, claims, node)

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        claims = state.get(CLAIMS)
        if node is None or claims is None:
            return suggestions.drop_claims(pod)
        return suggestions.suggest_changes(self.devices, claims, pod, node, self.handle.pods)

    @hookimpl
    def suggest_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> ChangeEstimates:
        claims = state[CLAIMS]
        assert claims is not None  # nodes are only rejected if there are claims
        return suggestions.estimate_changes(self.devices, claims, nodes, rows)

    # -- post filter ---------------------------------------------------------------------------------------------------

    @hookimpl
    def post_filter(self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> Status:
        if CLAIMS not in state:
            return error("not found")  # kube-scheduler's words
        return self._deallocation.for_pod(state[CLAIMS], pod, diagnosis)

    @hookimpl
    def pod_group_post_filter(
        self,
        group: GenericPodGroup,
        pods: Sequence[PendingPod],
        rejected: Sequence[RejectedPod],
        find_nodes: FindNodes,
    ) -> Status:
        return self._deallocation.for_group(pods, rejected)

    # -- reserving -----------------------------------------------------------------------------------------------------

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        claims, node = state[CLAIMS], self.handle.nodes.find(node_name)
        if claims is None or node is None:
            return None
        try:
            allocations = claims.allocate(node, lambda: str(UUID(int=self.handle.random.getrandbits(128), version=4)))
        except AllocationError as problem:
            return error(str(problem))
        if allocations is None:
            return error(NO_ALLOCATION)
        suffix = f"{self.handle.random.getrandbits(40):010x}"
        allocated, mappings = self.devices.allocated, claims.mappings(node)
        state[RESERVED] = ClaimReservation(allocated, allocations, mappings, suffix, state.group)
        return None

    @hookimpl
    def unreserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        reservation = state.get(RESERVED)
        if reservation is None:
            return
        self._last_unreserved = pod.uid
        for claim in reservation.undo():
            if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true":
                self._writes.write_in_background(partial(self._writes.delete, claim))
            elif is_reserved_for(claim, pod.uid):  # other pods of a PodGroup may use those that are reserved for that
                self._writes.write_in_background(partial(self._writes.unreserve, claim, pod.uid))

    # -- binding -------------------------------------------------------------------------------------------------------

    @hookimpl
    def pre_bind_pre_flight(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        return None if RESERVED in state else Skip

    @hookimpl
    def pre_bind(
        self, state: CycleState, pod: PendingPod, node_name: str
    ) -> Status | Coroutine[Any, Any, Status | None] | None:
        reservation = state.get(RESERVED)
        return None if reservation is None else start(self._prepare(reservation, pod, node_name))

    def _prepare(self, reservation: ClaimReservation, pod: PendingPod, node_name: str) -> Suspendable[Status | None]:
        """Write the claims, and wait until their devices are ready."""
        try:
            yield from wrap_waiting(reservation.write(self._writes, pod), self.handle.shield)
            if any(map(binding_conditions.devices_with_conditions, reservation.claims)):
                note = f"waiting for binding conditions for device on node {node_name}"
                self.handle.event(pod, reason="BindingConditionsPending", action="Scheduling", note=note)
                yield from wait_for(self._wait_until_ready(reservation))
        except (ClaimWriteError, DevicesNotReady) as problem:
            return error(str(problem))
        return None

    async def _wait_until_ready(self, reservation: ClaimReservation) -> None:
        """Poll until all devices are ready; DevicesNotReady if they fail, or are not ready in time."""
        clock = self.handle.clock
        start = clock.now()
        result: WaitResult = "error"
        try:
            while not all(self._is_ready(claim) for claim in reservation.claims):
                remaining = start + self.args.binding_timeout - clock.now()
                if remaining <= 0:
                    raise DevicesNotReady(binding_conditions.WAITED_TOO_LONG, "timeout")
                await asyncio.sleep(min(_INTERVAL, remaining))
            result = "success"
        except DevicesNotReady as problem:
            result = problem.result
            raise
        finally:
            self._writes.observer.on_wait_end(reservation.claims, result, clock.now() - start)

    def _is_ready(self, written: ResourceClaim) -> bool:
        metadata = written.metadata
        claim = self._claims.get(metadata.name, metadata.namespace)
        if claim is None:
            raise DevicesNotReady(MISSING.format(metadata.namespace, metadata.name), "error")
        failure = binding_conditions.find_failure(claim)
        if failure:
            raise DevicesNotReady(failure, "failure")
        if binding_conditions.is_ready(claim):
            return True
        if binding_conditions.has_timed_out(claim, self.handle.clock.now(), self.args.binding_timeout):
            raise DevicesNotReady(binding_conditions.TIMED_OUT.format(claim.metadata.name), "timeout")
        return False

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        any_change = ActionType.ADD | ActionType.UPDATE | ActionType.DELETE
        node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
        generated = ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
        return [
            ClusterEvent(EventResource.NODE, node),
            ClusterEvent(EventResource.RESOURCE_CLAIM, any_change, self.after_claim_change, self.users_of),
            ClusterEvent(EventResource.POD, generated, self.after_pod_change),
            ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE, affects=self.pods_helped_by_deletion),
            ClusterEvent(EventResource.DEVICE_CLASS, any_change),
            ClusterEvent(EventResource.RESOURCE_SLICE, any_change),
            ClusterEvent(
                EventResource.DEVICE_TAINT_RULE, ActionType.UPDATE | ActionType.DELETE, self.after_rule_change
            ),
        ]

    def pods_helped_by_deletion(self, old: PodInfo, new: None) -> Collection[str] | None:
        """Return the pods that the end of a pod may help: any if it was not bound and its reservation was undone.

        The devices of others are released later, by their claims. (kube-scheduler lets pods sleep in this case.)
        """
        return None if old.uid == self._last_unreserved else ()

    def users_of(self, old: ResourceClaim | None, new: ResourceClaim | None) -> Collection[str] | None:
        """Return the pods that use a claim; None, for any, if it releases devices."""
        claim = new or old
        if claim is None or _releases_devices(old, new):
            return None
        owners = [owner.uid for owner in claim.metadata.owner_references if owner.controller]
        return [*owners, *self._users.pods_of(claim)]

    def after_claim_change(self, pod: PendingPod, old: ResourceClaim | None, new: ResourceClaim | None) -> QueueingHint:
        """Queue the pod for a claim of its own that is new or has another status, and for devices that were released.

        Also once the claim that an earlier attempt created for it is deleted; not before it has all its claims.
        """
        try:
            claims = self._claims_of(pod)
        except ClaimProblem:
            return QueueingHint.SKIP
        if _releases_devices(old, new):
            return QueueingHint.QUEUE
        if new is None:
            return queue_if(old is not None and is_controlled_by(old.metadata, pod.uid))
        is_used = any(claim.metadata.uid == new.metadata.uid for claim in claims)
        return queue_if(is_used and (old is None or old.status != new.status))

    def after_rule_change(self, pod: PendingPod, old: DeviceTaintRule, new: DeviceTaintRule | None) -> QueueingHint:
        """Queue the pod if devices may have lost a taint; an evicting controller only changes the status of rules."""
        return queue_if(new is None or old.spec != new.spec)

    def after_pod_change(self, pod: PendingPod, old: PodInfo, new: PodInfo) -> QueueingHint:
        if new.uid != pod.uid:
            return QueueingHint.SKIP
        try:
            self._claims_of(new)
        except ClaimProblem:
            return QueueingHint.SKIP
        return QueueingHint.QUEUE


def _releases_devices(old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
    return bool(old and old.status.allocation) and not (new and new.status.allocation)
