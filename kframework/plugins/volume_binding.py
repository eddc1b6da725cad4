"""VolumeBinding: a pod goes where its claims' volumes are reachable or available, and waits there until they are bound.

The volumes of a node for the claims are in `kframework.state.volumes.pod_volumes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator, Sequence
from functools import cache
from typing import Annotated, ClassVar

import numpy as np

from kframework.config.args import ApiArgs
from kframework.config.decode import Int64, schema_type
from kframework.errors import ClusterError
from kframework.framework.answers import NOTHING
from kframework.framework.cycle_state import CycleState, StateKey
from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint, queue_if
from kframework.framework.handle import Handle
from kframework.framework.plugin import Plugin, Reads, SignReads, Watch, hookimpl
from kframework.framework.suggestions import Suggestions, drop_volumes
from kframework.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    PodSpec,
    StorageClass,
)
from kframework.objects.claims import WAIT_FOR_FIRST_CONSUMER, claim_class, claim_name, is_bound, is_controlled_by
from kframework.objects.csi_migration import TranslationError, migrated_plugins
from kframework.objects.label_selectors import SelectorError
from kframework.objects.problem import Problem, invalid
from kframework.plugins.shared_args import UtilizationShapePoint, interpolate_scores, shape_problems
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.objects import AssumptionError
from kframework.state.pods import PendingPod
from kframework.state.volumes.pod_volumes import (
    BIND_CONFLICT,
    NODE_CONFLICT,
    NOT_ENOUGH_SPACE,
    VOLUME_MISSING,
    PodClaims,
    StorageDemand,
)
from kframework.state.volumes.volume_ids import claim_names
from kframework.state.volumes.volume_reservation import BindingError, VolumeReservation, claim_patch, volume_patch
from kframework.state.volumes.volumes import Storage, max_volume_size
from kframework.values.feature_gates import FeatureGates
from kframework.values.scores import Rows, Scores
from kframework.values.status import Skip, Status, error, unresolvable

MISSING = 'persistentvolumeclaim "{}" not found'
NOT_CREATED = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "{}"'
LOST = 'persistentvolumeclaim "{}" bound to non-existent persistentvolume "{}"'
DELETED = 'persistentvolumeclaim "{}" is being deleted'
FOREIGN = "PVC {} was not created for pod {} (pod is not owner)"
NO_BINDING_MODE = 'VolumeBindingMode not set for StorageClass "{}"'
UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
REASONS: dict[int, str] = {
    NODE_CONFLICT: "node(s) didn't match PersistentVolume's node affinity",
    BIND_CONFLICT: "node(s) didn't find available persistent volumes to bind",
    NOT_ENOUGH_SPACE: "node(s) did not have enough free storage",
    VOLUME_MISSING: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}

#: The claims of the pod; None if it has none.
_CLAIMS = StateKey[PodClaims | None]("VolumeBinding")
#: The pod's reservation; absent if all claims were bound before.
RESERVED = StateKey[VolumeReservation]("VolumeBinding.reserved")

#: The gate of scores, on by default since 1.37.
_SCORING = "StorageCapacityScoring"
#: The default shape: the emptier the storage, the better.
_MOST_FREE = (UtilizationShapePoint(utilization=0, score=10), UtilizationShapePoint(utilization=100, score=0))

#: The interval of checks while volumes are being bound, in seconds.
_INTERVAL = 1.0


class VolumeBindingArgs(ApiArgs):
    """The time limit of PreBind for volumes, and the scoring of nodes by their storage."""

    bind_timeout_seconds: Annotated[Int64, schema_type(minimum=0)] = 600
    """How long PreBind waits for volumes."""
    shape: tuple[UtilizationShapePoint, ...] = ()
    """The score by how full the storage is; by default nodes with the most free storage are preferred."""

    def problems(self, gates: FeatureGates) -> Iterator[Problem]:
        if self.bind_timeout_seconds < 0:
            detail = "invalid BindTimeoutSeconds, should not be a negative value"
            yield invalid(("bindTimeoutSeconds",), self.bind_timeout_seconds, detail)
        if gates.is_enabled(_SCORING):
            yield from shape_problems(("shape",), self.shape or _MOST_FREE)
        elif self.shape:
            points = [point.model_dump() for point in self.shape]
            detail = f"unexpected field `shape`, remove it or turn on the feature gate {_SCORING}"
            yield invalid(("shape",), points, detail)


class VolumeBinding(Plugin[VolumeBindingArgs]):
    """Reject nodes that cannot provide the pod's volumes, and bind the volumes before the pod."""

    name = "VolumeBinding"
    reads: ClassVar[Reads] = "node"
    sign_reads: ClassVar[SignReads] = ()
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(PersistentVolumeClaim, verbs=("patch",)),
        Watch(PersistentVolume, verbs=("patch",)),
        Watch(StorageClass),
        Watch(CSINode),
        Watch(CSIDriver),
        Watch(CSIStorageCapacity),
    )
    parallel_pre_bind: ClassVar[bool] = True
    #: It waits for `bindTimeoutSeconds`.
    own_timeouts: ClassVar[frozenset[str]] = frozenset({"pre_bind"})

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._storage = Storage(handle)
        #: The score by percentage of storage that is used; empty if nodes are not scored.
        self._scores: list[int] = []
        if handle.feature_gates.is_enabled(_SCORING):
            self._scores = interpolate_scores(args.shape or _MOST_FREE)

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable | None:
        return None if pod.template.cached(VolumeBinding, _has_claims) else NOTHING

    # -- filtering -----------------------------------------------------------------------------------------------------

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | None:
        if not pod.template.cached(VolumeBinding, _has_claims):
            state[_CLAIMS] = None
            return Skip
        claims: list[PersistentVolumeClaim] = []
        for volume in pod.spec.volumes:
            name = claim_name(pod.name, volume)
            if name is None:
                continue
            claim, ephemeral = self._storage.claims.get(name, pod.namespace), volume.ephemeral is not None
            if claim is None:
                return unresolvable((NOT_CREATED if ephemeral else MISSING).format(name))
            if claim.status.phase == "Lost":
                return unresolvable(LOST.format(name, claim.spec.volume_name))
            if claim.metadata.deletion_timestamp is not None:
                return unresolvable(DELETED.format(name))
            if ephemeral and not is_controlled_by(claim.metadata, pod.uid):
                return unresolvable(FOREIGN.format(f"{pod.namespace}/{name}", pod.key))
            claims.append(claim)
        # Claims with WaitForFirstConsumer wait for the pod; others should be bound by now.
        unbound = [claim for claim in claims if not is_bound(claim)]
        classes = [self._storage.classes.get(claim_class(claim)) for claim in unbound]
        for each in classes:
            if each is not None and each.volume_binding_mode is None:
                return error(NO_BINDING_MODE.format(each.metadata.name))
        for claim, each in zip(unbound, classes, strict=True):
            waits = each is not None and each.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
            if not waits or claim.spec.volume_name:
                return unresolvable(UNBOUND_IMMEDIATE)
        state[_CLAIMS] = PodClaims(self._storage, [claim for claim in claims if is_bound(claim)], unbound)
        return None

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        claims = state[_CLAIMS]
        if claims is None:
            return None
        try:
            bits, _ = claims.find_volumes(node)
        except (SelectorError, TranslationError) as problem:
            return error(str(problem))
        return _rejection_status(bits) if bits else None

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        claims = state[_CLAIMS]
        return claims.rejections(nodes, rows) if claims is not None else np.zeros(nodes.capacity, dtype=np.int64)[rows]

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return _rejection_status(bits)

    @hookimpl
    def suggest(self, state: CycleState, pod: PendingPod, node: NodeInfo | None, status: Status) -> Suggestions:
        return drop_volumes(pod)

    # -- which nodes are better ----------------------------------------------------------------------------------------

    @hookimpl
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Status | None:
        return None if self._scores else Skip

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        claims = state[_CLAIMS]
        if claims is None or claims.all_bound or not self._scores:
            return 0
        return self._score(claims.storage_demand(node.labels))

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores | int:
        claims = state[_CLAIMS]
        if claims is None or claims.all_bound or not self._scores:
            return 0
        demands, demand_of_row = claims.storage_demands(nodes, rows)
        return np.array([self._score(demand) for demand in demands], dtype=np.int64)[demand_of_row]

    def _score(self, demands: Sequence[StorageDemand]) -> int:
        """Return the mean over storage classes, halves up; 0 if no claim counts."""
        if not demands:
            return 0
        total = sum(self._scores[each.percentage] for each in demands)
        return (2 * total + len(demands)) // (2 * len(demands))

    # -- reserving -----------------------------------------------------------------------------------------------------

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        claims = state[_CLAIMS]
        if claims is None or claims.all_bound:
            return None
        node = self.handle.nodes.find(node_name)
        if node is None:
            return None
        _, volumes = claims.find_volumes(node)
        reservation = state[RESERVED] = VolumeReservation(self._storage, node_name)
        try:
            reservation.assume(volumes)
        except AssumptionError as problem:
            reservation.restore()
            return error(str(problem))
        return None

    @hookimpl
    def unreserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        reservation = state.get(RESERVED)
        if reservation is not None:
            reservation.restore()

    # -- binding -------------------------------------------------------------------------------------------------------

    @hookimpl
    def pre_bind_pre_flight(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        return None if RESERVED in state else Skip

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        reservation = state.get(RESERVED)
        if reservation is None:
            return None
        try:
            await self._write(reservation)
            await self._bind_phases(reservation, pod, node_name)
        except ClusterError as refusal:
            return error(str(refusal))
        except (BindingError, TranslationError) as problem:
            return error(f"binding volumes: {problem}")
        return None

    async def _write(self, reservation: VolumeReservation) -> None:
        """Write the reserved volumes of claims, and the node where volumes are to be provisioned."""
        api = self.handle.api
        for index, (volume, claim) in enumerate(reservation.volumes):
            written = await api.patch(PersistentVolume, volume.metadata.name, volume_patch(volume))
            reservation.volumes[index] = (written, claim)
        for index, claim in enumerate(reservation.claims):
            name, namespace = claim.metadata.name, claim.metadata.namespace
            reservation.claims[index] = await api.patch(PersistentVolumeClaim, name, claim_patch(claim), namespace)

    async def _bind_phases(self, reservation: VolumeReservation, pod: PendingPod, node_name: str) -> None:
        """Poll until everything is bound; BindingError if it will not be, or not in time."""
        handle, clock = self.handle, self.handle.clock
        deadline = clock.now() + self.args.bind_timeout_seconds
        while True:
            remaining = deadline - clock.now()
            await asyncio.sleep(min(_INTERVAL, max(remaining, 0.0)))
            if remaining <= _INTERVAL:
                raise BindingError("context deadline exceeded")
            node = handle.nodes.find(node_name)
            if node is None:
                raise BindingError(f'failed to get node "{node_name}": node "{node_name}" not found')
            if pod.uid not in handle.pending and pod.uid not in handle.pods:
                raise BindingError(f'pod does not exist any more: pod "{pod.name}" not found')
            if reservation.is_complete(node):
                return

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        new_or_changed = ActionType.ADD | ActionType.UPDATE
        return [
            ClusterEvent(EventResource.STORAGE_CLASS, new_or_changed, after_class_change),
            ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, new_or_changed, after_claim_change),
            # A deleted volume was its claim's only choice: another one may fit now.
            ClusterEvent(EventResource.PERSISTENT_VOLUME, new_or_changed | ActionType.DELETE),
            ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            ClusterEvent(EventResource.CSI_NODE, new_or_changed | ActionType.DELETE, after_csi_node_change),
            ClusterEvent(EventResource.CSI_DRIVER, ActionType.UPDATE | ActionType.DELETE, after_driver_change),
            ClusterEvent(EventResource.CSI_STORAGE_CAPACITY, new_or_changed, after_capacity_change),
        ]


def after_class_change(pod: PendingPod, old: StorageClass | None, new: StorageClass) -> QueueingHint:
    return queue_if(old is None or old.allowed_topologies != new.allowed_topologies)


def after_claim_change(pod: PendingPod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> QueueingHint:
    return queue_if(new.metadata.namespace == pod.namespace and new.metadata.name in claim_names(pod))


def after_csi_node_change(pod: PendingPod, old: CSINode | None, new: CSINode | None) -> QueueingHint:
    """Queue the pod for a node that is new, or on which other plugins are migrated than before."""
    migrated = migrated_plugins(new) if new is not None else frozenset()
    return queue_if(old is None or migrated_plugins(old) != migrated)


def after_driver_change(pod: PendingPod, old: CSIDriver, new: CSIDriver | None) -> QueueingHint:
    """Queue the pod for a driver whose capacity is no longer checked, whatever volumes the pod has.

    kube-scheduler requires an inline volume of the driver; but capacity is checked for claims.
    """
    is_checked = new is not None and bool(new.spec.storage_capacity)
    return queue_if(bool(old.spec.storage_capacity) and not is_checked)


def after_capacity_change(pod: PendingPod, old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> QueueingHint:
    if old is None:
        return QueueingHint.QUEUE
    before, after = max_volume_size(old), max_volume_size(new)
    return queue_if(after is not None and (before is None or after > before))


def _has_claims(spec: PodSpec) -> bool:
    return any(claim_name("", volume) is not None for volume in spec.volumes)


@cache
def _rejection_status(bits: int) -> Status:
    return unresolvable(*(reason for bit, reason in REASONS.items() if bits & bit))
