"""The volumes of CSI drivers that pods use, as counted by a node's attachment limits.

kube-scheduler reads the API server's version, so volumes that are only assumed to be bound do not count as such.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from kframework.objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    Volume,
    VolumeAttachment,
)
from kframework.objects.claims import claim_class, claim_name, is_controlled_by
from kframework.objects.csi_migration import (
    TranslationError,
    in_tree_plugin,
    translate_inline_volume,
    translate_volume,
    volume_driver,
)
from kframework.state.objects import Stores
from kframework.state.pods import PodInfo
from kframework.values.status import Code, Status, error, unresolvable

#: Kind, namespace and name of a looked-up object, whether it exists or not.
ObjectKey = tuple[type, str, str]


class VolumeId(NamedTuple):
    """A volume of a CSI driver; a claim without a volume is identified by its namespace and name."""

    driver: str
    handle: str | tuple[str, str]


class MigratedVolumeId(VolumeId):
    """An in-tree volume that a CSI driver serves on nodes with a CSINode; it equals the driver's own."""


class VolumeProblem(NamedTuple):
    """A problem with a volume of a pod: a rejection if its claim is missing, else an error.

    `migrated` ones concern in-tree volumes; they count only on nodes that have a CSINode.
    """

    status: Status
    migrated: bool = False


class UsedVolumes:
    """Distinct volumes, the problems of others in order of appearance, and the objects read.

    `error` is the first error; for a pod on a node, a missing claim is none. `native_drivers` are those of volumes that
    are not migrated.
    """

    __slots__ = ("error", "ids", "native_drivers", "problems", "read")

    def __init__(self, ids: Collection[VolumeId], problems: Iterable[VolumeProblem], read: Iterable[ObjectKey]) -> None:
        self.ids: frozenset[VolumeId] = frozenset(ids)
        self.native_drivers: frozenset[str] = frozenset(
            each.driver for each in ids if not isinstance(each, MigratedVolumeId)
        )
        self.problems: tuple[VolumeProblem, ...] = tuple(problems)
        self.read: frozenset[ObjectKey] = frozenset(read)
        errors = (problem.status for problem in self.problems if problem.status.code == Code.ERROR)
        self.error: Status | None = next(errors, None)


def limited_volumes(pod: PodInfo) -> tuple[Volume, ...]:
    """List the volumes that a CSI driver may attach: claims, ephemeral volumes and migratable in-tree ones."""

    def is_limited(volume: Volume) -> bool:
        return claim_name("", volume) is not None or in_tree_plugin(volume) is not None

    return pod.template.cached(limited_volumes, lambda spec: tuple(filter(is_limited, spec.volumes)))


def claim_names(pod: PodInfo) -> Iterator[str]:
    """Name the claims of a pod's volumes, ephemeral ones included."""
    return (name for _, name in _with_claim_names(pod) if name is not None)


def _with_claim_names(pod: PodInfo) -> Iterator[tuple[Volume, str | None]]:
    """Pair the limited volumes with the names of their claims, None for in-tree ones."""
    claims = iter(pod.claims)  # the volumes of its template do not name them
    for volume in limited_volumes(pod):
        yield volume, claim_name(pod.name, volume) if volume.persistent_volume_claim is None else next(claims)


class VolumeIds:
    """A resolver of volumes to the identifiers of their driver."""

    def __init__(self, stores: Stores) -> None:
        self._claims = stores.objects(PersistentVolumeClaim)
        self._volumes = stores.objects(PersistentVolume)
        self._classes = stores.objects(StorageClass)

    def pod_volumes(self, pod: PodInfo) -> UsedVolumes:
        ids: list[VolumeId] = []
        problems: list[VolumeProblem] = []
        read: set[ObjectKey] = set()
        for volume, claim in _with_claim_names(pod):
            if claim is None:
                result = _inline_volume_id(volume)
            else:
                result = self._find_claim_volume(pod, volume, claim, read)
            if isinstance(result, VolumeId):
                ids.append(result)
            elif result is not None:
                problems.append(VolumeProblem(result, migrated=claim is None))
        return UsedVolumes(ids, problems, read)

    def attached_volumes(self, attachments: Iterable[VolumeAttachment], read: Iterable[ObjectKey]) -> UsedVolumes:
        """Return the volumes of these attachments, attached or not; `read` are the keys that found them."""
        ids: list[VolumeId] = []
        keys = set(read)
        for attachment in attachments:
            name = attachment.spec.source.persistent_volume_name
            if not attachment.spec.attacher or name is None:
                continue
            keys.add((PersistentVolume, "", name))
            volume = self._volumes.latest(name)
            if volume is not None and volume.spec.csi is not None:
                ids.append(VolumeId(attachment.spec.attacher, volume.spec.csi.volume_handle))
        return UsedVolumes(ids, (), keys)

    def _find_claim_volume(
        self, pod: PodInfo, volume: Volume, name: str, read: set[ObjectKey]
    ) -> VolumeId | Status | None:
        namespace = pod.namespace
        if not name:
            return error("PersistentVolumeClaim had no name")
        read.add((PersistentVolumeClaim, namespace, name))
        claim = self._claims.latest(name, namespace)
        if claim is None:
            return unresolvable(f'looking up PVC {namespace}/{name}: persistentvolumeclaim "{name}" not found')
        if volume.ephemeral is not None and not is_controlled_by(claim.metadata, pod.uid):
            return error(f"PVC {namespace}/{name} was not created for pod {pod.key} (pod is not owner)")
        return self._claim_volume(claim, read)

    def _claim_volume(self, claim: PersistentVolumeClaim, read: set[ObjectKey]) -> VolumeId | None:
        """Return the claim's volume; without one it counts as one volume of its class's driver."""
        name = claim.spec.volume_name
        if name:
            read.add((PersistentVolume, "", name))
            volume = self._volumes.latest(name)
            if volume is not None:
                return _volume_id(volume)
        name = claim_class(claim)
        if not name:
            return None
        read.add((StorageClass, "", name))
        storage_class = self._classes.latest(name)
        provisioner = storage_class.provisioner if storage_class is not None else ""
        driver = volume_driver(provisioner)
        kind = VolumeId if driver == provisioner else MigratedVolumeId
        return kind(driver, (claim.metadata.namespace, claim.metadata.name)) if driver else None


def _volume_id(volume: PersistentVolume) -> VolumeId | None:
    try:
        source = volume.spec.csi or translate_volume(volume)
    except TranslationError:
        return None
    if source is None or not source.driver or not source.volume_handle:
        return None
    return (VolumeId if volume.spec.csi else MigratedVolumeId)(source.driver, source.volume_handle)


def _inline_volume_id(volume: Volume) -> VolumeId | Status | None:
    try:
        source = translate_inline_volume(volume)
    except TranslationError as problem:
        return error(f"converting volume({volume.name}) from inline to csi: {problem}")
    return MigratedVolumeId(source.driver, source.volume_handle) if source is not None else None
