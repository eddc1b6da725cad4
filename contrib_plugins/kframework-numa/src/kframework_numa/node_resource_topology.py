"""The kind NodeResourceTopology, in which an agent on each node reports its NUMA zones."""

from __future__ import annotations

from kframework.objects import ApiObject, ApiStruct, PrinterColumn, RawQuantity, kind


class TopologyAttribute(ApiStruct, frozen=True, kw_only=True):
    """A fact about the node: the policy and the scope of its topology manager, or the fingerprint of its pods."""

    name: str
    value: str = ""


class ZoneCost(ApiStruct, frozen=True, kw_only=True):
    """The distance to another zone."""

    name: str
    value: int = 0


class ZoneResource(ApiStruct, frozen=True, kw_only=True):
    """What a zone has of a resource: in all, for pods, and for pods to come."""

    name: str
    capacity: RawQuantity = 0
    allocatable: RawQuantity = 0
    available: RawQuantity = 0


class TopologyZone(ApiStruct, frozen=True, kw_only=True):
    """A part of the machine; those of type `Node` are NUMA nodes, named `node-0`, `node-1` and so on."""

    name: str
    type: str = ""
    parent: str = ""
    costs: tuple[ZoneCost, ...] = ()
    attributes: tuple[TopologyAttribute, ...] = ()
    resources: tuple[ZoneResource, ...] = ()


@kind(
    "topology.node.k8s.io/v1alpha2",
    "noderesourcetopologies",
    namespaced=False,
    short_names=("node-res-topo",),
    columns=(PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),),
)
class NodeResourceTopology(ApiObject, frozen=True, kw_only=True):
    """The zones of the node of the same name, with what their pods left available when it was written."""

    topology_policies: tuple[str, ...] = ()
    zones: tuple[TopologyZone, ...] = ()
    attributes: tuple[TopologyAttribute, ...] = ()
