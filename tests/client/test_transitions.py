"""Binding, deletion and conditions of a pod."""

from __future__ import annotations

import pytest

from kframework.client.transitions import bind_pod, has_ended, is_ready, start_deletion, with_condition
from kframework.clock import seconds_of
from kframework.errors import ClusterError
from kframework.objects import Node, ObjectMeta, Pod, PodCondition, PodSchedulingGate, PodSpec, PodStatus

NOW = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:01:00Z"


def make_pod(
    node: str = "", *, grace: int | None = 30, phase: str = "Pending", deleted: int | None = None, gated: bool = False
) -> Pod:
    """Make a pod; `deleted` is the grace it was given at NOW."""
    return Pod(
        metadata=ObjectMeta(
            name="web",
            generation=1,
            deletion_timestamp=None if deleted is None else f"2026-01-01T00:00:{deleted:02}Z",
            deletion_grace_period_seconds=deleted,
        ),
        spec=PodSpec(
            node_name=node,
            termination_grace_period_seconds=grace,
            scheduling_gates=(PodSchedulingGate(name="quota"),) if gated else (),
        ),
        status=PodStatus(phase=phase, nominated_node_name="old"),
    )


@pytest.mark.parametrize(
    ("phase", "said", "ready"),
    [
        ("Running", None, True),
        ("Pending", None, False),
        ("Succeeded", None, False),
        ("Running", "False", False),
        ("Running", "Unknown", False),
        ("Running", "True", True),
        ("Pending", "True", True),
    ],
)
def test_running_pod_is_ready_unless_its_status_differs(phase: str, said: str | None, ready: bool) -> None:
    other = PodCondition(type="PodScheduled", status="True")
    conditions = (other,) if said is None else (other, PodCondition(type="Ready", status=said))
    assert is_ready(Pod(status=PodStatus(phase=phase, conditions=conditions))) is ready


def test_binding_sets_node_name_and_condition() -> None:
    after = bind_pod(make_pod(), "n1", None, NOW)
    assert after.spec.node_name == "n1"
    assert after.status.nominated_node_name == ""
    assert after.status.conditions == (PodCondition(type="PodScheduled", status="True", last_transition_time=NOW),)
    assert after.status.start_time is None  # the kubelet's
    assert after.metadata.generation == 1


def test_binding_copies_the_topology_of_the_node() -> None:
    topology = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"}
    labels = {"kubernetes.io/hostname": "n1", "disk": "ssd", **topology}
    pod = Pod(metadata=ObjectMeta(labels={"app": "web", "topology.kubernetes.io/zone": "elsewhere"}))
    after = bind_pod(pod, "n1", Node(metadata=ObjectMeta(labels=labels)), NOW)
    assert after.metadata.labels == {"app": "web", **topology}


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (make_pod(deleted=30), "pod web is being deleted, cannot be assigned to a host"),
        (make_pod("n2"), 'pod web is already assigned to node "n2"'),
        (make_pod(gated=True), "pod web has non-empty .spec.schedulingGates"),
        (make_pod("n2", deleted=30, gated=True), "pod web is being deleted, cannot be assigned to a host"),
    ],
)
def test_deleted_bound_or_gated_pod_cannot_be_bound(pod: Pod, why: str) -> None:
    with pytest.raises(ClusterError) as caught:
        bind_pod(pod, "n1", None, NOW)
    assert (caught.value.status, caught.value.reason) == (409, "Conflict")
    assert str(caught.value) == f'Operation cannot be fulfilled on pods/binding "web": {why}'


@pytest.mark.parametrize(
    ("pod", "grace", "left"),
    [
        (make_pod("n1"), None, 30),
        (make_pod("n1", phase="Running"), 5, 5),
        (make_pod("n1", grace=0), None, None),
        (make_pod("n1", grace=None), None, None),
        (make_pod("n1"), 0, None),
        (make_pod(), None, None),
        (make_pod(), 40, None),
        (make_pod("n1", phase="Succeeded"), None, None),
        (make_pod("n1", phase="Failed"), 40, None),
        (make_pod("n1", deleted=30), None, 30),
        (make_pod("n1", deleted=30), 40, 30),
        (make_pod("n1", deleted=30), 30, 30),
        (make_pod("n1", deleted=30), 10, 10),
        (make_pod("n1", deleted=30), 0, None),
    ],
)
def test_deletion_sets_the_grace_period(pod: Pod, grace: int | None, left: int | None) -> None:
    rest = start_deletion(pod, grace, seconds_of(NOW))
    if left is None:
        assert rest is None
    else:
        assert rest is not None
        assert rest.metadata.deletion_grace_period_seconds == left
        assert rest.metadata.deletion_timestamp == f"2026-01-01T00:00:{left:02}Z"


def test_shortened_grace_counts_from_the_first_deletion() -> None:
    rest = start_deletion(make_pod("n1", deleted=30), 10, seconds_of(LATER))
    assert rest is not None
    assert rest.metadata.deletion_timestamp == "2026-01-01T00:00:10Z"


def test_only_the_first_deletion_is_a_new_generation() -> None:
    first = start_deletion(make_pod("n1"), None, seconds_of(NOW))
    assert first is not None
    second = start_deletion(first, 10, seconds_of(NOW))
    assert second is not None
    assert (first.metadata.generation, second.metadata.generation) == (2, 2)


def test_deletion_that_changes_nothing_gives_the_same_pod_back() -> None:
    pod = make_pod("n1", deleted=30)
    assert start_deletion(pod, None, seconds_of(LATER)) is pod
    assert start_deletion(pod, 31, seconds_of(LATER)) is pod


READY = PodCondition(type="Ready", status="True", reason="a", last_transition_time=NOW)
OTHER = PodCondition(type="Initialized", status="True", last_transition_time=NOW)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (PodCondition(type="Ready", status="True", reason="a"), (OTHER, READY)),
        (
            PodCondition(type="Ready", status="True", reason="b"),
            (OTHER, PodCondition(type="Ready", status="True", reason="b", last_transition_time=NOW)),
        ),
        (
            PodCondition(type="Ready", status="False"),
            (OTHER, PodCondition(type="Ready", status="False", last_transition_time=LATER)),
        ),
        (
            PodCondition(type="Ready", status="False", last_transition_time="2026-05-05T00:00:00Z"),
            (OTHER, PodCondition(type="Ready", status="False", last_transition_time="2026-05-05T00:00:00Z")),
        ),
        (
            PodCondition(type="New", status="True"),
            (OTHER, READY, PodCondition(type="New", status="True", last_transition_time=LATER)),
        ),
    ],
)
def test_conditions_merge_by_type(condition: PodCondition, expected: tuple[PodCondition, ...]) -> None:
    assert with_condition((OTHER, READY), condition, LATER) == expected


@pytest.mark.parametrize(
    ("phase", "ended"),
    [("", False), ("Pending", False), ("Running", False), ("Unknown", False), ("Succeeded", True), ("Failed", True)],
)
def test_succeeded_and_failed_pods_have_ended(phase: str, ended: bool) -> None:
    assert has_ended(make_pod(phase=phase)) is ended
