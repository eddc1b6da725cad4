"""Pods and nodes in few words."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kframework.objects import Container, Node, NodeSpec, NodeStatus, ObjectMeta, Pod, PodSpec, Resources, Taint
from kframework.objects.label_selectors import exact_selector
from kframework.state.pod_counts import Selection

__all__ = ["node", "pod", "selection", "taint"]

REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"


def pod(
    name: str,
    requests: Mapping[str, str] | None = None,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    **spec: object,
) -> Pod:
    """Make a pod of one container; its uid is its name."""
    container = Container(name="main", resources=Resources(requests=dict(requests or {})))
    made = Pod(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=name, labels=dict(labels or {})),
        spec=PodSpec(containers=(container,)),
    )
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, **spec))


def node(
    name: str,
    allocatable: Mapping[str, str] | None = None,
    *,
    zone: str | None = None,
    labels: Mapping[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
    unschedulable: bool = False,
) -> Node:
    """Make a node; 4 cores, 8 GiB and 110 pods by default."""
    zoned = {} if zone is None else {REGION: "r", ZONE: zone}
    return Node(
        metadata=ObjectMeta(name=name, uid=name, labels={**zoned, **(labels or {})}),
        spec=NodeSpec(taints=taints, unschedulable=unschedulable),
        status=NodeStatus(allocatable=dict(allocatable or {"cpu": "4", "memory": "8Gi", "pods": "110"})),
    )


def taint(key: str, effect: str = "NoSchedule", time_added: str | None = None) -> Taint:
    """Make a taint without value."""
    return Taint(key=key, effect=effect, time_added=time_added)


def selection(namespace: str, *, terminating: bool = True, **labels: str) -> Selection:
    """Select the pods of a namespace that have these labels."""
    return Selection(frozenset((namespace,)), exact_selector(labels), terminating)
