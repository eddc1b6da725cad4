"""Cases of the plugins that look at which volumes are in use: on a node, or anywhere."""

from __future__ import annotations

import msgspec

from kframework.objects import (
    ISCSI,
    RBD,
    AWSElasticBlockStore,
    CSIDriver,
    GCEPersistentDisk,
    ObjectMeta,
    Pod,
    Volume,
)
from kframework.objects.storage import CSIDriverSpec
from kframework.plugins import node_volume_limits, volume_restrictions
from kframework.testing import make_node
from tests.contract.case import UU, Case, U, World
from tests.support.volumes_in_use import attachment, claim, csi_node, csi_volume, storage_class, using

__all__ = ["CASES"]

GCE = Volume(name="gce", gce_persistent_disk=GCEPersistentDisk(pd_name="a"))
GCE_READ_ONLY = Volume(name="gce", gce_persistent_disk=GCEPersistentDisk(pd_name="a", read_only=True))
EBS = Volume(name="ebs", aws_elastic_block_store=AWSElasticBlockStore(volume_id="vol-1"))
#: A CSI driver.
D = "d"
MISSING = 'persistentvolumeclaim "{}" not found'


def bound_to_node_1(*volumes: str | Volume, name: str) -> Pod:
    """Make a pod with these volumes, claims by their names, that waits for one node."""
    pod = using(*volumes, name=name)
    spec = msgspec.structs.replace(pod.spec, node_selector={"kubernetes.io/hostname": "node-1"})
    return msgspec.structs.replace(pod, spec=spec)


NODES = [make_node("node-1")]
#: Each pod needs one volume that is there; but the node may have no room for it.
LIMITED = World(
    nodes=NODES,
    pods=[bound_to_node_1(f"c{number}", name=f"pod-{number}") for number in range(1, 4)],
    objects=[
        *[claim(f"c{number}", f"v{number}") for number in range(1, 4)],
        *[csi_volume(f"v{number}", D) for number in range(1, 4)],
        *[csi_node("node-1", {D: limit}) for limit in (0, 1, 1, 2)],
    ],
    other_plugins=["NodeAffinity"],
)
#: Volumes that are still to be made count for the driver of their class.
UNMADE = World(
    nodes=NODES,
    pods=[
        *[bound_to_node_1(f"c{number}", name=f"pod-{number}") for number in range(1, 6)],
        bound_to_node_1("c1", "c2", name="both"),
    ],
    objects=[
        *[claim(f"c{number}", storage_class="fast") for number in range(1, 6)],
        storage_class("fast", D),
        *[csi_node("node-1", {D: limit}) for limit in (1, 1, 2)],
    ],
    other_plugins=["NodeAffinity"],
)
#: Volumes that stay attached when their pods are gone, and one that no claim is needed for.
ATTACHED = World(
    nodes=NODES,
    pods=[using("c1", name="one"), bound_to_node_1("c2", name="two"), bound_to_node_1(EBS, name="inline")],
    objects=[
        *[claim(f"c{number}", f"v{number}") for number in (1, 2)],
        *[csi_volume(f"v{number}", D) for number in (1, 2, 9)],
        attachment("x", "node-1", "v9", D),
        *[csi_node("node-1", {D: limit, "ebs.csi.aws.com": 0}) for limit in (1, 2)],
    ],
    other_plugins=["NodeAffinity"],
)

#: A driver that asks to keep its pods off nodes without it, now and then.
REQUIRED = World(
    nodes=NODES,
    pods=[bound_to_node_1("c1", name="one"), bound_to_node_1(EBS, name="inline")],
    objects=[
        claim("c1", "v1"),
        csi_volume("v1", D),
        *[
            CSIDriver(metadata=ObjectMeta(name=name), spec=CSIDriverSpec(prevent_pod_scheduling_if_missing=asks))
            for name in (D, "ebs.csi.aws.com")
            for asks in (True, True, False)
        ],
        *[csi_node("node-1", drivers) for drivers in ({D: None}, {}, {D: None, "ebs.csi.aws.com": None})],
    ],
    other_plugins=["NodeAffinity"],
)

CASES: dict[str, Case] = {
    "NodeVolumeLimits": Case(
        worlds=[LIMITED, UNMADE, ATTACHED, REQUIRED],
        reasons={
            node_volume_limits.REASON,
            *map(node_volume_limits.NOT_INSTALLED.format, (D, "ebs.csi.aws.com")),
            *(f"looking up PVC default/{name}: {MISSING.format(name)}" for name in ("c1", "c2", "c3", "c4", "c5")),
        },
        codes={U, UU},
        unreached={
            "NodeVolumeLimits.filter: return attachments.errors[row]",
            "NodeVolumeLimits.filter_nodes: raise VolumeError(first.status.message)",
            "NodeVolumeLimits.filter_nodes: if row in attachments.errors and not bits[row] & _NO_DRIVER:",
            "NodeVolumeLimits.filter_nodes: raise VolumeError(attachments.errors[row].message)",
        },
    ),
    "VolumeRestrictions": Case(
        worlds=[
            World(
                pods=[
                    using(GCE, name="disk"),
                    using(GCE_READ_ONLY, EBS, name="disks"),
                    using(GCE, name="foreign", namespace="other"),
                    using(Volume(name="iscsi", iscsi=ISCSI(iqn="i")), name="iscsi"),
                    using(Volume(name="rbd", rbd=RBD(monitors=("m",), image="i", pool="p")), name="rbd"),
                    using("one", name="one"),
                    using("one", "more", name="both"),
                ],
                objects=[claim(name, modes=("ReadWriteOncePod",)) for name in ("one", "more")],
            )
        ],
        reasons={
            volume_restrictions.DISK_TAKEN,
            volume_restrictions.CLAIM_IN_USE,
            *map(MISSING.format, ("one", "more")),
        },
        codes={U, UU},
    ),
}
