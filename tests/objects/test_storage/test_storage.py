"""Volumes, claims and CSI objects keep every field a scheduler reads."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.objects.meta import ApiObject
from kframework.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tests.objects.conftest import RoundTrip

NODES = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
CLAIM_REF = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "namespace": "ns",
    "name": "data",
    "uid": "u",
    "resourceVersion": "3",
    "fieldPath": "spec",
}
CASES: list[tuple[type[ApiObject], dict[str, Any]]] = [
    (
        PersistentVolume,
        {
            "metadata": {"name": "pv"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "claimRef": CLAIM_REF,
                "storageClassName": "fast",
                "volumeMode": "Block",
                "volumeAttributesClassName": "gold",
                "persistentVolumeReclaimPolicy": "Retain",
                "nodeAffinity": {"required": NODES},
                "local": {"path": "/disk"},
                "hostPath": {},
                "nfs": {},
            },
            "status": {"phase": "Bound"},
        },
    ),
    (
        PersistentVolumeClaim,
        {
            "metadata": {"name": "data", "namespace": "ns"},
            "spec": {
                "accessModes": ["ReadWriteOncePod"],
                "selector": {"matchLabels": {"a": "b"}},
                "resources": {"requests": {"storage": 1024}, "limits": {"storage": "2Ki"}},
                "volumeName": "pv",
                "storageClassName": "",
                "volumeMode": "Filesystem",
                "volumeAttributesClassName": "gold",
            },
            "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}},
        },
    ),
    (
        StorageClass,
        {
            "metadata": {"name": "fast"},
            "provisioner": "csi.example.com",
            "parameters": {"type": "ssd"},
            "reclaimPolicy": "Delete",
            "allowVolumeExpansion": True,
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}],
        },
    ),
    (
        CSINode,
        {
            "metadata": {"name": "n1"},
            "spec": {
                "drivers": [
                    {"name": "d", "nodeID": "i-1", "topologyKeys": ["zone"], "allocatable": {"count": 0}},
                    {"name": "e", "nodeID": "i-1"},
                ]
            },
        },
    ),
    (CSIDriver, {"metadata": {"name": "d"}, "spec": {"attachRequired": False, "storageCapacity": True}}),
    (
        CSIStorageCapacity,
        {
            "metadata": {"name": "c", "namespace": "ns"},
            "nodeTopology": {"matchLabels": {"zone": "a"}},
            "storageClassName": "fast",
            "capacity": "10Gi",
            "maximumVolumeSize": 5,
        },
    ),
    (
        VolumeAttachment,
        {
            "metadata": {"name": "a"},
            "spec": {
                "attacher": "d",
                "nodeName": "n1",
                "source": {"persistentVolumeName": "pv", "inlineVolumeSpec": {"csi": {"driver": "d"}}},
            },
            "status": {"attached": True},
        },
    ),
]


@pytest.mark.parametrize(("struct", "fields"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_storage_objects_decode(round_trip: RoundTrip, struct: type[ApiObject], fields: dict[str, Any]) -> None:
    assert round_trip(struct, fields).metadata.name == fields["metadata"]["name"]
