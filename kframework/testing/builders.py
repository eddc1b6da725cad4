"""Builders of pods and nodes, for tests of plugins.

    make_node("gpu-1", cpu=8, allocatable={"nvidia.com/gpu": 2}, taints=["dedicated=gpu:NoSchedule"])
    make_pod("train", cpu="500m", requests={"nvidia.com/gpu": 1}, tolerations=["dedicated:Exists"])

    MostPods(MostPodsArgs(), stub_handle()).filter(CycleState(), pending_pod(make_pod()), node_info(make_node()))

They return the objects of a cluster file, or their forms that hooks get. For fields without an argument here,
`msgspec.structs.replace` returns a changed copy of an object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Never
from uuid import NAMESPACE_URL, uuid5

import msgspec

from kframework.objects import (
    Affinity,
    Container,
    ContainerImage,
    ContainerPort,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    RawQuantity,
    Resources,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from kframework.objects.read_only import read_only
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates

_EFFECT = "NoSchedule|PreferNoSchedule|NoExecute"
_TAINT = re.compile(rf"([^=:]+)(?:=([^=:]*))?:({_EFFECT})")
_EQUAL = re.compile(rf"([^=:]+)=([^=:]*)(?::({_EFFECT}))?")
_EXISTS = re.compile(rf"([^=:]*)(?::(?:Exists|({_EFFECT})))?")
_NOTHING: Mapping[str, Never] = MappingProxyType({})


def make_pod(
    name: str = "pod",
    *,
    namespace: str = "default",
    labels: Mapping[str, str] = _NOTHING,
    annotations: Mapping[str, str] = _NOTHING,
    owner: OwnerReference | None = None,
    cpu: RawQuantity | None = "100m",
    memory: RawQuantity | None = "128Mi",
    requests: Mapping[str, RawQuantity] = _NOTHING,
    image: str = "",
    host_ports: Sequence[int] = (),
    containers: Sequence[Container] = (),
    init_containers: Sequence[Container] = (),
    overhead: Mapping[str, RawQuantity] = _NOTHING,
    node_name: str = "",
    node_selector: Mapping[str, str] = _NOTHING,
    affinity: Affinity | None = None,
    tolerations: Sequence[str | Toleration] = (),
    topology_spread: Sequence[TopologySpreadConstraint] = (),
    volumes: Sequence[Volume] = (),
    gates: Sequence[str] = (),
    priority: int | None = None,
    preemption_policy: str | None = None,
    scheduler_name: str = "default-scheduler",
    nominated_node_name: str = "",
    start_time: str | None = None,
    deletion_timestamp: str | None = None,
) -> Pod:
    """Make a pod of one container, on a node if `node_name` is given; its uid follows from namespace and name.

    `cpu`, `memory` and `requests` are what the container asks for; None leaves it out. `containers` are given in its
    place. Tolerations may be written as text (`make_toleration`); times are RFC 3339.
    """
    ports = tuple(ContainerPort(container_port=port, host_port=port, protocol="TCP") for port in host_ports)
    main = make_container(cpu=cpu, memory=memory, requests=requests, image=image, ports=ports)
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=_uid("pods", namespace, name),
            labels=dict(labels),
            annotations=dict(annotations),
            owner_references=(owner,) if owner is not None else (),
            deletion_timestamp=deletion_timestamp,
        ),
        spec=PodSpec(
            containers=tuple(containers) or (main,),
            init_containers=tuple(init_containers),
            overhead=dict(overhead),
            node_name=node_name,
            node_selector=dict(node_selector),
            affinity=affinity,
            tolerations=tuple(make_toleration(text) if isinstance(text, str) else text for text in tolerations),
            topology_spread_constraints=tuple(topology_spread),
            volumes=tuple(volumes),
            scheduling_gates=tuple(PodSchedulingGate(name=gate) for gate in gates),
            priority=priority,
            preemption_policy=preemption_policy,
            scheduler_name=scheduler_name,
        ),
        status=PodStatus(
            phase="Running" if node_name else "Pending",
            nominated_node_name=nominated_node_name,
            start_time=start_time,
        ),
    )


def make_container(
    name: str = "main",
    *,
    cpu: RawQuantity | None = None,
    memory: RawQuantity | None = None,
    requests: Mapping[str, RawQuantity] = _NOTHING,
    limits: Mapping[str, RawQuantity] = _NOTHING,
    image: str = "",
    ports: Sequence[ContainerPort] = (),
    sidecar: bool = False,
) -> Container:
    """Make a container; `sidecar` makes an init container that keeps running with the others."""
    return Container(
        name=name,
        image=image,
        ports=tuple(ports),
        resources=Resources(requests=_amounts(requests, cpu=cpu, memory=memory), limits=dict(limits)),
        restart_policy="Always" if sidecar else None,
    )


def make_node(
    name: str = "node",
    *,
    labels: Mapping[str, str] = _NOTHING,
    annotations: Mapping[str, str] = _NOTHING,
    zone: str = "",
    cpu: RawQuantity | None = 4,
    memory: RawQuantity | None = "16Gi",
    pods: int | None = 110,
    allocatable: Mapping[str, RawQuantity] = _NOTHING,
    taints: Sequence[str | Taint] = (),
    unschedulable: bool = False,
    images: Mapping[str, int] = _NOTHING,
) -> Node:
    """Make a node whose capacity is what it offers; its uid follows from the name.

    `cpu`, `memory`, `pods` and `allocatable` are what it offers; None leaves it out. It gets the hostname label and, if
    given, the `zone` label. Taints may be written as text (`make_taint`); `images` maps names to sizes in bytes.
    """
    offered = _amounts(allocatable, cpu=cpu, memory=memory, pods=pods)
    well_known = {"kubernetes.io/hostname": name} | ({"topology.kubernetes.io/zone": zone} if zone else {})
    return Node(
        metadata=ObjectMeta(
            name=name,
            uid=_uid("nodes", "", name),
            labels=well_known | dict(labels),
            annotations=dict(annotations),
        ),
        spec=NodeSpec(
            unschedulable=unschedulable,
            taints=tuple(make_taint(text) if isinstance(text, str) else text for text in taints),
        ),
        status=NodeStatus(
            capacity=offered,
            allocatable=offered,
            images=tuple(ContainerImage(names=(image,), size_bytes=size) for image, size in images.items()),
        ),
    )


def pending_pod(pod: Pod) -> PendingPod:
    """Return a pending pod as hooks get it, read-only."""
    return PendingPod(read_only(pod), TemplateInterner())


def node_info(node: Node, pods: Iterable[Pod] = ()) -> NodeInfo:
    """Make a node as hooks get it, with these pods on it, ignoring the pods' own node names."""
    name = node.metadata.name
    assigned = [msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=name)) for pod in pods]
    return node_table([node], assigned)[0]


def node_table(nodes: Iterable[Node], pods: Iterable[Pod] = ()) -> NodeTable:
    """Return nodes as columnar hooks get them, with the pods whose node name is one of theirs."""
    return cluster_state(nodes, pods).nodes


def cluster_state(
    nodes: Iterable[Node], pods: Iterable[Pod] = (), feature_gates: FeatureGates = DEFAULT_GATES
) -> ClusterState:
    """Return a scheduler's tables of a cluster with these nodes and the pods on them."""
    state = ClusterState(feature_gates)
    for node in nodes:
        state.put_node(read_only(node))
    for pod in pods:
        state.put_pod(read_only(pod))
    return state


def make_taint(text: str) -> Taint:
    """Read `key:Effect` or `key=value:Effect`, as `kubectl taint` does; raises ValueError."""
    match = _TAINT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a taint: write key=value:Effect or key:Effect, with one of {_EFFECT}")
    key, value, effect = match.groups("")
    return Taint(key=key, value=value, effect=effect)


def make_toleration(text: str) -> Toleration:
    """Read `key=value:Effect` (this value) or `key:Effect` (any value), either without its effect; raises ValueError.

    `key:Exists` is the same as `key`, `:Effect` covers every key, `:Exists` everything.
    """
    if equal := _EQUAL.fullmatch(text):
        key, value, effect = equal.groups("")
        return Toleration(key=key, operator="Equal", value=value, effect=effect)
    exists = _EXISTS.fullmatch(text)
    if not text or exists is None:
        forms = "key=value:Effect, key:Effect or key:Exists"
        raise ValueError(f"{text!r} is not a toleration: write {forms}, with one of {_EFFECT}")
    key, effect = exists.groups("")
    return Toleration(key=key, operator="Exists", effect=effect)


def _amounts(others: Mapping[str, RawQuantity], **native: RawQuantity | None) -> dict[str, RawQuantity]:
    return {name: amount for name, amount in native.items() if amount is not None} | dict(others)


def _uid(resource: str, namespace: str, name: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"{resource}/{namespace}/{name}"))
