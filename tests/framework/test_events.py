"""Cluster events: kube-scheduler's numbers and names, its matching rule, and what an update is made of."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from kframework.framework.events import (
    DEFAULT_EVENTS,
    ActionType,
    ClusterEvent,
    EventResource,
    ObservedEvent,
    QueueingHint,
    event_resource,
    node_updates,
    pod_updates,
)
from kframework.objects import (
    ActualResources,
    ApiObject,
    ContainerStatus,
    CSINode,
    Namespace,
    Node,
    NodeCondition,
    Pod,
    PodDisruptionBudget,
    PodResourceClaimStatus,
    PodSchedulingGate,
    ReplicationController,
    Toleration,
    kind_of,
)
from kframework.state.nodes import is_heartbeat
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod
from tests.support.declared_kinds import Team
from tests.support.objects import node, pod, taint

A, R = ActionType, EventResource


@pytest.mark.parametrize(
    ("struct", "resource"),
    [
        (Pod, R.POD),
        (Namespace, R.NAMESPACE),
        (CSINode, R.CSI_NODE),
        (PodDisruptionBudget, "poddisruptionbudgets.v1.policy"),
        (ReplicationController, "replicationcontrollers.v1."),
        (Team, "teams.v1beta1.example.com"),
    ],
)
def test_event_resource_is_the_name_of_kube_scheduler_or_plural_version_group(
    struct: type[ApiObject], resource: str
) -> None:
    assert event_resource(kind_of(struct)) == resource


@pytest.mark.parametrize(
    ("action", "number"),
    [
        (A.ADD, 1),
        (A.DELETE, 2),
        (A.UPDATE_NODE_ALLOCATABLE, 4),
        (A.UPDATE_NODE_LABEL, 8),
        (A.UPDATE_NODE_TAINT, 16),
        (A.UPDATE_NODE_CONDITION, 32),
        (A.UPDATE_NODE_ANNOTATION, 64),
        (A.UPDATE_NODE_DECLARED_FEATURE, 128),
        (A.UPDATE_POD_LABEL, 256),
        (A.UPDATE_POD_SCALE_DOWN, 512),
        (A.UPDATE_POD_TOLERATION, 1024),
        (A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, 2048),
        (A.UPDATE_POD_GENERATED_RESOURCE_CLAIM, 4096),
        (A.UPDATE, 8188),
        (A.ALL, 8191),
    ],
)
def test_action_bits_equal_those_of_kube_scheduler(action: ActionType, number: int) -> None:
    assert action == number


def test_update_contains_all_update_bits() -> None:
    kinds = [action for action in ActionType if action.name and action.name.startswith("UPDATE_")]
    assert sum(kinds) == A.UPDATE
    assert A.ADD | A.DELETE | A.UPDATE == A.ALL


@pytest.mark.parametrize(
    ("resource", "action", "happened", "to", "matches"),
    [
        (R.NODE, A.ADD, A.ADD, R.NODE, True),
        (R.NODE, A.ADD, A.DELETE, R.NODE, False),
        (R.NODE, A.ADD | A.DELETE, A.DELETE, R.NODE, True),
        (R.NODE, A.ADD, A.ADD, R.CSI_NODE, False),
        # Pod stands for all kinds of pods, but they do not stand for it nor for each other.
        (R.POD, A.DELETE, A.DELETE, R.ASSIGNED_POD, True),
        (R.POD, A.DELETE, A.DELETE, R.UNSCHEDULED_POD, True),
        (R.POD, A.UPDATE, A.UPDATE, R.TARGET_POD, True),
        (R.ASSIGNED_POD, A.DELETE, A.DELETE, R.ASSIGNED_POD, True),
        (R.ASSIGNED_POD, A.DELETE, A.DELETE, R.UNSCHEDULED_POD, False),
        (R.UNSCHEDULED_POD, A.UPDATE, A.UPDATE, R.TARGET_POD, False),
        (R.TARGET_POD, A.UPDATE, A.UPDATE, R.UNSCHEDULED_POD, False),
        (R.TARGET_POD, A.UPDATE, A.UPDATE, R.TARGET_POD, True),
        (R.ASSIGNED_POD, A.DELETE, A.DELETE, R.POD, False),
        # Any resource.
        (R.ANY, A.ADD, A.ADD, R.STORAGE_CLASS, True),
        (R.ANY, A.ADD, A.DELETE, R.STORAGE_CLASS, False),
        (R.ANY, A.ALL, A.UPDATE, R.STORAGE_CLASS, True),
        (R.ANY, A.ALL, A.ALL, R.ANY, True),
        (R.NODE, A.ALL, A.ALL, R.ANY, False),
        # A general update matches whoever registered all updates, not who listed some.
        (R.POD, A.UPDATE, A.UPDATE, R.ASSIGNED_POD, True),
        (R.POD, A.ALL, A.UPDATE, R.ASSIGNED_POD, True),
        (R.POD, A.UPDATE_POD_LABEL, A.UPDATE, R.ASSIGNED_POD, False),
        (R.POD, A.UPDATE_POD_LABEL | A.UPDATE_POD_SCALE_DOWN, A.UPDATE, R.ASSIGNED_POD, False),
        (R.POD, A.ADD | A.DELETE | A.UPDATE_POD_GENERATED_RESOURCE_CLAIM, A.UPDATE, R.ASSIGNED_POD, False),
        # A special update matches whoever registered it or all.
        (R.POD, A.UPDATE, A.UPDATE_POD_LABEL, R.ASSIGNED_POD, True),
        (R.POD, A.UPDATE_POD_LABEL, A.UPDATE_POD_LABEL, R.ASSIGNED_POD, True),
        (R.POD, A.UPDATE_POD_LABEL, A.UPDATE_POD_SCALE_DOWN, R.ASSIGNED_POD, False),
        # Custom resources go by their name.
        ("foos.v1.example.com", A.ADD, A.ADD, "foos.v1.example.com", True),
        ("foos.v1.example.com", A.ADD, A.ADD, "foos.v2.example.com", False),
        ("Node", A.ADD, A.ADD, R.NODE, True),
        (R.NODE, A.ADD, A.ADD, "Node", True),
    ],
)
def test_registration_matches_events(
    resource: str, action: ActionType, happened: ActionType, to: str, matches: bool
) -> None:
    assert ClusterEvent(resource, action).matches(ObservedEvent(to, happened)) == matches


def test_hint_does_not_affect_matching() -> None:
    event = ClusterEvent(R.NODE, A.ADD, lambda pod, old, new: QueueingHint.SKIP)
    assert event.matches(ObservedEvent(R.NODE, A.ADD))


def test_default_events_equal_those_of_kube_scheduler() -> None:
    assert [(event.resource, event.action, event.hint) for event in DEFAULT_EVENTS] == [
        (resource, A.ALL, None)
        for resource in (
            "Pod",
            "Node",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "storage.k8s.io/CSINode",
            "storage.k8s.io/CSIDriver",
            "storage.k8s.io/CSIStorageCapacity",
            "storage.k8s.io/StorageClass",
            "resource.k8s.io/ResourceClaim",
            "resource.k8s.io/DeviceClass",
        )
    ]


@pytest.mark.parametrize(
    ("event", "label"),
    [
        (ObservedEvent(R.NODE, A.ADD), "NodeAdd"),
        (ObservedEvent(R.NODE, A.UPDATE_NODE_TAINT), "NodeUpdateNodeTaint"),
        (ObservedEvent(R.ASSIGNED_POD, A.DELETE), "AssignedPodDelete"),
        (ObservedEvent(R.ASSIGNED_POD, A.UPDATE_POD_SCALE_DOWN), "AssignedPodUpdatePodScaleDown"),
        (ObservedEvent(R.UNSCHEDULED_POD, A.UPDATE), "UnscheduledPodUpdate"),
        (
            ObservedEvent(R.TARGET_POD, A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
            "TargetPodUpdatePodSchedulingGatesEliminated",
        ),
        (ObservedEvent(R.CSI_NODE, A.ADD), "storage.k8s.io/CSINodeAdd"),
        (ObservedEvent("foos.v1.example.com", A.DELETE), "foos.v1.example.comDelete"),
        (ObservedEvent(R.ANY, A.ALL, name="UnschedulableTimeout"), "UnschedulableTimeout"),
    ],
)
def test_event_label_equals_that_of_kube_scheduler_metrics(event: ObservedEvent, label: str) -> None:
    assert event.label == label


@pytest.mark.parametrize(
    ("resource", "action", "wildcard"),
    [(R.ANY, A.ALL, True), ("*", A.ALL, True), (R.ANY, A.ADD, False), (R.NODE, A.ALL, False)],
)
def test_only_any_resource_with_all_actions_is_a_wildcard(resource: str, action: ActionType, wildcard: bool) -> None:
    assert ObservedEvent(resource, action).is_wildcard == wildcard


def changed(of: Node, **parts: Mapping[str, object]) -> Node:
    """Change fields of a node's metadata, spec and status."""
    replaced = {part: msgspec.structs.replace(getattr(of, part), **fields) for part, fields in parts.items()}
    return msgspec.structs.replace(of, **replaced)


READY = NodeCondition(type="Ready", status="True", reason="KubeletReady", last_heartbeat_time="2026-01-01T00:00:00Z")
PRESSURE = NodeCondition(type="MemoryPressure", status="False")
NODE = changed(node("a", taints=(taint("spot"),)), status={"conditions": (READY, PRESSURE)})
CORDONED = changed(NODE, spec={"unschedulable": True})

NODE_UPDATES: list[tuple[Node, Node, list[ActionType]]] = [
    (NODE, NODE, []),
    (NODE, changed(NODE, metadata={"resource_version": "2"}), []),
    (NODE, changed(NODE, status={"capacity": {"cpu": "9"}}), []),
    (NODE, changed(NODE, status={"conditions": (PRESSURE, READY)}), []),
    (NODE, changed(NODE, status={"conditions": (msgspec.structs.replace(READY, reason="x"), PRESSURE)}), []),
    (NODE, CORDONED, []),
    (CORDONED, NODE, [A.UPDATE_NODE_TAINT]),
    (CORDONED, changed(NODE, spec={"taints": ()}), [A.UPDATE_NODE_TAINT, A.UPDATE_NODE_TAINT]),
    (NODE, changed(NODE, spec={"taints": ()}), [A.UPDATE_NODE_TAINT]),
    (NODE, changed(NODE, spec={"unschedulable": True, "taints": ()}), [A.UPDATE_NODE_TAINT]),
    (NODE, changed(NODE, status={"allocatable": {"cpu": "9"}}), [A.UPDATE_NODE_ALLOCATABLE]),
    (NODE, changed(NODE, metadata={"labels": {"x": "y"}}), [A.UPDATE_NODE_LABEL]),
    (NODE, changed(NODE, metadata={"annotations": {"x": "y"}}), [A.UPDATE_NODE_ANNOTATION]),
    (NODE, changed(NODE, status={"declared_features": ("X",)}), [A.UPDATE_NODE_DECLARED_FEATURE]),
    (NODE, changed(NODE, status={"conditions": (READY,)}), [A.UPDATE_NODE_CONDITION]),
    (
        NODE,
        changed(NODE, status={"conditions": (msgspec.structs.replace(READY, status="False"), PRESSURE)}),
        [A.UPDATE_NODE_CONDITION],
    ),
    (
        CORDONED,
        changed(
            NODE,
            metadata={"labels": {"x": "y"}, "annotations": {"x": "y"}},
            spec={"taints": ()},
            status={"allocatable": {}, "conditions": (), "declared_features": ("X",)},
        ),
        [
            A.UPDATE_NODE_TAINT,
            A.UPDATE_NODE_ALLOCATABLE,
            A.UPDATE_NODE_LABEL,
            A.UPDATE_NODE_TAINT,
            A.UPDATE_NODE_CONDITION,
            A.UPDATE_NODE_ANNOTATION,
            A.UPDATE_NODE_DECLARED_FEATURE,
        ],
    ),
]


@pytest.mark.parametrize(("old", "new", "updates"), NODE_UPDATES)
def test_node_update_yields_its_changes(old: Node, new: Node, updates: list[ActionType]) -> None:
    assert list(node_updates(old, new)) == updates


@pytest.mark.parametrize(("old", "new", "updates"), NODE_UPDATES)
def test_every_node_event_changes_the_node_table(old: Node, new: Node, updates: list[ActionType]) -> None:
    assert not (updates and is_heartbeat(old, new))


def with_status(of: Pod, **fields: object) -> Pod:
    """Change fields of a pod's status."""
    return msgspec.structs.replace(of, status=msgspec.structs.replace(of.status, **fields))


def holding(cpu: str) -> tuple[ContainerStatus, ...]:
    """Say in a status that the container holds so much CPU."""
    return (ContainerStatus(name="main", resources=ActualResources(requests={"cpu": cpu})),)


GATE = PodSchedulingGate(name="quota")
CLAIM = PodResourceClaimStatus(name="gpu", resource_claim_name="gpu-x")


@pytest.mark.parametrize(
    ("old", "new", "updates"),
    [
        (pod("p"), pod("p"), [A.UPDATE]),
        (pod("p", priority=1), pod("p", priority=2), [A.UPDATE]),
        (pod("p"), pod("p", labels={"x": "y"}), [A.UPDATE_POD_LABEL]),
        (pod("p", {"cpu": "2"}), pod("p", {"cpu": "1999m"}), [A.UPDATE_POD_SCALE_DOWN]),
        (pod("p", {"cpu": "2"}), pod("p", {"cpu": "3"}), [A.UPDATE]),
        (pod("p", {"cpu": "2", "memory": "1Gi"}), pod("p", {"cpu": "2"}), [A.UPDATE_POD_SCALE_DOWN]),
        (pod("p", {"cpu": "0"}), pod("p"), [A.UPDATE_POD_SCALE_DOWN]),
        (pod("p", {"cpu": "2", "memory": "1Gi"}), pod("p", {"cpu": "3", "memory": "1"}), [A.UPDATE_POD_SCALE_DOWN]),
        (
            with_status(pod("p", {"cpu": "1"}), container_statuses=holding("2")),
            with_status(pod("p", {"cpu": "1"}), container_statuses=holding("1")),
            [A.UPDATE_POD_SCALE_DOWN],
        ),
        (
            with_status(pod("p", {"cpu": "2"}), container_statuses=holding("2")),
            with_status(pod("p", {"cpu": "1"}), container_statuses=holding("2")),
            [A.UPDATE],
        ),
        (
            pod("p", scheduling_gates=(GATE,)),
            pod("p"),
            [A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED],
        ),
        (
            pod("p", scheduling_gates=(GATE, PodSchedulingGate(name="other"))),
            pod("p", scheduling_gates=(GATE,)),
            [A.UPDATE],
        ),
        (pod("p"), pod("p", tolerations=(Toleration(key="x"),)), [A.UPDATE_POD_TOLERATION]),
        (
            pod("p", tolerations=(Toleration(key="x"),)),
            pod("p", tolerations=(Toleration(key="y"),)),
            [A.UPDATE],
        ),
        (
            pod("p"),
            with_status(pod("p"), resource_claim_statuses=(CLAIM,)),
            [A.UPDATE_POD_GENERATED_RESOURCE_CLAIM],
        ),
        (
            pod("p", {"cpu": "2"}, scheduling_gates=(GATE,)),
            with_status(
                pod("p", {"cpu": "1"}, labels={"x": "y"}, tolerations=(Toleration(key="x"),)),
                resource_claim_statuses=(CLAIM,),
            ),
            [
                A.UPDATE_POD_LABEL,
                A.UPDATE_POD_SCALE_DOWN,
                A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
                A.UPDATE_POD_TOLERATION,
                A.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
            ],
        ),
    ],
)
def test_pod_update_yields_its_changes(old: Pod, new: Pod, updates: list[ActionType]) -> None:
    interned = TemplateInterner()
    assert list(pod_updates(PendingPod(old, interned), PendingPod(new, interned))) == updates
