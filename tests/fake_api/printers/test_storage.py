"""The rows of volumes, claims, classes and drivers."""

from __future__ import annotations

import pytest

from kframework.fake_api.printers.storage import DEVICES, STORAGE
from kframework.objects import (
    ApiObject,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DeviceClass,
    DeviceTaintRule,
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    StorageClass,
    VolumeAttachment,
    kind_of,
)

ApiDocument = dict[str, object]

NOW = 1767229200.0  # 2026-01-01T01:00:00Z
METADATA: ApiDocument = {"name": "a", "creationTimestamp": "2026-01-01T00:55:00Z"}


def cells(kind: type[ApiObject], document: ApiDocument) -> tuple[object, ...]:
    described = kind_of(kind)
    return (STORAGE | DEVICES)[described.api_version, described.name].cells(document, NOW)


def test_volume_row_shows_capacity_and_claim() -> None:
    volume: ApiDocument = {
        "metadata": METADATA,
        "spec": {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
            "claimRef": {"namespace": "default", "name": "data"},
            "storageClassName": "fast",
            "volumeMode": "Block",
        },
        "status": {"phase": "Bound"},
    }
    assert cells(PersistentVolume, volume) == (
        *("a", "5Gi", "RWO,RWX", "Retain", "Bound", "default/data", "fast", "<unset>", "", "5m", "Block"),
    )


def test_claim_row_shows_its_capacity_when_bound() -> None:
    claim: ApiDocument = {
        "metadata": METADATA,
        "spec": {"storageClassName": "fast"},
        "status": {"phase": "Pending", "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOncePod"]},
    }
    assert cells(PersistentVolumeClaim, claim) == (
        *("a", "Pending", "", "", "", "fast", "<unset>", "5m", "Filesystem"),
    )
    claim["spec"] = {"storageClassName": "fast", "volumeName": "v", "volumeAttributesClassName": "gold"}
    claim["metadata"] = {
        **METADATA,
        "deletionTimestamp": "2026-01-01T00:59:00Z",
        "annotations": {"volume.beta.kubernetes.io/storage-class": "slow"},
    }
    assert cells(PersistentVolumeClaim, claim) == (
        *("a", "Terminating", "v", "5Gi", "RWOP", "slow", "gold", "5m", "Filesystem"),
    )


def test_default_class_is_marked() -> None:
    storage_class: ApiDocument = {"metadata": METADATA, "provisioner": "x"}
    assert cells(StorageClass, storage_class) == ("a", "x", "Delete", "Immediate", False, "5m")
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage_class = {
        "metadata": {**METADATA, "annotations": annotations},
        "provisioner": "x",
        "reclaimPolicy": "Retain",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": True,
    }
    assert cells(StorageClass, storage_class) == ("a (default)", "x", "Retain", "WaitForFirstConsumer", True, "5m")


def test_driver_rows_show_counts_and_modes() -> None:
    assert cells(CSINode, {"metadata": METADATA, "spec": {"drivers": [{"name": "x"}]}}) == ("a", 1, "5m")
    assert cells(CSIDriver, {"metadata": METADATA}) == (
        *("a", True, False, False, "<unset>", False, "Persistent", "5m"),
    )
    spec: ApiDocument = {
        "attachRequired": False,
        "storageCapacity": True,
        "tokenRequests": [{"audience": "x"}, {"audience": "y"}],
        "volumeLifecycleModes": ["Persistent", "Ephemeral"],
    }
    assert cells(CSIDriver, {"metadata": METADATA, "spec": spec}) == (
        *("a", False, False, True, "x,y", False, "Persistent,Ephemeral", "5m"),
    )


def test_capacity_and_attachment_rows_are_printed() -> None:
    capacity: ApiDocument = {"metadata": METADATA, "storageClassName": "fast", "capacity": "1Ti"}
    assert cells(CSIStorageCapacity, capacity) == ("a", "fast", "1Ti")
    assert cells(CSIStorageCapacity, {"metadata": METADATA}) == ("a", "", "<unset>")
    spec = {"attacher": "x", "nodeName": "n1", "source": {"persistentVolumeName": "v"}}
    attachment: ApiDocument = {"metadata": METADATA, "spec": spec, "status": {"attached": True}}
    assert cells(VolumeAttachment, attachment) == ("a", "x", "v", "n1", True, "5m")


@pytest.mark.parametrize(
    ("deleted", "status", "state"),
    [
        (False, {}, "pending"),
        (False, {"allocation": {"devices": {}}}, "allocated"),
        (False, {"allocation": {"devices": {}}, "reservedFor": [{"name": "p"}]}, "allocated,reserved"),
        (True, {"allocation": {"devices": {}}, "reservedFor": [{"name": "p"}]}, "deleted,allocated,reserved"),
        (True, {}, "deleted"),
    ],
)
def test_device_claim_row_shows_its_state(deleted: bool, status: ApiDocument, state: str) -> None:
    metadata = METADATA | ({"deletionTimestamp": "2026-01-01T00:59:00Z"} if deleted else {})
    assert cells(ResourceClaim, {"metadata": metadata, "status": status}) == ("a", state, "5m")


def test_slice_row_shows_node_driver_and_pool() -> None:
    spec = {"nodeName": "n1", "driver": "gpu.example.com", "pool": {"name": "n1-gpus"}}
    assert cells(ResourceSlice, {"metadata": METADATA, "spec": spec}) == ("a", "n1", "gpu.example.com", "n1-gpus", "5m")
    spec.pop("nodeName")
    assert cells(ResourceSlice, {"metadata": METADATA, "spec": spec})[1] == ""


@pytest.mark.parametrize("kind", [DeviceClass, ResourceClaimTemplate])
def test_other_kinds_show_name_and_age(kind: type[ApiObject]) -> None:
    assert cells(kind, {"metadata": METADATA}) == ("a", "5m")


def test_rule_row_shows_its_taint_and_since_when_it_has_its_effect() -> None:
    taint = {"key": "worn", "value": "very", "effect": "NoExecute", "timeAdded": "2026-01-01T00:58:00Z"}
    rule: ApiDocument = {"metadata": METADATA, "spec": {"taint": taint}}
    assert cells(DeviceTaintRule, rule) == ("a", "worn", "very", "NoExecute", "2m", "5m")
