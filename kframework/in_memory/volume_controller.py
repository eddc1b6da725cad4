"""Volumes of a cluster in memory: the PersistentVolume controller and the provisioners of all drivers.

No data are stored. Not implemented: deleting or releasing a volume whose claim is gone, and resizing.
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
    OwnerReference,
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
    Wanted,
    capacity,
    claim_class,
    claim_name,
    claim_reference,
    is_bound,
    is_claimed_by,
    is_controlled_by,
    volume_class,
)
from kframework.objects.label_selectors import SelectorError

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
        self._fresh: dict[str, None] = {}
        self._claims: dict[Key, None] = {}
        self._unserved: dict[Key, None] = {}  # claims that were reconciled; a volume, a class or a node may help
        self._free: dict[str, None] = {}  # volumes that are kept for no claim
        self._kept: dict[Key, dict[str, None]] = {}  # volumes by the claim for which they are kept

    @property
    def idle(self) -> bool:
        return not (self._pods or self._fresh or self._claims)

    def _receive(self, change: Change) -> None:
        old, new = change.old, change.new
        match change.subject:
            case Pod() as pod:
                # Most have no volumes at all, and each is received several times.
                if not pod.spec.volumes or all(volume.ephemeral is None for volume in pod.spec.volumes):
                    return
                self._pods[pod.metadata.uid] = pod
            case PersistentVolume() as volume:
                self._file(old if isinstance(old, PersistentVolume) else None, volume if new is not None else None)
            case PersistentVolumeClaim() as claim:
                self._claims[key_of(claim)] = None
            case StorageClass():
                self._claims |= self._unserved
            case Node() if old is None:
                self._claims |= self._unserved
            case _:
                return
        self._wake.set()

    def _file(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        """Record the claim for which a volume is reserved, and enqueue the claims that it affects."""
        if old is not None:
            self._free.pop(old.metadata.name, None)
            if old.spec.claim_ref is not None:
                claim = old.spec.claim_ref.namespace, old.spec.claim_ref.name
                self._kept[claim].pop(old.metadata.name, None)
                if not self._kept[claim]:
                    del self._kept[claim]
        if new is None:
            return
        self._fresh[new.metadata.name] = None
        if new.spec.claim_ref is None:
            self._free[new.metadata.name] = None
            self._claims |= self._unserved
        else:
            claim = new.spec.claim_ref.namespace, new.spec.claim_ref.name
            self._kept.setdefault(claim, {})[new.metadata.name] = None
            self._claims[claim] = None

    def _work(self) -> None:
        while not self.idle:
            pods, self._pods = self._pods, {}
            for pod in pods.values():
                self._tend(pod)
            fresh, self._fresh = self._fresh, {}
            for name in fresh:
                volume = self._cluster.find(PersistentVolume, name)
                if volume is None or volume.status.phase not in ("", "Pending"):
                    continue
                if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
                    self._cluster.replace(replace(volume, status=PersistentVolumeStatus(phase="Available")))
            claims, self._claims = self._claims, {}
            for key in claims:
                self._unserved.pop(key, None)
                claim = self._cluster.find(PersistentVolumeClaim, key[1], key[0])
                if claim is not None and not is_bound(claim) and not self._serve(claim):
                    self._unserved[key] = None

    def _tend(self, pod: Pod) -> None:
        """Create the claims of a pod's ephemeral volumes, unless it is being deleted; once it is gone, delete them."""
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
                self._cluster.remove(PersistentVolumeClaim, name, namespace)

    def _serve(self, claim: PersistentVolumeClaim) -> bool:
        """Bind a claim, or create a volume for it; False if that needs another volume, class or node."""
        claim = self._with_class(claim)
        storage_class = self._cluster.find(StorageClass, claim_class(claim))
        waits = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        try:
            wanted = Wanted(claim)
        except SelectorError:
            return False
        if claim.spec.volume_name:
            volume = self._named_by(claim, wanted)
        else:
            volume = self._kept_for(claim, wanted) or (None if waits else self._smallest_for(claim, wanted))
        if volume is not None:
            self._bind(volume, claim)
            return True
        selected = claim.metadata.annotations.get(SELECTED_NODE)
        if waits and selected is None:
            return True  # the scheduler has the next word
        if storage_class is None or claim.spec.volume_name or storage_class.provisioner in ("", NO_PROVISIONER):
            return False
        node = self._cluster.find(Node, selected) if waits and selected is not None else None
        if waits and node is None:
            return False
        self._cluster.add(_made(claim, storage_class, self._topology(storage_class, node)))
        return True

    def _with_class(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Give a claim that names no class the default one, if there is any."""
        if claim.spec.storage_class_name is not None or claim_class(claim):
            return claim
        for each in self._cluster.objects(StorageClass):
            if each.metadata.annotations.get(_DEFAULT_CLASS) == "true":
                spec = replace(claim.spec, storage_class_name=each.metadata.name)
                return self._cluster.replace(replace(claim, spec=spec))
        return claim

    def _named_by(self, claim: PersistentVolumeClaim, wanted: Wanted) -> PersistentVolume | None:
        """Find the volume that the claim names; one that is not kept for it must be free and do."""
        volume = self._cluster.find(PersistentVolume, claim.spec.volume_name)
        if volume is None or is_claimed_by(volume, claim):
            return volume
        of_class = volume_class(volume) == claim_class(claim)
        return volume if volume.spec.claim_ref is None and of_class and wanted.may_be_bound(volume) else None

    def _kept_for(self, claim: PersistentVolumeClaim, wanted: Wanted) -> PersistentVolume | None:
        """Find a volume that is kept for the claim and will do, of whatever class."""
        kept = [self._cluster.read(PersistentVolume, each) for each in self._kept.get(key_of(claim), ())]
        return next((each for each in kept if is_claimed_by(each, claim) and wanted.may_be_bound(each)), None)

    def _smallest_for(self, claim: PersistentVolumeClaim, wanted: Wanted) -> PersistentVolume | None:
        name = claim_class(claim)
        free = [self._cluster.read(PersistentVolume, each) for each in self._free]
        fitting = [each for each in free if volume_class(each) == name and wanted.may_take(each)]
        return min(fitting, key=capacity, default=None)

    def _bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        """Bind a volume and a claim to each other; one bound by its author gets no bound-by-controller annotation."""
        by_us = {BOUND_BY_CONTROLLER: "yes"}
        of_volume = {} if is_claimed_by(volume, claim) else by_us
        of_claim = {BIND_COMPLETED: "yes"} | ({} if claim.spec.volume_name else by_us)
        taken = replace(volume.spec, claim_ref=claim_reference(claim))
        metadata, status = _annotated(volume.metadata, of_volume), PersistentVolumeStatus(phase="Bound")
        self._cluster.replace(replace(volume, metadata=metadata, spec=taken, status=status))
        served = replace(claim.spec, volume_name=volume.metadata.name)
        bound = PersistentVolumeClaimStatus(phase="Bound", access_modes=taken.access_modes, capacity=taken.capacity)
        metadata = _annotated(claim.metadata, of_claim)
        self._cluster.replace(replace(claim, metadata=metadata, spec=served, status=bound))

    def _topology(self, storage_class: StorageClass, node: Node | None) -> VolumeNodeAffinity | None:
        """Return the topology of a new volume: the part of the cluster that its class or driver derives from a node.

        Without a node it is all that the class allows.
        """
        allowed = storage_class.allowed_topologies
        if node is None:
            terms = [{each.key: each.values for each in term.match_label_expressions} for term in allowed]
            return _affinity(terms) if terms else None
        labels = node.metadata.labels
        mine = next((term for term in allowed if _covers(term, labels)), None)
        keys = [each.key for each in mine.match_label_expressions] if mine else self._keys(storage_class, node)
        here = {key: (labels[key],) for key in keys if key in labels}
        return _affinity([here]) if here else None

    def _keys(self, storage_class: StorageClass, node: Node) -> tuple[str, ...]:
        """Return the driver's topology labels; the hostname if it reports none."""
        csi_node = self._cluster.find(CSINode, node.metadata.name)
        drivers = csi_node.spec.drivers if csi_node is not None else ()
        told = (driver.topology_keys for driver in drivers if driver.name == storage_class.provisioner)
        return next(told, ()) or (_HOSTNAME,)


def _annotated(metadata: ObjectMeta, annotations: Mapping[str, str]) -> ObjectMeta:
    return replace(metadata, annotations=metadata.annotations | dict(annotations))


def _ephemeral_claim(pod: Pod, name: str, volume: Volume) -> PersistentVolumeClaim:
    template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
    template = template or PersistentVolumeClaimTemplate()
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True)
    metadata = ObjectMeta(
        name=name,
        namespace=pod.metadata.namespace,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=(owner,),
    )
    return PersistentVolumeClaim(metadata=metadata, spec=template.spec)


def _made(
    claim: PersistentVolumeClaim, storage_class: StorageClass, reached_from: VolumeNodeAffinity | None
) -> PersistentVolume:
    name, spec = f"pvc-{claim.metadata.uid}", claim.spec
    return PersistentVolume(
        metadata=ObjectMeta(name=name, annotations={PROVISIONED_BY: storage_class.provisioner}),
        spec=PersistentVolumeSpec(
            capacity=spec.resources.requests,
            access_modes=spec.access_modes,
            claim_ref=claim_reference(claim),
            storage_class_name=storage_class.metadata.name,
            volume_mode=spec.volume_mode,
            volume_attributes_class_name=spec.volume_attributes_class_name,
            persistent_volume_reclaim_policy=storage_class.reclaim_policy or "Delete",
            node_affinity=reached_from,
            csi=CSISource(driver=storage_class.provisioner, volume_handle=name),
        ),
    )


def _covers(term: TopologySelectorTerm, labels: Mapping[str, str]) -> bool:
    """Return whether a class allows a node with these labels; an empty term allows none."""
    said = term.match_label_expressions
    return bool(said) and all(labels.get(each.key) in each.values for each in said)


def _affinity(terms: Iterable[Mapping[str, tuple[str, ...]]]) -> VolumeNodeAffinity:
    """Return an affinity to nodes that have all labels of one term."""
    selected = [
        [NodeSelectorRequirement(key=key, operator="In", values=values) for key, values in term.items()]
        for term in terms
    ]
    either = tuple(NodeSelectorTerm(match_expressions=tuple(each)) for each in selected)
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=either))
