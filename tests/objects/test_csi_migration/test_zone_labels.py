"""The zone labels of CSI drivers in the node affinity of in-tree volumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from kframework.objects.csi_migration import migrated_plugins, node_affinity_after_migration
from tests.support.storage import affinity, label_affinity, migrated_csi_node, volume

EBS, EBS_ZONE = "kubernetes.io/aws-ebs", "topology.ebs.csi.aws.com/zone"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


EXISTS = {"operator": "Exists"}


def said(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


@pytest.mark.parametrize(
    ("labels", "before", "after"),
    [
        ({}, None, None),
        ({ZONE: "z"}, None, label_affinity(EBS_ZONE, "z")),
        ({ZONE: "z__y____z"}, None, label_affinity(EBS_ZONE, "y", "z")),
        ({OLD_ZONE: "z"}, None, label_affinity(EBS_ZONE, "z")),
        ({ZONE: "new", OLD_ZONE: "old"}, None, label_affinity(EBS_ZONE, "new")),
        ({ZONE: ""}, None, None),
        ({}, label_affinity(ZONE, "z"), label_affinity(EBS_ZONE, "z")),
        ({}, label_affinity(OLD_ZONE, "z"), label_affinity(EBS_ZONE, "z")),
        ({ZONE: "y"}, label_affinity(ZONE, "z"), label_affinity(EBS_ZONE, "z")),
        # The labels of the node affinity go before those of the volume.
        ({ZONE: "y"}, label_affinity(OLD_ZONE, "z"), label_affinity(EBS_ZONE, "z")),
        (
            {ZONE: "z"},
            label_affinity("rack", "1"),
            affinity({"matchExpressions": [said("rack", "1"), said(EBS_ZONE, "z")]}),
        ),
        (
            {},
            affinity({"matchExpressions": [said(OLD_ZONE, "z"), said(OLD_REGION, "r")]}),
            affinity({"matchExpressions": [said(EBS_ZONE, "z"), said(REGION, "r")]}),
        ),
        ({}, label_affinity(OLD_REGION, "r"), label_affinity(OLD_REGION, "r")),
        # A requirement without values tells no region.
        (
            {},
            affinity({"matchExpressions": [said(OLD_ZONE, "z"), EXISTS | {"key": OLD_REGION}]}),
            affinity({"matchExpressions": [said(EBS_ZONE, "z"), EXISTS | {"key": OLD_REGION}]}),
        ),
        (
            {ZONE: "z"},
            affinity({"matchExpressions": [said("rack", "1")]}, {"matchExpressions": [said("rack", "2")]}),
            affinity(
                {"matchExpressions": [said("rack", "1"), said(EBS_ZONE, "z")]},
                {"matchExpressions": [said("rack", "2"), said(EBS_ZONE, "z")]},
            ),
        ),
        ({}, affinity(), affinity()),
        ({ZONE: "z"}, affinity(), label_affinity(EBS_ZONE, "z")),
    ],
)
def test_node_affinity_in_the_labels_of_the_driver(
    labels: Mapping[str, str], before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> None:
    disk = volume(labels=labels, on=before, awsElasticBlockStore={"volumeID": "v"})
    expected = msgspec.convert({"spec": {"nodeAffinity": after}}, type(disk)).spec.node_affinity
    assert node_affinity_after_migration(disk, EBS) == expected


@pytest.mark.parametrize(
    ("plugin", "label"),
    [
        (EBS, EBS_ZONE),
        ("kubernetes.io/gce-pd", "topology.gke.io/zone"),
        ("kubernetes.io/cinder", "topology.cinder.csi.openstack.org/zone"),
        # These drivers have no zone labels of their own.
        ("kubernetes.io/azure-disk", ZONE),
        ("kubernetes.io/portworx-volume", ZONE),
    ],
)
def test_each_driver_has_its_own_label(plugin: str, label: str) -> None:
    assert (
        node_affinity_after_migration(volume(on=label_affinity(ZONE, "z")), plugin)
        == volume(on=label_affinity(label, "z")).spec.node_affinity
    )


def test_plugins_that_a_node_has_left_to_drivers() -> None:
    assert migrated_plugins(migrated_csi_node("n", EBS, "kubernetes.io/cinder")) == {EBS, "kubernetes.io/cinder"}
    assert migrated_plugins(migrated_csi_node("n")) == frozenset()
