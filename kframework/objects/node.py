"""Nodes as the scheduler reads them, and the selectors that choose among them (core/v1)."""

from __future__ import annotations

import msgspec

from kframework.objects.meta import ApiObject, ApiStruct, Condition, ResourceList


class NodeSelectorRequirement(ApiStruct, frozen=True, kw_only=True):
    """A key, an operator (In, NotIn, Exists, DoesNotExist, Gt, Lt) and its values."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(ApiStruct, frozen=True, kw_only=True):
    """Requirements on labels and fields that must all hold; an empty term matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(ApiStruct, frozen=True, kw_only=True):
    """Terms; at least one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class Taint(ApiStruct, frozen=True, kw_only=True):
    """A mark on a node that keeps pods off it unless they tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(default="", name="providerID")


class NodeCondition(Condition, frozen=True, kw_only=True):
    """One observation of a node's health."""

    last_heartbeat_time: str | None = None


class ContainerImage(ApiStruct, frozen=True, kw_only=True):
    """An image present on a node, under all its names; the size is in bytes."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(ApiStruct, frozen=True, kw_only=True):
    """The `status` of a node."""

    capacity: ResourceList = msgspec.field(default_factory=dict)
    allocatable: ResourceList = msgspec.field(default_factory=dict)
    conditions: tuple[NodeCondition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(ApiObject, frozen=True, kw_only=True):
    """A machine that runs pods."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
