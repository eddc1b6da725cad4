"""EnqueueExtensions: which events wake a pod that a plugin rejected."""

from __future__ import annotations

import pytest

from kframework import (
    ActionType,
    ClusterEvent,
    ConfigError,
    EventResource,
    PendingPod,
    QueueingHint,
    unschedulable,
)
from kframework.framework.plugin import Watch
from kframework.objects import ApiObject, ObjectMeta, ReplicaSet, StorageClass
from kframework.simulation.running import Action
from kframework.testing import make_node, make_pod
from kframework.testing.scenario import create, delete, patch
from kframework.values.feature_gates import LATEST_MINOR, MINORS
from tests.extension_points.scripted import plugin, run, scenario
from tests.support.declared_kinds import team

POOL = make_pod("pod", labels={"app": "web"}, tolerations=["x:Exists"], cpu="200m")
OTHER = make_pod("other", node_name="a", cpu="200m")
NODE = make_node("a", labels={"disk": "hdd"}, taints=["old:NoSchedule"])


def registered(resource: str, action: ActionType) -> list[ClusterEvent]:
    return [ClusterEvent(resource, action)]


def labelled(obj: object, **labels: str) -> Action:
    return patch(obj, {"metadata": {"labels": labels}})  # type: ignore[arg-type]  # pods and nodes


CREATE_NODE = create(make_node("b"))
DELETE_NODE = delete(make_node("spare"))
MORE_CPU = patch(NODE, {"status": {"allocatable": {"cpu": "9", "memory": "16Gi", "pods": "110"}}})
OTHER_TAINT = patch(NODE, {"spec": {"taints": [{"key": "new", "effect": "NoSchedule"}]}})
CORDON = patch(NODE, {"spec": {"unschedulable": True}})
UNCORDON = patch(make_node("spare"), {"spec": {"unschedulable": None}})
READY = patch(NODE, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
NOTE = patch(NODE, {"metadata": {"annotations": {"x": "y"}}})


@pytest.mark.parametrize(
    ("resource", "action", "happening", "woken"),
    [
        ("Node", ActionType.ADD, CREATE_NODE, True),
        ("Node", ActionType.ADD, DELETE_NODE, False),
        ("Node", ActionType.ADD, labelled(NODE, disk="ssd"), False),
        ("Node", ActionType.ADD, OTHER_TAINT, False),
        ("Node", ActionType.ADD, UNCORDON, False),
        ("Node", ActionType.DELETE, DELETE_NODE, True),
        ("Node", ActionType.DELETE, OTHER_TAINT, False),
        ("Node", ActionType.UPDATE_NODE_LABEL, labelled(NODE, disk="ssd"), True),
        ("Node", ActionType.UPDATE_NODE_LABEL, MORE_CPU, False),
        ("Node", ActionType.UPDATE_NODE_ALLOCATABLE, MORE_CPU, True),
        ("Node", ActionType.UPDATE_NODE_TAINT, OTHER_TAINT, True),
        ("Node", ActionType.UPDATE_NODE_TAINT, UNCORDON, True),
        ("Node", ActionType.UPDATE_NODE_TAINT, CORDON, False),
        ("Node", ActionType.ALL, CORDON, False),
        ("Node", ActionType.UPDATE_NODE_CONDITION, READY, True),
        ("Node", ActionType.UPDATE_NODE_ANNOTATION, NOTE, True),
        ("Node", ActionType.UPDATE, MORE_CPU, True),
        (EventResource.NODE, ActionType.ADD, CREATE_NODE, True),
        ("*", ActionType.ALL, CREATE_NODE, True),
        ("*", ActionType.DELETE, delete(OTHER), True),
        ("Pod", ActionType.ADD, create(make_pod("new", node_name="a")), True),
        ("Pod", ActionType.ADD, create(make_pod("new", scheduler_name="another")), False),
        ("AssignedPod", ActionType.ADD, create(make_pod("new", node_name="a")), True),
        ("Pod", ActionType.DELETE, delete(OTHER), True),
        ("Pod", ActionType.DELETE, create(make_pod("new", node_name="a")), False),
        ("Pod", ActionType.UPDATE_POD_LABEL, labelled(OTHER, app="db"), True),
        ("Pod", ActionType.UPDATE_POD_LABEL, labelled(POOL, app="db"), True),
        ("TargetPod", ActionType.UPDATE_POD_LABEL, labelled(OTHER, app="db"), False),
        ("TargetPod", ActionType.UPDATE_POD_LABEL, labelled(POOL, app="db"), True),
        ("Pod", ActionType.UPDATE_POD_TOLERATION, patch(POOL, {"spec": {"tolerations": []}}), True),
        ("Pod", ActionType.UPDATE_POD_TOLERATION, labelled(POOL, app="db"), False),
        ("Pod", ActionType.UPDATE, patch(POOL, {"metadata": {"annotations": {"x": "y"}}}), True),
        ("Pod", ActionType.UPDATE_POD_LABEL, patch(POOL, {"metadata": {"annotations": {"x": "y"}}}), False),
    ],
)
def test_event_requeues_pods_whose_rejector_registered_it(
    resource: str, action: ActionType, happening: Action, woken: bool
) -> None:
    assert is_woken(resource, action, happening) is woken


@pytest.mark.parametrize(("minor", "woken"), [("1.36", True), ("1.37", False)])
@pytest.mark.parametrize("happening", [OTHER_TAINT, UNCORDON])
def test_new_nodes_imply_changes_of_taints_only_in_1_36(happening: Action, minor: str, woken: bool) -> None:
    assert is_woken("Node", ActionType.ADD, happening, minor) is woken
    both = ActionType.ADD | ActionType.UPDATE_NODE_TAINT
    assert is_woken("Node", both, happening, minor)


@pytest.mark.parametrize("minor", MINORS)
@pytest.mark.parametrize(
    ("action", "happening"),
    [
        (ActionType.ADD, create(make_pod("new", node_name="a"))),
        (ActionType.UPDATE_POD_LABEL, labelled(OTHER, app="db")),
        (ActionType.UPDATE, patch(OTHER, {"metadata": {"annotations": {"x": "y"}}})),
    ],
)
def test_pods_on_nodes_wake_whoever_registered_them_whatever_its_terms(
    action: ActionType, happening: Action, minor: str
) -> None:
    """Also in 1.36, whose filter by terms of affinity ran only without hints, which cannot be turned off."""
    assert is_woken("AssignedPod", action, happening, minor)


def is_woken(resource: str, action: ActionType, happening: Action, minor: str = LATEST_MINOR) -> bool:
    """Return whether a plugin that registered this gives its pod another attempt."""
    rejecting = plugin(
        "R",
        filter=lambda state, pod, node: unschedulable("no") if pod.name == "pod" else None,
        events=registered(resource, action),
    )
    nodes = [NODE, make_node("spare", unschedulable=True)]
    timeline = scenario(rejecting, nodes=nodes, pods=[POOL, OTHER], minor=minor)
    result = timeline.at(50.0, happening).run(until=85.0)
    began = result.decisions[0].popped_at
    return any(decision.popped_at >= began + 50.0 for decision in result.decisions_on("pod"))


def test_condition_written_by_the_scheduler_does_not_requeue_the_pod() -> None:
    result = run(plugin("R", filter=unschedulable("no"), events=None))
    assert len(result.decisions) == 1
    assert result.state_of("pod") == "unschedulable"


@pytest.mark.parametrize(
    ("subject", "resource"),
    [
        (StorageClass(metadata=ObjectMeta(name="fast"), provisioner="x"), "storage.k8s.io/StorageClass"),
        (ReplicaSet(metadata=ObjectMeta(name="web", namespace="shop")), "replicasets.v1.apps"),
        (team(), "teams.v1beta1.example.com"),
    ],
)
def test_watched_kinds_emit_events(subject: ApiObject, resource: str) -> None:
    asked: list[tuple[object, object]] = []

    def hint(pod: PendingPod, old: ApiObject | None, new: ApiObject | None) -> QueueingHint:
        asked.append((old and old.metadata.labels, new and new.metadata.labels))
        return QueueingHint.QUEUE if old is None else QueueingHint.SKIP

    rejecting = plugin("R", filter=unschedulable("no"), events=[ClusterEvent(resource, ActionType.ALL, hint)])
    rejecting.watches = (Watch(type(subject)),)
    labelled_one = patch(subject, {"metadata": {"labels": {"a": "b"}}})
    run = scenario(rejecting).at(50.0, create(subject)).at(60.0, labelled_one).at(70.0, delete(subject))
    assert len(run.run(until=80.0).decisions) == 2
    assert asked == [(None, {}), ({}, {"a": "b"}), ({"a": "b"}, None)]


def test_failing_events_to_register_is_a_config_error() -> None:
    failing = plugin("R", events=None, events_to_register=ValueError("no events"), filter=None)
    with pytest.raises(ConfigError, match=r"^config:\d+: .*plugin 'R', hook events_to_register: ValueError: no events"):
        run(failing)
    wrong = plugin("R", events=None, events_to_register=["Node"], filter=None)
    with pytest.raises(ConfigError, match="plugin 'R', hook events_to_register: must list ClusterEvents"):
        run(wrong)


def test_pod_of_a_plugin_without_events_waits_for_the_flush() -> None:
    result = scenario(plugin("R", filter=unschedulable("no"))).at(50.0, labelled(POOL, app="db")).run(until=400.0)
    assert [decision.popped_at - result.decisions[0].popped_at for decision in result.decisions] == [0.0, 330.0]
