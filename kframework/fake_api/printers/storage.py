"""Tables of storage and devices: volumes, slices, claims, their classes and drivers."""

from __future__ import annotations

from kframework.fake_api.printers.layouts import CellReader, format_elapsed, lay_out
from kframework.fake_api.wire.documents import Data
from kframework.objects.plain_data import entries, mapping, name, text, value

_ACCESS_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _phase(document: Data, now: float) -> str:
    return "Terminating" if text(document, "metadata.deletionTimestamp") else text(document, "status.phase", "Pending")


def _claim(volume: Data, now: float) -> str:
    claim = mapping(volume, "spec.claimRef")
    return f"{text(claim, 'namespace')}/{text(claim, 'name')}" if claim else ""


def _capacity(claim: Data, now: float) -> str:
    return str(mapping(claim, "status.capacity").get("storage", "0")) if text(claim, "spec.volumeName") else ""


def _access_modes(claim: Data, now: float) -> str:
    return _short(value(claim, "status.accessModes")) if text(claim, "spec.volumeName") else ""


def _short(modes: object) -> str:
    return ",".join(short for mode, short in _ACCESS_MODES.items() if isinstance(modes, list) and mode in modes)


def _storage_class(document: Data, now: float) -> str:
    annotated = mapping(document, "metadata.annotations").get("volume.beta.kubernetes.io/storage-class")
    return annotated if isinstance(annotated, str) else text(document, "spec.storageClassName")


def _class_name(storage_class: Data, now: float) -> str:
    annotations = mapping(storage_class, "metadata.annotations")
    is_default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return name(storage_class) + (" (default)" if is_default else "")


def _requests(driver: Data, now: float) -> str:
    requests = entries(driver, "spec.tokenRequests")
    return ",".join(text(each, "audience") for each in requests) if requests else "<unset>"


def _modes(driver: Data, now: float) -> str:
    modes = value(driver, "spec.volumeLifecycleModes")
    return ",".join(map(str, modes)) if isinstance(modes, list) and modes else "Persistent"


_VOLUME_COLUMNS: dict[str, CellReader] = {
    "Access Modes": lambda volume, now: _short(value(volume, "spec.accessModes")),
    **{"Status": _phase, "Claim": _claim, "StorageClass": _storage_class},
}
STORAGE = {
    ("v1", "PersistentVolume"): lay_out(
        "Name, Capacity=spec.capacity.storage|0, Access Modes, "
        "Reclaim Policy=spec.persistentVolumeReclaimPolicy|Retain, Status, Claim, StorageClass, "
        "VolumeAttributesClass=spec.volumeAttributesClassName|<unset>, Reason=status.reason, Age, "
        "(VolumeMode)=spec.volumeMode|Filesystem",
        _VOLUME_COLUMNS,
    ),
    ("v1", "PersistentVolumeClaim"): lay_out(
        "Name, Status, Volume=spec.volumeName, Capacity, Access Modes, StorageClass, "
        "VolumeAttributesClass=spec.volumeAttributesClassName|<unset>, Age, (VolumeMode)=spec.volumeMode|Filesystem",
        _VOLUME_COLUMNS | {"Capacity": _capacity, "Access Modes": _access_modes},
    ),
    ("storage.k8s.io/v1", "StorageClass"): lay_out(
        "Name, Provisioner=provisioner, ReclaimPolicy=reclaimPolicy|Delete, "
        "VolumeBindingMode=volumeBindingMode|Immediate, AllowVolumeExpansion:boolean=allowVolumeExpansion, Age",
        {"Name": _class_name},
    ),
    ("storage.k8s.io/v1", "CSINode"): lay_out(
        "Name, Drivers:integer, Age", {"Drivers": lambda node, now: len(entries(node, "spec.drivers"))}
    ),
    ("storage.k8s.io/v1", "CSIDriver"): lay_out(
        "Name, AttachRequired:boolean, PodInfoOnMount:boolean=spec.podInfoOnMount, "
        "StorageCapacity:boolean=spec.storageCapacity, TokenRequests, "
        "RequiresRepublish:boolean=spec.requiresRepublish, Modes, Age",
        {
            "AttachRequired": lambda driver, now: value(driver, "spec.attachRequired") is not False,
            **{"TokenRequests": _requests, "Modes": _modes},
        },
    ),
    ("storage.k8s.io/v1", "CSIStorageCapacity"): lay_out(
        "Name, StorageClassName=storageClassName, Capacity=capacity|<unset>"
    ),
    ("storage.k8s.io/v1", "VolumeAttachment"): lay_out(
        "Name, Attacher=spec.attacher, PV=spec.source.persistentVolumeName, Node=spec.nodeName, "
        "Attached:boolean=status.attached, Age"
    ),
}


_GROUP = "resource.k8s.io/v1"


def _state(claim: Data, now: float) -> str:
    deleted = bool(text(claim, "metadata.deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if mapping(claim, "status.allocation"):
        states.append("allocated")
        if entries(claim, "status.reservedFor"):
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return ",".join(states)


DEVICES = {
    (_GROUP, "DeviceClass"): lay_out("Name, Age"),
    (_GROUP, "DeviceTaintRule"): lay_out(
        "Name, Key=spec.taint.key, Value=spec.taint.value, Effect=spec.taint.effect, TimeAdded, Age",
        {"TimeAdded": lambda rule, now: format_elapsed(text(rule, "spec.taint.timeAdded"), now)},
    ),
    (_GROUP, "ResourceClaim"): lay_out("Name, State, Age", {"State": _state}),
    (_GROUP, "ResourceClaimTemplate"): lay_out("Name, Age"),
    (_GROUP, "ResourceSlice"): lay_out("Name, Node=spec.nodeName, Driver=spec.driver, Pool=spec.pool.name, Age"),
}
