"""Volumes of a cluster in memory: the PersistentVolume controller and the provisioners of all drivers.

No data are stored. Volumes are not resized.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from msgspec.structs import replace

from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import Key, MemoryController, key_of
from kframework.in_memory.kind_store import Change
from kframework.objects import (
    ApiObject,
    CSINode,
    CSISource,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeClaimTemplate,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    Pod,
    StorageClass,
    TopologySelectorTerm,
    Volume,
    VolumeNodeAffinity,
)
from kframework.objects.claims import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    NO_PROVISIONER,
    PROVISIONED_BY,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    ClaimRequirements,
    claim_class,
    claim_name,
    is_bound,
    is_claimed_by,
    is_controlled_by,
    storage_capacity,
    volume_class,
)
from kframework.objects.kinds import object_reference, owner_reference

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_HOSTNAME = "kubernetes.io/hostname"


class VolumeController(MemoryController):
    """Creates the claims of ephemeral volumes, binds claims to volumes, and creates volumes for claims without a match.

    A claim whose class waits for the first consumer is left to the scheduler: it reserves a volume for the claim, or
    selects the node on which one is created.
    """

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Pod, Node, PersistentVolume, PersistentVolumeClaim, StorageClass)

    def __init__(self, cluster: MemoryCluster) -> None:
        super().__init__(cluster)
        # Changed objects that are not reconciled yet, in order: pods by uid, volumes by name, claims.
        self._pods: dict[str, Pod] = {}
        self._changed_volumes: dict[str, None] = {}
        self._claims: dict[Key, None] = {}
        self._deleted_claims: list[PersistentVolumeClaim] = []
        self._unbound_claims: dict[Key, None] = {}  # to retry when a volume, a class or a node appears
        self._available_volumes: dict[str, None] = {}  # volumes without a claim reference
        self._reserved_volumes: dict[Key, dict[str, None]] = {}  # volumes by the claim that they reference

    @property
    def idle(self) -> bool:
        return not (self._pods or self._changed_volumes or self._claims or self._deleted_claims)

    def _receive(self, change: Change) -> None:
        match change.subject:
            case Pod() as pod:
                # Most have no volumes at all, and each is received several times.
                if not pod.spec.volumes or all(volume.ephemeral is None for volume in pod.spec.volumes):
                    return
                self._pods[pod.metadata.uid] = pod
            case PersistentVolume():
                self._index_volume(change)
            case PersistentVolumeClaim() as claim:
                self._claims[key_of(claim)] = None
                if change.new is None:
                    self._deleted_claims.append(claim)
            case StorageClass():
                self._claims |= self._unbound_claims
            case Node() if change.old is None:
                self._claims |= self._unbound_claims
            case _:
                return
        self._wake.set()

    def _index_volume(self, change: Change) -> None:
        """Record the claim for which a volume is reserved, and enqueue the claims that it affects."""
        old, new = change.old, change.new
        if isinstance(old, PersistentVolume):
            self._available_volumes.pop(old.metadata.name, None)
            if old.spec.claim_ref is not None:
                claim = old.spec.claim_ref.namespace, old.spec.claim_ref.name
                self._reserved_volumes[claim].pop(old.metadata.name, None)
                if not self._reserved_volumes[claim]:
                    del self._reserved_volumes[claim]
        if not isinstance(new, PersistentVolume):
            return
        self._changed_volumes[new.metadata.name] = None
        if new.spec.claim_ref is None:
            self._available_volumes[new.metadata.name] = None
            self._claims |= self._unbound_claims
        else:
            claim = new.spec.claim_ref.namespace, new.spec.claim_ref.name
            self._reserved_volumes.setdefault(claim, {})[new.metadata.name] = None
            self._claims[claim] = None

    def _work(self) -> None:
        while not self.idle:
            pods, self._pods = self._pods, {}
            for pod in pods.values():
                self._sync_ephemeral_claims(pod)
            deleted, self._deleted_claims = self._deleted_claims, []
            for claim in deleted:
                self._release_volumes(claim)
            changed, self._changed_volumes = self._changed_volumes, {}
            for name in changed:
                volume = self._cluster.find(PersistentVolume, name)
                if volume is None or volume.status.phase not in ("", "Pending"):
                    continue
                if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
                    self._cluster.replace(replace(volume, status=PersistentVolumeStatus(phase="Available")))
            claims, self._claims = self._claims, {}
            for key in claims:
                self._unbound_claims.pop(key, None)
                current = self._cluster.find(PersistentVolumeClaim, key[1], key[0])
                if current is not None and not is_bound(current) and not self._sync_unbound_claim(current):
                    self._unbound_claims[key] = None

    def _release_volumes(self, claim: PersistentVolumeClaim) -> None:
        """Release the volumes of a deleted claim; provisioned ones are deleted if their class says so."""
        for name in [*self._reserved_volumes.get(key_of(claim), ())]:
            volume = self._cluster.read(PersistentVolume, name)
            if volume.spec.claim_ref is None or volume.spec.claim_ref.uid != claim.metadata.uid:
                continue
            if (
                volume.spec.persistent_volume_reclaim_policy == "Delete"
                and PROVISIONED_BY in volume.metadata.annotations
            ):
                self._cluster.remove_object(volume)
            else:
                self._cluster.replace(replace(volume, status=PersistentVolumeStatus(phase="Released")))

    def _sync_ephemeral_claims(self, pod: Pod) -> None:
        """Create the claims of a pod's ephemeral volumes, unless it is being deleted; delete them after the pod."""
        namespace, uid = pod.metadata.namespace, pod.metadata.uid
        current = self._cluster.find(Pod, pod.metadata.name, namespace)
        alive = current is not None and current.metadata.uid == uid
        for volume in pod.spec.volumes:
            name = claim_name(pod.metadata.name, volume) if volume.ephemeral is not None else None
            if name is None:
                continue
            claim = self._cluster.find(PersistentVolumeClaim, name, namespace)
            if claim is None and alive and pod.metadata.deletion_timestamp is None:
                self._cluster.add(_ephemeral_claim(pod, name, volume))
            elif claim is not None and not alive and is_controlled_by(claim.metadata, uid):
                self._cluster.remove_object(claim)

    def _sync_unbound_claim(self, claim: PersistentVolumeClaim) -> bool:
        """Bind a claim, or create a volume for it; False if that needs another volume, class or node."""
        claim = self._assign_default_class(claim)
        storage_class = self._cluster.find(StorageClass, claim_class(claim))
        waits = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        wanted = ClaimRequirements(claim)
        if claim.spec.volume_name:
            volume = self._requested_volume(claim, wanted)
        else:
            volume = self._reserved_volume(claim, wanted) or (None if waits else self._smallest_volume(claim, wanted))
        if volume is not None:
            self._bind(volume, claim)
            return True
        selected = claim.metadata.annotations.get(SELECTED_NODE)
        if waits and selected is None:
            return True  # the scheduler selects the node first
        if storage_class is None or claim.spec.volume_name or storage_class.provisioner in ("", NO_PROVISIONER):
            return False
        node = self._cluster.find(Node, selected) if waits and selected is not None else None
        if waits and node is None:
            return False
        self._cluster.add(_provisioned_volume(claim, storage_class, self._topology(storage_class, node)))
        return True

    def _assign_default_class(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        if claim.spec.storage_class_name is not None or claim_class(claim):
            return claim
        for each in self._cluster.objects(StorageClass):
            if each.metadata.annotations.get(_DEFAULT_CLASS) == "true":
                spec = replace(claim.spec, storage_class_name=each.metadata.name)
                return self._cluster.replace(replace(claim, spec=spec))
        return claim

    def _requested_volume(self, claim: PersistentVolumeClaim, wanted: ClaimRequirements) -> PersistentVolume | None:
        """Return the volume that the claim names; one that is not reserved for it must be available and match."""
        volume = self._cluster.find(PersistentVolume, claim.spec.volume_name)
        if volume is None or is_claimed_by(volume, claim):
            return volume
        of_class = volume_class(volume) == claim_class(claim)
        return volume if volume.spec.claim_ref is None and of_class and wanted.may_be_bound(volume) else None

    def _reserved_volume(self, claim: PersistentVolumeClaim, wanted: ClaimRequirements) -> PersistentVolume | None:
        """Return a matching volume that is reserved for the claim, of any class."""
        volumes = [self._cluster.read(PersistentVolume, each) for each in self._reserved_volumes.get(key_of(claim), ())]
        return next((each for each in volumes if is_claimed_by(each, claim) and wanted.may_be_bound(each)), None)

    def _smallest_volume(self, claim: PersistentVolumeClaim, wanted: ClaimRequirements) -> PersistentVolume | None:
        name = claim_class(claim)
        free = [self._cluster.read(PersistentVolume, each) for each in self._available_volumes]
        fitting = [each for each in free if volume_class(each) == name and wanted.may_take(each)]
        return min(fitting, key=storage_capacity, default=None)

    def _bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Bind a volume and a claim to each other; what its author bound gets no bound-by-controller annotation."""
        by_controller = {BOUND_BY_CONTROLLER: "yes"}
        of_volume = {} if is_claimed_by(volume, claim) else by_controller
        of_claim = {BIND_COMPLETED: "yes"} | ({} if claim.spec.volume_name else by_controller)
        spec = replace(volume.spec, claim_ref=object_reference(claim))
        metadata, status = _with_annotations(volume.metadata, of_volume), PersistentVolumeStatus(phase="Bound")
        self._cluster.replace(replace(volume, metadata=metadata, spec=spec, status=status))
        bound = PersistentVolumeClaimStatus(phase="Bound", access_modes=spec.access_modes, capacity=spec.capacity)
        metadata = _with_annotations(claim.metadata, of_claim)
        claim_spec = replace(claim.spec, volume_name=volume.metadata.name)
        self._cluster.replace(replace(claim, metadata=metadata, spec=claim_spec, status=bound))

    def _topology(self, storage_class: StorageClass, node: Node | None) -> VolumeNodeAffinity | None:
        """Return the topology of a new volume from its node; without one, all that the class allows."""
        allowed = storage_class.allowed_topologies
        if node is None:
            terms = [{each.key: each.values for each in term.match_label_expressions} for term in allowed]
            return _node_affinity(terms) if terms else None
        labels = node.metadata.labels
        term = next((term for term in allowed if _allows(term, labels)), None)
        keys = [each.key for each in term.match_label_expressions] if term else self._topology_keys(storage_class, node)
        here = {key: (labels[key],) for key in keys if key in labels}
        return _node_affinity([here]) if here else None

    def _topology_keys(self, storage_class: StorageClass, node: Node) -> tuple[str, ...]:
        """Return the driver's topology labels; the hostname if it reports none."""
        csi_node = self._cluster.find(CSINode, node.metadata.name)
        drivers = csi_node.spec.drivers if csi_node is not None else ()
        keys_of_driver = (driver.topology_keys for driver in drivers if driver.name == storage_class.provisioner)
        return next(keys_of_driver, ()) or (_HOSTNAME,)


def _with_annotations(metadata: ObjectMeta, annotations: Mapping[str, str]) -> ObjectMeta:
    return replace(metadata, annotations=metadata.annotations | dict(annotations))


def _ephemeral_claim(pod: Pod, name: str, volume: Volume) -> PersistentVolumeClaim:
    template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
    template = template or PersistentVolumeClaimTemplate()
    metadata = ObjectMeta(
        name=name,
        namespace=pod.metadata.namespace,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=(owner_reference(pod),),
    )
    return PersistentVolumeClaim(metadata=metadata, spec=template.spec)


def _provisioned_volume(
    claim: PersistentVolumeClaim, storage_class: StorageClass, reached_from: VolumeNodeAffinity | None
) -> PersistentVolume:
    name, spec = f"pvc-{claim.metadata.uid}", claim.spec
    return PersistentVolume(
        metadata=ObjectMeta(name=name, annotations={PROVISIONED_BY: storage_class.provisioner}),
        spec=PersistentVolumeSpec(
            capacity=spec.resources.requests,
            access_modes=spec.access_modes,
            claim_ref=object_reference(claim),
            storage_class_name=storage_class.metadata.name,
            volume_mode=spec.volume_mode,
            volume_attributes_class_name=spec.volume_attributes_class_name,
            persistent_volume_reclaim_policy=storage_class.reclaim_policy or "Delete",
            node_affinity=reached_from,
            csi=CSISource(driver=storage_class.provisioner, volume_handle=name),
        ),
    )


def _allows(term: TopologySelectorTerm, labels: Mapping[str, str]) -> bool:
    """Return whether a class allows a node with these labels; an empty term allows none."""
    requirements = term.match_label_expressions
    return bool(requirements) and all(labels.get(each.key) in each.values for each in requirements)


def _node_affinity(terms: Iterable[Mapping[str, tuple[str, ...]]]) -> VolumeNodeAffinity:
    selected = [
        [NodeSelectorRequirement(key=key, operator="In", values=values) for key, values in term.items()]
        for term in terms
    ]
    either = tuple(NodeSelectorTerm(match_expressions=tuple(each)) for each in selected)
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=either))
