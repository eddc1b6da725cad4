"""Volume sources keep the fields by which a scheduler tells volumes apart."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.objects.pod import Volume
from kframework.objects.storage import OpaqueSource, PersistentVolumeSpec
from tests.objects.conftest import RoundTrip

SHARED: list[dict[str, Any]] = [
    {"csi": {"driver": "d", "volumeHandle": "h", "readOnly": True}},
    {"gcePersistentDisk": {"pdName": "pd", "partition": 1, "readOnly": True}},
    {"awsElasticBlockStore": {"volumeID": "v", "partition": 1, "readOnly": True}},
    {"azureDisk": {"diskName": "n", "diskURI": "u", "readOnly": True}},
    {"azureFile": {"shareName": "n", "secretName": "s", "readOnly": True}},
    {"cinder": {"volumeID": "v", "readOnly": True}},
    {"vsphereVolume": {"volumePath": "p"}},
    {"portworxVolume": {"volumeID": "v", "readOnly": True}},
    {"iscsi": {"targetPortal": "p", "iqn": "q", "lun": 3, "readOnly": True}},
    {"rbd": {"monitors": ["a", "b"], "image": "i", "pool": "p", "readOnly": True}},
]
OF_PODS: list[dict[str, Any]] = [
    {"persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
    {"image": {"reference": "r", "pullPolicy": "Always"}},
    {
        "ephemeral": {
            "volumeClaimTemplate": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        }
    },
]


@pytest.mark.parametrize("source", SHARED, ids=lambda source: next(iter(source)))
def test_sources_of_pods_and_volumes(round_trip: RoundTrip, source: dict[str, Any]) -> None:
    round_trip(Volume, {"name": "v", **source})
    round_trip(PersistentVolumeSpec, source)


@pytest.mark.parametrize("source", OF_PODS, ids=lambda source: next(iter(source)))
def test_sources_of_pods(round_trip: RoundTrip, source: dict[str, Any]) -> None:
    round_trip(Volume, {"name": "v", **source})


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("configMap", "config_map"),
        ("secret", "secret"),
        ("projected", "projected"),
        ("emptyDir", "empty_dir"),
        ("hostPath", "host_path"),
        ("downwardAPI", "downward_api"),
        ("nfs", "nfs"),
    ],
)
def test_of_other_sources_the_presence_is_kept(name: str, field: str) -> None:
    volume = msgspec.convert({"name": "v", name: {"anything": 1}}, Volume)
    assert [key for key in Volume.__struct_fields__ if isinstance(getattr(volume, key), OpaqueSource)] == [field]


def test_source_no_scheduler_knows_is_none() -> None:
    assert msgspec.convert({"name": "v", "glusterfs": {"path": "p"}}, Volume) == Volume(name="v")
