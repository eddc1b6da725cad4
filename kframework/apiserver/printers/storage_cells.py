"""What tables say about the kinds of storage: volumes, claims, their classes and drivers."""

from __future__ import annotations

from kframework.apiserver.wire.plain_data import age, entries, flag, mapping, name, text, value

_Document = dict[str, object]
_Cells = tuple[str | int | bool, ...]

_ACCESS_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def persistent_volume_cells(volume: _Document, now: float) -> _Cells:
    """Fill the columns of a PersistentVolume."""
    claim = mapping(volume, "spec.claimRef")
    return (
        name(volume),
        _capacity(volume, "spec.capacity"),
        _access_modes(volume, "spec.accessModes"),
        text(volume, "spec.persistentVolumeReclaimPolicy", "Retain"),
        _phase(volume, "Pending"),
        f"{text(claim, 'namespace')}/{text(claim, 'name')}" if claim else "",
        _storage_class(volume),
        text(volume, "spec.volumeAttributesClassName", "<unset>"),
        text(volume, "status.reason"),
        age(volume, now),
        text(volume, "spec.volumeMode", "Filesystem"),
    )


def persistent_volume_claim_cells(claim: _Document, now: float) -> _Cells:
    """Fill the columns of a PersistentVolumeClaim."""
    bound = text(claim, "spec.volumeName")
    return (
        name(claim),
        _phase(claim, "Pending"),
        bound,
        _capacity(claim, "status.capacity") if bound else "",
        _access_modes(claim, "status.accessModes") if bound else "",
        _storage_class(claim),
        text(claim, "spec.volumeAttributesClassName", "<unset>"),
        age(claim, now),
        text(claim, "spec.volumeMode", "Filesystem"),
    )


def storage_class_cells(storage_class: _Document, now: float) -> _Cells:
    """Fill the columns of a StorageClass."""
    annotations = mapping(storage_class, "metadata.annotations")
    is_default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return (
        name(storage_class) + (" (default)" if is_default else ""),
        text(storage_class, "provisioner"),
        text(storage_class, "reclaimPolicy", "Delete"),
        text(storage_class, "volumeBindingMode", "Immediate"),
        flag(storage_class, "allowVolumeExpansion"),
        age(storage_class, now),
    )


def csi_node_cells(node: _Document, now: float) -> _Cells:
    """Fill the columns of a CSINode."""
    return name(node), len(entries(node, "spec.drivers")), age(node, now)


def csi_driver_cells(driver: _Document, now: float) -> _Cells:
    """Fill the columns of a CSIDriver."""
    modes = value(driver, "spec.volumeLifecycleModes")
    requests = [text(each, "audience") for each in entries(driver, "spec.tokenRequests")]
    return (
        name(driver),
        value(driver, "spec.attachRequired") is not False,
        flag(driver, "spec.podInfoOnMount"),
        flag(driver, "spec.storageCapacity"),
        ",".join(requests) if requests else "<unset>",
        flag(driver, "spec.requiresRepublish"),
        ",".join(map(str, modes)) if isinstance(modes, list) and modes else "Persistent",
        age(driver, now),
    )


def csi_storage_capacity_cells(capacity: _Document, now: float) -> _Cells:
    """Fill the columns of a CSIStorageCapacity."""
    return name(capacity), text(capacity, "storageClassName"), str(capacity.get("capacity") or "<unset>")


def volume_attachment_cells(attachment: _Document, now: float) -> _Cells:
    """Fill the columns of a VolumeAttachment."""
    spec, attached = mapping(attachment, "spec"), flag(attachment, "status.attached")
    volume, node = text(spec, "source.persistentVolumeName"), text(spec, "nodeName")
    return name(attachment), text(spec, "attacher"), volume, node, attached, age(attachment, now)


def _phase(document: _Document, default: str) -> str:
    return "Terminating" if text(document, "metadata.deletionTimestamp") else text(document, "status.phase", default)


def _capacity(document: _Document, path: str) -> str:
    return str(mapping(document, path).get("storage", "0"))


def _access_modes(document: _Document, path: str) -> str:
    modes = value(document, path)
    return ",".join(short for mode, short in _ACCESS_MODES.items() if isinstance(modes, list) and mode in modes)


def _storage_class(document: _Document) -> str:
    annotated = mapping(document, "metadata.annotations").get("volume.beta.kubernetes.io/storage-class")
    return annotated if isinstance(annotated, str) else text(document, "spec.storageClassName")
