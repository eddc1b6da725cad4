"""Cases of the plugins that look for volumes: claims, classes and volumes that come, change and go."""

from __future__ import annotations

from kframework.objects import Pod, Volume
from kframework.plugins import volume_binding, volume_zone
from kframework.testing import make_node, make_pod
from tests.contract.case import Case, World
from tests.support.storage import (
    HOSTNAME,
    ZONE,
    capacity,
    claim,
    claim_volumes,
    driver,
    ephemeral,
    label_affinity,
    migrated_csi_node,
    owned_by_pod,
    reference,
    storage_class,
    volume,
)

__all__ = ["CASES"]

EBS, EBS_ZONE = "kubernetes.io/aws-ebs", "topology.ebs.csi.aws.com/zone"
DRIVER = "csi.example.com"

OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
CLAIM_MISSING = 'persistentvolumeclaim "{}" not found'

SCRATCH = make_pod("with-scratch", volumes=[ephemeral("scratch", "csi")])


def using(claim_name: str, *volumes: Volume) -> Pod:
    """Make a pod that uses a claim, and other volumes."""
    name = f"with-{claim_name or 'none'}"
    return make_pod(name, cpu=None, memory=None, volumes=[*volumes, *claim_volumes(claim_name)])


#: Volumes that are there, bound to claims as they are needed.
FOUND = World(
    pods=[using("data", Volume(name="tmp"))],
    objects=[storage_class(), claim(), volume("disk"), volume("disk", on=label_affinity("disk", "ssd"))],
)
#: A volume that is kept for a claim, though no node reaches it, and another one.
KEPT = World(
    pods=[using("data")],
    objects=[
        storage_class(),
        claim(),
        volume("disk"),
        volume("kept", kept_for=reference(), on=label_affinity(HOSTNAME, "none")),
    ],
)
#: Volumes that are made where they are needed.
MADE = World(
    pods=[using("new"), SCRATCH],
    objects=[
        *[storage_class("csi", DRIVER)] * 2,
        storage_class("csi", DRIVER, allowed=[{ZONE: ["d"]}]),
        claim("new", "csi"),
        owned_by_pod(claim("with-scratch-scratch", "csi"), by=SCRATCH),
        claim("with-scratch-scratch", "csi"),
    ],
)
#: The same where there is too little room,
FULL = World(
    pods=[using("new")],
    objects=[
        storage_class("csi", DRIVER),
        driver(DRIVER),
        claim("new", "csi", "5Gi"),
        capacity(size="1Gi"),
        capacity(size="9Gi"),
    ],
)
#: and where the driver may stop telling how much there is.
UNTOLD = World(
    pods=[using("new")],
    objects=[
        storage_class("csi", DRIVER),
        *[driver(DRIVER)] * 2,
        driver(DRIVER, counts=False),
        claim("new", "csi", "5Gi"),
        capacity(size="1Gi"),
    ],
)
#: Volumes whose plugin moves out of the tree.
MOVED = World(
    nodes=[make_node("given", zone="d", labels={EBS_ZONE: "c"})],
    pods=[using("old")],
    objects=[
        claim("old", bound="ebs"),
        volume("ebs", on=label_affinity(ZONE, "c"), awsElasticBlockStore={"volumeID": "vol-1"}),
        volume("ebs", on=label_affinity(ZONE, "d"), awsElasticBlockStore={"volumeID": "vol-1"}),
        *[migrated_csi_node("given", EBS), migrated_csi_node("given")] * 2,
    ],
)
#: A claim that comes to grief.
LOST = World(
    pods=[using("old")],
    objects=[
        volume("ebs"),
        claim("old", of=""),
        claim("old", bound="ebs"),
        claim("old", bound="ebs", phase="Lost"),
        claim("old", bound="ebs", metadata={"deletionTimestamp": "2026-01-02T03:04:05Z"}),
    ],
)
#: Claims without a volume, each of a class of its name.
UNBOUND = ("csi", "now", "odd")

CASES: dict[str, Case] = {
    "VolumeBinding": Case(
        worlds=[FOUND, KEPT, MADE, FULL, UNTOLD, MOVED, LOST],
        reasons={
            *volume_binding.REASONS.values(),
            volume_binding.UNBOUND_IMMEDIATE,
            *map(CLAIM_MISSING.format, ("data", "new", "old")),
            *map(volume_binding.NOT_CREATED.format, ("with-scratch-scratch", "with-scratch-twin-scratch")),
            volume_binding.LOST.format("old", "ebs"),
            volume_binding.DELETED.format("old"),
            volume_binding.FOREIGN.format("default/with-scratch-scratch", "default/with-scratch"),
        },
        times=3,
        scores={0, 45},
        unreached={
            "VolumeBinding.pre_filter: return error(NO_BINDING_MODE.format(each.metadata.name))",
            "VolumeBinding.filter: except (SelectorError, TranslationError) as problem:",
            "VolumeBinding.filter: return error(str(problem))",
            # Only where the profile has the plugin at Filter and not at PreFilter.
            "VolumeBinding.filter: return None",
            # Each answer is made once.
            "_rejection_status: return unresolvable(*(reason for bit, reason in REASONS.items() if bits & bit))",
        },
    ),
    "VolumeZone": Case(
        worlds=[
            World(
                # With the old label of a zone.
                nodes=[make_node("old", labels={OLD_ZONE: "b"})],
                pods=[using("data")],
                objects=[
                    *[claim(of=""), claim(bound="disk")],
                    volume("disk", labels={ZONE: "a"}),
                    volume("disk", labels={ZONE: "b__c", OLD_ZONE: "b"}),
                ],
            ),
            World(
                pods=[using(""), *map(using, UNBOUND)],
                objects=[
                    *[claim(name, of=name) for name in UNBOUND],
                    storage_class("csi", DRIVER),
                    storage_class("now", DRIVER, mode="Immediate"),
                    storage_class("odd", DRIVER, mode=None),
                ],
            ),
        ],
        times=4,
        reasons={
            volume_zone.REASON,
            volume_zone.NAMELESS,
            volume_zone.WITHOUT_CLASS,
            volume_zone.WITHOUT_VOLUME,
            volume_zone.NO_BINDING_MODE.format("odd"),
            *map(CLAIM_MISSING.format, ("data", *UNBOUND)),
            'persistentvolume "disk" not found',
            *map('storageclass.storage.k8s.io "{}" not found'.format, UNBOUND),
        },
        # Only where the profile has the plugin at Filter and not at PreFilter.
        unreached={"VolumeZone.filter: return zones", "VolumeZone.filter_nodes: return bits | _UNKNOWN"},
    ),
}
