"""Where volumes of the old in-tree plugins are reached once a CSI driver serves them: the driver's own zone labels."""

from __future__ import annotations

from msgspec.structs import replace

from kframework.objects.node import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kframework.objects.storage import CSINode, PersistentVolume, VolumeNodeAffinity

_MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_BETA_ZONE, _BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
#: By plugin, the node label under which its CSI driver knows zones; others have no zone labels of their own.
_ZONE_LABELS = {
    "kubernetes.io/aws-ebs": "topology.ebs.csi.aws.com/zone",
    "kubernetes.io/gce-pd": "topology.gke.io/zone",
    "kubernetes.io/cinder": "topology.cinder.csi.openstack.org/zone",
}


def migrated_plugins(csi_node: CSINode) -> frozenset[str]:
    """Name the in-tree plugins whose work CSI drivers do on a node."""
    return frozenset(filter(None, csi_node.metadata.annotations.get(_MIGRATED, "").split(",")))


def node_affinity_after_migration(volume: PersistentVolume, plugin: str) -> VolumeNodeAffinity | None:
    """Return the node affinity of a volume of this migrated plugin in the labels of its CSI driver.

    The zones are those of its node affinity or else, behind what that says otherwise, those of its labels.
    """
    if plugin not in _ZONE_LABELS:
        return volume.spec.node_affinity
    selector = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
    terms = selector.node_selector_terms if selector is not None else ()
    zone, region = _labels_in_use(volume, terms)
    valued = {each.key for term in terms for each in term.match_expressions if each.values}
    renamed = {region: _REGION} if region in valued else {}
    zones: tuple[str, ...] = ()
    if zone in valued:
        renamed[zone] = _ZONE_LABELS[plugin]
    else:
        names = {name.strip() for name in volume.metadata.labels.get(zone, "").split("__")}
        zones = tuple(sorted(filter(None, names)))
    if zones:
        added = NodeSelectorRequirement(key=_ZONE_LABELS[plugin], operator="In", values=zones)
        terms = tuple(_and(term, added) for term in terms or (NodeSelectorTerm(),))
    elif selector is None:
        return volume.spec.node_affinity
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=tuple(_with(term, renamed) for term in terms)))


def _labels_in_use(volume: PersistentVolume, terms: tuple[NodeSelectorTerm, ...]) -> tuple[str, str]:
    """Tell which zone and region labels the volume goes by: today's or the old ones."""
    used = {each.key for term in terms for each in term.match_expressions}
    for keys in (used, volume.metadata.labels.keys()):
        if _ZONE in keys:
            return _ZONE, _REGION
        if _BETA_ZONE in keys:
            return _BETA_ZONE, _BETA_REGION
    return _ZONE, _REGION


def _and(term: NodeSelectorTerm, requirement: NodeSelectorRequirement) -> NodeSelectorTerm:
    return replace(term, match_expressions=(*term.match_expressions, requirement))


def _with(term: NodeSelectorTerm, renamed: dict[str, str]) -> NodeSelectorTerm:
    expressions = tuple(replace(each, key=renamed.get(each.key, each.key)) for each in term.match_expressions)
    return replace(term, match_expressions=expressions)
