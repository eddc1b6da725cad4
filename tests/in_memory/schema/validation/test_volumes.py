"""Volumes with unusual but valid fields have no problems."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.in_memory.schema.validation.volumes import descending_path_causes, storage_causes, volume_causes


@pytest.mark.parametrize(
    "source",
    [
        {"emptyDir": {"sizeLimit": "1Gi"}},
        {"emptyDir": {}},
        {"configMap": {"name": "m", "defaultMode": 0o777, "items": [{"key": "k", "path": "a/b", "mode": 0}]}},
        {"hostPath": {"path": "/a..b", "type": ""}},
        {"nfs": {"server": "s", "path": "/"}},
        {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"projected": {"sources": []}},
    ],
)
def test_valid_source_has_no_causes(source: dict[str, Any]) -> None:
    assert [str(each) for each in volume_causes({"name": "v", **source}, "v")] == []


def test_volume_has_one_source() -> None:
    found = volume_causes({"name": "v", "emptyDir": {}, "hostPath": {"path": "/a"}}, "v")
    assert [str(each) for each in found] == ["v.hostPath: Forbidden: may not specify more than 1 volume type"]


@pytest.mark.parametrize(
    ("target", "is_valid"), [("", True), ("a/b", True), ("..a", True), ("/a", False), ("a/..", False)]
)
def test_path_descends(target: str, is_valid: bool) -> None:
    assert (not [*descending_path_causes(target, "p")]) == is_valid


@pytest.mark.parametrize(
    ("kind", "spec", "found"),
    [
        (
            "PersistentVolume",
            {"capacity": {"storage": "1"}, "accessModes": ["x"], "csi": {}, "volumeMode": "Block"},
            [],
        ),
        (
            "PersistentVolume",
            {"capacity": {"storage": "1"}, "accessModes": ["x"], "local": {"path": "/d"}},
            ["spec.nodeAffinity: Required value: Local volume requires node affinity"],
        ),
        (
            "PersistentVolume",
            {"capacity": {"storage": "1"}, "accessModes": ["x"]},
            ["spec: Required value: must specify a volume type"],
        ),
        ("CSIDriver", {"fsGroupPolicy": "File", "volumeLifecycleModes": ["Ephemeral"]}, []),
        ("VolumeAttachment", {"nodeName": "n", "source": {}}, ["spec.attacher: Required value"]),
    ],
)
def test_objects_of_storage_have_what_they_need(kind: str, spec: dict[str, Any], found: list[str]) -> None:
    assert [str(each) for each in storage_causes({"spec": spec}, kind)] == found
