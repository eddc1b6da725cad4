"""Nodes, namespaces, pods and volumes as operations ask for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kframework.errors import InputError
from kframework.objects import (
    ApiObject,
    CSINode,
    DeviceAttribute,
    Namespace,
    Node,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ResourcePool,
)
from kframework.testing.scheduler_perf import workload_objects
from kframework.testing.scheduler_perf.definitions import (
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    CreateResourceClaims,
    CreateResourceDriver,
)
from tests.testing.scheduler_perf.written import NODE, POD, definition

ZONE = "topology.kubernetes.io/zone"
CLAIM = "apiVersion: v1\nkind: PersistentVolumeClaim\nspec: {accessModes: [ReadOnlyMany]}\n"
VOLUME = "apiVersion: v1\nkind: PersistentVolume\nspec: {csi: {driver: d}}\n"
DISK = "apiVersion: v1\nkind: PersistentVolume\nspec: {awsElasticBlockStore: {volumeID: x}}\n"


def made_nodes(folder: Path, step: str, first: int = 0, **templates: str) -> list[ApiObject]:
    """Make the nodes of one operation."""
    (operation,) = definition(folder, f"- {{opcode: createNodes, {step}}}", **templates).operations()
    assert isinstance(operation, CreateNodes)
    return [*workload_objects.make_nodes(operation, folder, first)]


def made_pods(folder: Path, step: str, default: str = "", **templates: str) -> list[ApiObject]:
    """Make the pods of one operation in the namespace `ns`."""
    (operation,) = definition(folder, f"- {{opcode: createPods, {step}}}", **templates).operations()
    assert isinstance(operation, CreatePods)
    return [*workload_objects.make_pods(operation, folder, "ns", default)]


def test_nodes_without_a_template_are_the_default_ones(tmp_path: Path) -> None:
    created = made_nodes(tmp_path, "count: 2")
    nodes = [each for each in created if isinstance(each, Node)]
    assert len({node.metadata.name for node in nodes}) == 2
    for node in nodes:
        assert node.metadata.labels == {"kubernetes.io/hostname": node.metadata.name}
        assert node.status.allocatable == {"pods": "110", "cpu": "4", "memory": "32Gi"}


def test_nodes_of_two_operations_have_distinct_names(tmp_path: Path) -> None:
    names = [each.metadata.name for first in (0, 3) for each in made_nodes(tmp_path, "count: 3", first)]
    assert len({*names}) == 6


def test_template_may_name_its_node(tmp_path: Path) -> None:
    named = NODE.replace("generateName: node-", "name: node-{{.Index}}\n  labels: {a: b}")
    created = made_nodes(tmp_path, "count: 2, nodeTemplatePath: node.yaml", node=named)
    assert [each.metadata.name for each in created] == ["node-0", "node-1"]
    assert created[1].metadata.labels == {"a": "b", "kubernetes.io/hostname": "node-1"}


def test_label_values_are_assigned_in_turn(tmp_path: Path) -> None:
    step = f"count: 5, labelNodePrepareStrategy: {{labelKey: {ZONE}, labelValues: [a, b]}}"
    assert [each.metadata.labels[ZONE] for each in made_nodes(tmp_path, step)] == ["a", "b", "a", "b", "a"]


def test_unique_label_is_the_node_name(tmp_path: Path) -> None:
    created = made_nodes(tmp_path, "count: 5, uniqueNodeLabelStrategy: {labelKey: rack}")
    assert len({each.metadata.labels["rack"] for each in created}) == 5


def test_allocatable_strategy_sets_resources_and_csi_limits(tmp_path: Path) -> None:
    step = """count: 1, nodeAllocatableStrategy: {nodeAllocatable: {example.com/gpu: "8"},
      csiNodeAllocatable: {ebs.csi.aws.com: {count: 39}}, migratedPlugins: [kubernetes.io/aws-ebs]}"""
    csi_node, node = made_nodes(tmp_path, step)
    assert isinstance(node, Node)
    assert node.status.allocatable == {"pods": "110", "cpu": "4", "memory": "32Gi", "example.com/gpu": "8"}
    assert isinstance(csi_node, CSINode)
    assert csi_node.metadata.name == node.metadata.name
    assert csi_node.metadata.annotations == {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
    (driver,) = csi_node.spec.drivers
    assert driver.allocatable is not None
    assert (driver.name, driver.allocatable.count) == ("ebs.csi.aws.com", 39)


@pytest.mark.parametrize(("template", "labels"), [("", {}), (", namespaceTemplatePath: namespace.yaml", {"team": "a"})])
def test_namespaces_are_numbered(tmp_path: Path, template: str, labels: dict[str, str]) -> None:
    step = f"- {{opcode: createNamespaces, prefix: ns, count: 2{template}}}"
    text = "apiVersion: v1\nkind: Namespace\nmetadata: {labels: {team: a}}\n"
    (operation,) = definition(tmp_path, step, namespace=text).operations()
    assert isinstance(operation, CreateNamespaces)
    created: Iterator[Namespace] = workload_objects.make_namespaces(operation, tmp_path)
    assert [(each.metadata.name, each.metadata.labels) for each in created] == [("ns-0", labels), ("ns-1", labels)]


def test_pods_without_a_template_are_the_default_ones(tmp_path: Path) -> None:
    created = made_pods(tmp_path, "count: 2")
    assert [each.metadata.namespace for each in created] == ["ns", "ns"]
    (pod, _) = created
    assert isinstance(pod, Pod)
    assert pod.spec.containers[0].resources.requests == {"cpu": "100m", "memory": "500Mi"}


@pytest.mark.parametrize(
    ("step", "default", "label"),
    [("", "usual.yaml", "usual"), (", podTemplatePath: own.yaml", "usual.yaml", "own")],
)
def test_own_template_precedes_the_default_one(tmp_path: Path, step: str, default: str, label: str) -> None:
    texts = {name: POD.replace("generateName: pod-", f"name: {name}") for name in ("usual", "own")}
    assert [each.metadata.name for each in made_pods(tmp_path, f"count: 1{step}", default, **texts)] == [label]


def test_pods_with_volumes_have_claims_and_volumes(tmp_path: Path) -> None:
    step = "count: 2, persistentVolumeTemplatePath: pv.yaml, persistentVolumeClaimTemplatePath: pvc.yaml"
    *_, claim, volume, pod = made_pods(tmp_path, step, pv=VOLUME, pvc=CLAIM)
    assert isinstance(claim, PersistentVolumeClaim)
    assert isinstance(volume, PersistentVolume)
    assert isinstance(pod, Pod)
    assert (claim.metadata.name, claim.metadata.namespace, claim.spec.volume_name) == ("pvc-1", "ns", "ns-vol-1")
    assert volume.metadata.name == "ns-vol-1"
    assert volume.spec.claim_ref is not None
    assert (volume.spec.claim_ref.namespace, volume.spec.claim_ref.name) == ("ns", "pvc-1")
    assert (claim.status.phase, volume.status.phase) == ("Bound", "Bound")
    assert volume.spec.csi is not None
    assert volume.spec.csi.volume_handle == "ns-vol-1"
    (mounted,) = pod.spec.volumes
    assert mounted.persistent_volume_claim is not None
    assert mounted.persistent_volume_claim.claim_name == "pvc-1"


def test_in_tree_volumes_have_unique_ids(tmp_path: Path) -> None:
    step = "count: 1, persistentVolumeTemplatePath: pv.yaml, persistentVolumeClaimTemplatePath: pvc.yaml"
    _, volume, _ = made_pods(tmp_path, step, pv=DISK, pvc=CLAIM)
    assert isinstance(volume, PersistentVolume)
    assert volume.spec.aws_elastic_block_store is not None
    assert volume.spec.aws_elastic_block_store.volume_id == "vol-0"


def test_template_of_another_kind_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"node\.yaml: expected a Pod, got a Node$"):
        made_pods(tmp_path, "count: 1, podTemplatePath: node.yaml", node=NODE)


def test_every_matching_node_has_a_slice(tmp_path: Path) -> None:
    step = "- {opcode: createResourceDriver, driverName: d, nodes: gpu-*, maxClaimsPerNodeParam: $devices}"
    (operation,) = definition(tmp_path, step, "{name: one, params: {devices: 2}}").operations()
    assert isinstance(operation, CreateResourceDriver)
    nodes = [Node(metadata=ObjectMeta(name=name)) for name in ("gpu-1", "cpu-1", "gpu-2")]
    created = [*workload_objects.make_slices(operation, nodes)]
    assert [each.metadata.name for each in created] == ["gpu-1", "gpu-2"]
    spec = created[1].spec
    assert (spec.driver, spec.node_name, spec.pool) == (
        "d",
        "gpu-2",
        ResourcePool(name="gpu-2", resource_slice_count=1),
    )
    assert [device.name for device in spec.devices] == ["instance-0", "instance-1"]
    assert spec.devices[1].attributes["dra.example.com/numa"] == DeviceAttribute(int_value=1)
    assert spec.devices[1].capacity["memory"].value == "1Gi"


def test_claims_have_the_operations_namespace(tmp_path: Path) -> None:
    claim = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {generateName: claim-}\n"
    step = "- {opcode: createResourceClaims, namespace: n, templatePath: claim.yaml, count: 3}"
    (operation,) = definition(tmp_path, step, claim=claim).operations()
    assert isinstance(operation, CreateResourceClaims)
    assert [each.metadata.namespace for each in workload_objects.make_claims(operation, tmp_path)] == ["n"] * 3
