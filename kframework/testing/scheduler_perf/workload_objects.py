"""The nodes, namespaces, pods, volumes and devices that operations ask for, as scheduler_perf makes them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from random import Random
from types import MappingProxyType
from uuid import UUID

from msgspec.structs import replace

from kframework.errors import InputError
from kframework.in_memory.admission import generate_name
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import (
    AllocationResult,
    ApiObject,
    Container,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClass,
    Namespace,
    Node,
    NodeStatus,
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSource,
    PersistentVolumeClaimStatus,
    PersistentVolumeStatus,
    Pod,
    PodSpec,
    ResourceClaim,
    ResourcePool,
    Resources,
    ResourceSlice,
    ResourceSliceSpec,
    Volume,
    VolumeNodeResources,
)
from kframework.objects.kinds import T
from kframework.plugins.dynamic_resources.allocated import AllocatedDevices
from kframework.plugins.dynamic_resources.allocator import DeviceSearch
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.inventory import Inventory
from kframework.plugins.dynamic_resources.requests import claim_key, request_options
from kframework.plugins.dynamic_resources.results import build_allocation
from kframework.plugins.dynamic_resources.selection import SelectorEvaluator
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.objects import ObjectStore
from kframework.testing.scheduler_perf.definitions import (
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    CreateResourceClaims,
    CreateResourceDriver,
    NodeAllocatable,
)
from kframework.testing.scheduler_perf.templates import template

_HOSTNAME = "kubernetes.io/hostname"
_MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"

_CAPACITY: dict[str, str | int | float] = {"pods": "110", "cpu": "4", "memory": "32Gi"}
_REQUESTS: dict[str, str | int | float] = {"cpu": "100m", "memory": "500Mi"}

#: What nodes and pods are without a template.
_NODE = Node(metadata=ObjectMeta(generate_name="node-"), status=NodeStatus(capacity=_CAPACITY, allocatable=_CAPACITY))
_POD = Pod(
    metadata=ObjectMeta(generate_name="pod-"),
    spec=PodSpec(containers=(Container(name="pause", resources=Resources(limits=_REQUESTS, requests=_REQUESTS)),)),
)


def make_nodes(operation: CreateNodes, folder: Path, first: int) -> Iterator[ApiObject]:
    """Make nodes, and what goes with them; `first` numbers them among all nodes of the workload."""
    path = operation.node_template_path
    for index in range(operation.count):
        node = _make_object(Node, folder / path, index, operation.count, operation.template_params) if path else _NODE
        name = node.metadata.name or generate_name(node.metadata.generate_name, first + index + 1)
        labels = {**node.metadata.labels, _HOSTNAME: name, **_prepared_labels(operation, index, name)}
        node = replace(node, metadata=replace(node.metadata, name=name, labels=labels))
        strategy = operation.node_allocatable_strategy
        if strategy is not None:
            allocatable = {**(node.status.allocatable or node.status.capacity), **strategy.node_allocatable}
            yield _csi_node(name, strategy)
            node = replace(node, status=replace(node.status, allocatable=allocatable))
        yield node


def _prepared_labels(operation: CreateNodes, index: int, name: str) -> dict[str, str]:
    if operation.label_node_prepare_strategy is not None:
        values = operation.label_node_prepare_strategy.label_values
        return {operation.label_node_prepare_strategy.label_key: values[index % len(values)]}
    if operation.unique_node_label_strategy is not None:
        return {operation.unique_node_label_strategy.label_key: name}
    return {}


def _csi_node(name: str, strategy: NodeAllocatable) -> CSINode:
    drivers = tuple(
        CSINodeDriver(name=driver, node_id=name, allocatable=VolumeNodeResources(count=limits.get("count")))
        for driver, limits in strategy.csi_node_allocatable.items()
    )
    annotations = {_MIGRATED_PLUGINS: ",".join(strategy.migrated_plugins)}
    return CSINode(metadata=ObjectMeta(name=name, annotations=annotations), spec=CSINodeSpec(drivers=drivers))


def make_namespaces(operation: CreateNamespaces, folder: Path) -> Iterator[Namespace]:
    """Make namespaces."""
    path = operation.namespace_template_path
    for index in range(operation.count):
        obj = (
            _make_object(Namespace, folder / path, index, operation.count) if path else Namespace(metadata=ObjectMeta())
        )
        yield replace(obj, metadata=replace(obj.metadata, name=f"{operation.prefix}-{index}"))


def make_pods(operation: CreatePods, folder: Path, namespace: str, default_template: str) -> Iterator[ApiObject]:
    """Make pods in a namespace, each after its own claim and volume if they are to have such."""
    path = operation.pod_template_path or default_template
    for index in range(operation.pods):
        pod = _make_object(Pod, folder / path, index, operation.pods, operation.template_params) if path else _POD
        if operation.persistent_volume_claim_template_path:
            claim, volume = _make_claim_and_volume(operation, folder, namespace, index)
            yield from (claim, volume)
            source = PersistentVolumeClaimSource(claim_name=claim.metadata.name)
            mounted = (Volume(name="vol", persistent_volume_claim=source),)
            pod = replace(pod, spec=replace(pod.spec, volumes=mounted))
        yield replace(pod, metadata=replace(pod.metadata, namespace=namespace))


def _make_claim_and_volume(
    operation: CreatePods, folder: Path, namespace: str, index: int
) -> tuple[PersistentVolumeClaim, PersistentVolume]:
    claim = _make_object(
        PersistentVolumeClaim, folder / operation.persistent_volume_claim_template_path, index, operation.pods
    )
    volume = _make_object(PersistentVolume, folder / operation.persistent_volume_template_path, index, operation.pods)
    claim_name, volume_name, source = f"pvc-{index}", f"{namespace}-vol-{index}", volume.spec
    if source.csi is not None:
        source = replace(source, csi=replace(source.csi, volume_handle=volume_name))
    elif source.aws_elastic_block_store is not None:
        disk = replace(source.aws_elastic_block_store, volume_id=f"vol-{index}")
        source = replace(source, aws_elastic_block_store=disk)
    bound_to = ObjectReference(kind="PersistentVolumeClaim", namespace=namespace, name=claim_name, api_version="v1")
    return (
        replace(
            claim,
            metadata=replace(claim.metadata, name=claim_name, namespace=namespace),
            spec=replace(claim.spec, volume_name=volume_name),
            status=PersistentVolumeClaimStatus(phase="Bound"),
        ),
        replace(
            volume,
            metadata=replace(volume.metadata, name=volume_name),
            spec=replace(source, claim_ref=bound_to),
            status=PersistentVolumeStatus(phase="Bound"),
        ),
    )


def make_slices(operation: CreateResourceDriver, nodes: Iterable[Node]) -> Iterator[ResourceSlice]:
    """Make a slice of devices for each node that fits."""
    devices = tuple(map(_device, range(operation.max_claims_per_node)))
    for name in (node.metadata.name for node in nodes):
        if fnmatchcase(name, operation.nodes):
            pool = ResourcePool(name=name, resource_slice_count=1)
            spec = ResourceSliceSpec(driver=operation.driver_name, node_name=name, pool=pool, devices=devices)
            yield ResourceSlice(metadata=ObjectMeta(name=name), spec=spec)


def _device(index: int) -> Device:
    attributes = {
        "model": DeviceAttribute(string_value="A100"),
        "family": DeviceAttribute(string_value="GPU"),
        "driverVersion": DeviceAttribute(version_value="1.2.3"),
        "dra.example.com/numa": DeviceAttribute(int_value=index),
    }
    return Device(name=f"instance-{index}", attributes=attributes, capacity={"memory": DeviceCapacity(value="1Gi")})


def make_claims(operation: CreateResourceClaims, folder: Path) -> Iterator[ResourceClaim]:
    """Make claims to devices."""
    for index in range(operation.count):
        claim = _make_object(ResourceClaim, folder / operation.template_path, index, operation.count)
        yield replace(claim, metadata=replace(claim.metadata, namespace=operation.namespace))


def _make_object(
    kind: type[T], file: Path, index: int, count: int, params: Mapping[str, int | str] = MappingProxyType({})
) -> T:
    obj = template(file).make(index, count, params)
    if not isinstance(obj, kind):
        raise InputError(f"expected a {kind.__name__}, got a {type(obj).__name__}", file=str(file))
    return obj


def allocate(cluster: MemoryCluster, namespace: str, random: Random) -> None:
    """Allocate devices to a namespace's claims, or all, on random nodes; AllocationError if one fits nowhere."""
    filling = _ClaimAllocator(cluster, random)
    waiting = [claim for claim in cluster.objects(ResourceClaim, namespace) if claim.status.allocation is None]
    for done, claim in enumerate(waiting):
        allocated = filling.allocation(claim)
        if allocated is None:
            raise AllocationError(f"claim {claim_key(claim)} fits no node, after {done} of {len(waiting)} claims")
        filling.note(cluster.replace(replace(claim, status=replace(claim.status, allocation=allocated))))


class _ClaimAllocator:
    """The nodes, slices and classes of a cluster, which stay as they are, and claims, which get devices."""

    def __init__(self, cluster: MemoryCluster, random: Random) -> None:
        nodes = NodeTable()
        for node in cluster.objects(Node):
            nodes.put(node)
        self._nodes = list(nodes)
        self._random = random
        self._classes = {each.metadata.name: each for each in cluster.objects(DeviceClass)}
        self._claims = _store(cluster, ResourceClaim)
        self._allocated = AllocatedDevices(self._claims)
        self._pools = cache(Inventory(_store(cluster, ResourceSlice)).pools)
        self._selection = SelectorEvaluator()

    def note(self, claim: ResourceClaim) -> None:
        self._claims.put(claim.metadata, claim)

    def allocation(self, claim: ResourceClaim) -> AllocationResult | None:
        allocations = (self._allocation_on(node, claim) for node in self._in_random_order())
        return next((each for each in allocations if each is not None), None)

    def _in_random_order(self) -> Iterator[NodeInfo]:
        """Shuffle the nodes only as far as they are asked for: most claims fit one of the first."""
        nodes = self._nodes
        for position in range(len(nodes)):
            drawn = self._random.randrange(position, len(nodes))
            nodes[position], nodes[drawn] = nodes[drawn], nodes[position]
            yield nodes[position]

    def _allocation_on(self, node: NodeInfo, claim: ResourceClaim) -> AllocationResult | None:
        requests = [request_options(claim, request, self._classes) for request in claim.spec.devices.requests]
        search = DeviceSearch(
            [claim],
            [requests],
            self._pools(node),
            self._allocated,
            lambda each, device: self._selection.matches(each, device, node),
        )
        devices = search.run(sys.maxsize)
        if devices is None:
            return None
        return build_allocation(
            claim, devices[0], node.name, lambda: str(UUID(int=self._random.getrandbits(128), version=4))
        )


def _store(cluster: MemoryCluster, kind: type[T]) -> ObjectStore[T]:
    store = ObjectStore[T]()
    for each in cluster.objects(kind):
        store.put(each.metadata, each)
    return store
