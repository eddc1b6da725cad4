"""The rows of volumes, claims, classes and drivers."""

from __future__ import annotations

from kframework.apiserver.printers.storage_cells import (
    csi_driver_cells,
    csi_node_cells,
    csi_storage_capacity_cells,
    persistent_volume_cells,
    persistent_volume_claim_cells,
    storage_class_cells,
    volume_attachment_cells,
)

Document = dict[str, object]

NOW = 1767229200.0  # 2026-01-01T01:00:00Z
METADATA: Document = {"name": "a", "creationTimestamp": "2026-01-01T00:55:00Z"}


def test_a_volume_says_what_it_holds_and_for_whom() -> None:
    volume: Document = {
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
    assert persistent_volume_cells(volume, NOW) == (
        *("a", "5Gi", "RWO,RWX", "Retain", "Bound", "default/data", "fast", "<unset>", "", "5m", "Block"),
    )


def test_a_claim_says_its_capacity_once_it_is_bound() -> None:
    claim: Document = {
        "metadata": METADATA,
        "spec": {"storageClassName": "fast"},
        "status": {"phase": "Pending", "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOncePod"]},
    }
    assert persistent_volume_claim_cells(claim, NOW) == (
        *("a", "Pending", "", "", "", "fast", "<unset>", "5m", "Filesystem"),
    )
    claim["spec"] = {"storageClassName": "fast", "volumeName": "v", "volumeAttributesClassName": "gold"}
    claim["metadata"] = {
        **METADATA,
        "deletionTimestamp": "2026-01-01T00:59:00Z",
        "annotations": {"volume.beta.kubernetes.io/storage-class": "slow"},
    }
    assert persistent_volume_claim_cells(claim, NOW) == (
        *("a", "Terminating", "v", "5Gi", "RWOP", "slow", "gold", "5m", "Filesystem"),
    )


def test_the_default_class_says_so() -> None:
    storage_class: Document = {"metadata": METADATA, "provisioner": "x"}
    assert storage_class_cells(storage_class, NOW) == ("a", "x", "Delete", "Immediate", False, "5m")
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage_class = {
        "metadata": {**METADATA, "annotations": annotations},
        "provisioner": "x",
        "reclaimPolicy": "Retain",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": True,
    }
    assert storage_class_cells(storage_class, NOW) == ("a (default)", "x", "Retain", "WaitForFirstConsumer", True, "5m")


def test_drivers_are_counted_and_described() -> None:
    assert csi_node_cells({"metadata": METADATA, "spec": {"drivers": [{"name": "x"}]}}, NOW) == ("a", 1, "5m")
    assert csi_driver_cells({"metadata": METADATA}, NOW) == (
        *("a", True, False, False, "<unset>", False, "Persistent", "5m"),
    )
    spec: Document = {
        "attachRequired": False,
        "storageCapacity": True,
        "tokenRequests": [{"audience": "x"}, {"audience": "y"}],
        "volumeLifecycleModes": ["Persistent", "Ephemeral"],
    }
    assert csi_driver_cells({"metadata": METADATA, "spec": spec}, NOW) == (
        *("a", False, False, True, "x,y", False, "Persistent,Ephemeral", "5m"),
    )


def test_capacities_and_attachments() -> None:
    capacity: Document = {"metadata": METADATA, "storageClassName": "fast", "capacity": "1Ti"}
    assert csi_storage_capacity_cells(capacity, NOW) == ("a", "fast", "1Ti")
    assert csi_storage_capacity_cells({"metadata": METADATA}, NOW) == ("a", "", "<unset>")
    spec = {"attacher": "x", "nodeName": "n1", "source": {"persistentVolumeName": "v"}}
    attachment: Document = {"metadata": METADATA, "spec": spec, "status": {"attached": True}}
    assert volume_attachment_cells(attachment, NOW) == ("a", "x", "v", "n1", True, "5m")
