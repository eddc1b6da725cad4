"""Pods with volumes, and the storage that they wait for: what the volume plugins are checked with."""

from __future__ import annotations

from collections.abc import Mapping

from kframework.objects import ApiObject, Node, Pod
from kframework.testing import make_node, make_pod
from tests.storage import (
    HOSTNAME,
    ZONE,
    capacity,
    claim,
    driver,
    ephemeral,
    migrated,
    mounted,
    near,
    reference,
    storage_class,
    volume,
)

__all__ = ["NODES", "OBJECTS", "PODS"]

EBS, EBS_ZONE = "kubernetes.io/aws-ebs", "topology.ebs.csi.aws.com/zone"
DRIVER = "csi.example.com"

#: Pods that use claims, by plugin.
PODS: Mapping[str, list[Pod]] = {
    "VolumeBinding": [
        make_pod("with-data", cpu=None, memory=None, volumes=mounted("data")),
        make_pod("with-new", cpu=None, memory=None, volumes=mounted("new")),
        make_pod("with-old", cpu=None, memory=None, volumes=mounted("old")),
        make_pod("with-scratch", volumes=[ephemeral("scratch", "csi")]),
    ],
    "VolumeZone": [
        make_pod("with-data", cpu=None, memory=None, volumes=mounted("data")),
        make_pod("nameless", volumes=mounted("")),
    ],
}
#: Storage that comes, changes and goes.
OBJECTS: Mapping[str, list[ApiObject]] = {
    "VolumeBinding": [
        storage_class(),
        claim(),
        volume("disk"),
        volume("disk", on=near("disk", "ssd")),
        volume("kept", kept_for=reference(), on=near(HOSTNAME, "nowhere")),
        *[storage_class("csi", DRIVER)] * 2,
        storage_class("csi", DRIVER, allowed=[{ZONE: ["d"]}]),
        *[driver(DRIVER)] * 3,
        *[driver(DRIVER, counts=False)] * 2,
        claim("new", "csi", "5Gi"),
        capacity(size="1Gi"),
        capacity(size="9Gi"),
        claim("old", bound="ebs"),
        claim("old", of=""),
        volume("ebs", on=near(ZONE, "c"), awsElasticBlockStore={"volumeID": "vol-1"}),
        volume("ebs", on=near(ZONE, "d"), awsElasticBlockStore={"volumeID": "vol-1"}),
        *[migrated("given", EBS), migrated("given")] * 2,
    ],
    "VolumeZone": [
        *[claim(bound="disk")] * 3,
        claim(of=""),
        claim(of="csi"),
        claim(of="now"),
        storage_class("csi", DRIVER),
        storage_class("now", DRIVER, mode="Immediate"),
        storage_class("odd", DRIVER, mode=None),
        claim(of="odd"),
        volume("disk", labels={ZONE: "a"}),
        volume("disk", labels={ZONE: "b__c", "failure-domain.beta.kubernetes.io/zone": "b"}),
    ],
}
#: Nodes with the labels of a CSI driver, and with the old labels of zones.
NODES: Mapping[str, list[Node]] = {
    "VolumeBinding": [make_node("given", zone="d", labels={EBS_ZONE: "c"})],
    "VolumeZone": [make_node("old", labels={"failure-domain.beta.kubernetes.io/zone": "b"})],
}
