"""What an API server fills in and refuses."""

from __future__ import annotations

import uuid
from contextlib import nullcontext
from typing import TypeVar

import pytest
from msgspec.structs import replace

from kframework.errors import ClusterError
from kframework.in_memory.admission import (
    admit_create,
    admit_update,
    check_identity,
    check_version,
    generate_name,
    keep_status,
    prepare_for_create,
)
from kframework.in_memory.pod_admission import NO_POLICIES, Policies
from kframework.objects import (
    Affinity,
    ApiObject,
    Container,
    ContainerPort,
    CSIDriver,
    CSINode,
    LabelSelector,
    LabelSelectorRequirement,
    Lease,
    Namespace,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodCondition,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    PriorityClass,
    ResourceList,
    Resources,
    StorageClass,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from tests.support.declared_kinds import Team

NOW = "2026-01-01T00:00:00Z"
NAMED = ObjectMeta(name="web")
T = TypeVar("T", bound=ApiObject)


def admit(subject: T, *classes: PriorityClass) -> T:
    return admit_create(subject, 7, NOW, Policies(classes))


def spec_of(spec: PodSpec, labels: dict[str, str] | None = None) -> PodSpec:
    return admit(Pod(metadata=ObjectMeta(name="web", labels=labels or {}), spec=spec)).spec


def test_metadata_gets_its_defaults() -> None:
    metadata = admit(Pod(metadata=NAMED)).metadata
    assert (metadata.namespace, metadata.creation_timestamp, metadata.generation) == ("default", NOW, 1)
    assert str(uuid.UUID(metadata.uid)) == metadata.uid


def test_uids_are_repeatable_and_distinct() -> None:
    objects = [Pod(metadata=NAMED), Pod(metadata=ObjectMeta(name="other")), Lease(metadata=NAMED), Node(metadata=NAMED)]
    uids = [admit(each).metadata.uid for each in objects]
    assert uids == [admit(each).metadata.uid for each in objects]
    others = [
        admit_create(objects[0], 8, NOW, NO_POLICIES),
        admit_create(objects[0], 7, "2027-01-01T00:00:00Z", NO_POLICIES),
    ]
    assert len({*uids, *(other.metadata.uid for other in others)}) == 6


def test_cluster_scoped_object_has_no_namespace() -> None:
    misplaced = ObjectMeta(name="web", namespace="team")
    assert admit(Pod(metadata=misplaced)).metadata.namespace == "team"
    assert admit(Node(metadata=misplaced)).metadata.namespace == ""


def test_generated_name_is_valid_and_repeatable() -> None:
    names = [generate_name("web-", number) for number in range(1000)]
    assert len(set(names)) == 1000
    assert names[0] == generate_name("web-", 0)
    assert all(len(name) == 9 and name[4:].isalnum() for name in names)
    assert len(generate_name("x" * 80, 5)) == 63


def test_admitted_object_is_unchanged_by_admission() -> None:
    term = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector(), match_label_keys=("app",))
    pod = Pod(
        metadata=ObjectMeta(name="web", labels={"app": "web"}),
        spec=PodSpec(
            containers=(Container(resources=Resources(limits={"cpu": "1"})),),
            affinity=Affinity(pod_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=(term,))),
            scheduling_gates=(PodSchedulingGate(name="quota"),),
            resources=Resources(limits={"cpu": "2"}),
            host_network=True,
        ),
    )
    once = admit(pod, PriorityClass(metadata=ObjectMeta(name="high"), value=9, global_default=True))
    assert once != pod
    assert admit_create(once, 99, "2027-01-01T00:00:00Z", NO_POLICIES) == once


def test_running_pod_keeps_its_node_and_status() -> None:
    status = PodStatus(phase="Running", start_time="2025-12-31T00:00:00Z")
    pod = admit(Pod(metadata=ObjectMeta(name="web", uid="mine"), spec=PodSpec(node_name="n1"), status=status))
    assert (pod.metadata.uid, pod.spec.node_name, pod.status) == ("mine", "n1", status)


def test_server_fields_are_dropped_from_a_create_request() -> None:
    metadata = ObjectMeta(name="web", uid="u", deletion_timestamp=NOW, labels={"a": "b"})
    pod = Pod(metadata=metadata, status=PodStatus(phase="Running"))
    assert prepare_for_create(pod) == Pod(metadata=ObjectMeta(name="web", labels={"a": "b"}))
    node = Node(metadata=metadata, status=NodeStatus(capacity={"cpu": "1"}))
    assert prepare_for_create(node).status == node.status
    status = PersistentVolumeClaimStatus(phase="Bound")
    claim = PersistentVolumeClaim(metadata=metadata, status=status)
    assert prepare_for_create(claim).status == PersistentVolumeClaimStatus()
    assert prepare_for_create(StorageClass(metadata=metadata)).metadata == ObjectMeta(name="web", labels={"a": "b"})


def test_create_request_with_a_version_is_rejected() -> None:
    with pytest.raises(ClusterError) as caught:
        prepare_for_create(Pod(metadata=ObjectMeta(name="web", resource_version="3")))
    assert (caught.value.status, caught.value.reason) == (500, "")


@pytest.mark.parametrize(
    ("kind", "needed"),
    [(Pod, False), (Node, False), (StorageClass, False), (Lease, True), (CSINode, True), (Team, True)],
)
def test_update_of_some_kinds_requires_a_version(kind: type[ApiObject], needed: bool) -> None:
    check_version(kind(metadata=ObjectMeta(name="x", resource_version="7")))
    with pytest.raises(ClusterError, match="must be specified for an update") if needed else nullcontext():
        check_version(kind(metadata=ObjectMeta(name="x")))


def test_patch_that_changes_the_identity_is_rejected() -> None:
    old = Pod(metadata=ObjectMeta(name="web", namespace="default", uid="u"))
    check_identity(old, old)
    check_identity(old, Pod(metadata=ObjectMeta(labels={"a": "b"})))
    for said, status in (("name", 400), ("namespace", 400), ("uid", 422)):
        with pytest.raises(ClusterError, match="other") as caught:
            check_identity(old, replace(old, metadata=replace(old.metadata, **{said: "other"})))
        assert caught.value.status == status


def test_update_keeps_the_old_status() -> None:
    old, new = Node(status=NodeStatus(capacity={"cpu": "1"})), Node(spec=NodeSpec(unschedulable=True))
    assert keep_status(old, new) == Node(spec=new.spec, status=old.status)
    lease = Lease(metadata=ObjectMeta(name="new"))
    assert keep_status(Lease(), lease) is lease


def test_pod_gets_its_defaults() -> None:
    pod = admit(Pod(metadata=NAMED))
    assert pod.spec.scheduler_name == "default-scheduler"
    assert pod.spec.restart_policy == "Always"
    assert pod.spec.termination_grace_period_seconds == 30
    assert pod.status == PodStatus(phase="Pending")


def test_set_fields_keep_their_values() -> None:
    spec = PodSpec(scheduler_name="mine", restart_policy="Never", termination_grace_period_seconds=0)
    filled = spec_of(spec)
    assert (filled.scheduler_name, filled.restart_policy, filled.termination_grace_period_seconds) == (
        "mine",
        "Never",
        0,
    )


@pytest.mark.parametrize(
    ("requests", "limits", "expected"),
    [
        ({}, {}, {}),
        ({"cpu": "1"}, {}, {"cpu": "1"}),
        ({}, {"cpu": "2", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}),
        ({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}),
    ],
)
def test_requests_default_to_limits(requests: ResourceList, limits: ResourceList, expected: ResourceList) -> None:
    container = Container(name="c", resources=Resources(requests=requests, limits=limits))
    spec = spec_of(PodSpec(containers=(container,), init_containers=(container,)))
    for filled in (*spec.containers, *spec.init_containers):
        assert filled.resources == Resources(requests=expected, limits=limits)


@pytest.mark.parametrize(
    ("containers", "own", "expected"),
    [
        ({"cpu": "1"}, Resources(requests={"cpu": "3"}), {"cpu": "3"}),
        ({}, Resources(limits={"cpu": "2", "memory": "1Gi"}), {"cpu": "2", "memory": "1Gi"}),
        ({"cpu": "1500m"}, Resources(limits={"cpu": "4", "memory": "1Gi"}), {"cpu": "3000m", "memory": "1Gi"}),
        ({"memory": "1Ki"}, Resources(limits={"cpu": "4"}), {"cpu": "4", "memory": "2048"}),
        ({"cpu": "1"}, Resources(requests={"cpu": "3"}, limits={"cpu": "4"}), {"cpu": "3"}),
    ],
)
def test_pod_level_requests_default_to_the_sum_of_containers(
    containers: ResourceList, own: Resources, expected: ResourceList
) -> None:
    container = Container(name="c", resources=Resources(requests=containers))
    spec = spec_of(PodSpec(containers=(container, container), resources=own, overhead={"cpu": "1"}))
    assert spec.resources == Resources(requests=expected, limits=own.limits)


@pytest.mark.parametrize(("host_network", "host_ports"), [(False, [0, 81]), (True, [80, 81])])
def test_host_ports_default_to_container_ports_on_the_host_network(host_network: bool, host_ports: list[int]) -> None:
    ports = (ContainerPort(container_port=80), ContainerPort(container_port=81, host_port=81))
    spec = spec_of(PodSpec(containers=(Container(ports=ports),), host_network=host_network))
    assert [port.host_port for port in spec.containers[0].ports] == host_ports


NOT_READY = Toleration(
    key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute", toleration_seconds=300
)
UNREACHABLE = Toleration(
    key="node.kubernetes.io/unreachable", operator="Exists", effect="NoExecute", toleration_seconds=300
)
EVERYTHING = Toleration(operator="Exists")
NO_SCHEDULE = Toleration(key="node.kubernetes.io/not-ready", operator="Exists", effect="NoSchedule")
FOR_EVER = Toleration(key="node.kubernetes.io/unreachable", operator="Exists")


@pytest.mark.parametrize(
    ("own", "added"),
    [
        ((), (NOT_READY, UNREACHABLE)),
        ((NO_SCHEDULE,), (NOT_READY, UNREACHABLE)),
        ((FOR_EVER,), (NOT_READY,)),
        ((EVERYTHING,), ()),
        ((NOT_READY, UNREACHABLE), ()),
    ],
)
def test_pod_tolerates_unready_nodes_for_five_minutes(
    own: tuple[Toleration, ...], added: tuple[Toleration, ...]
) -> None:
    assert spec_of(PodSpec(tolerations=own)).tolerations == (*own, *added)


def test_gated_pod_has_its_condition() -> None:
    pod = admit(Pod(metadata=NAMED, spec=PodSpec(scheduling_gates=(PodSchedulingGate(name="quota"),))))
    assert pod.status.conditions == (
        PodCondition(
            type="PodScheduled",
            status="False",
            reason="SchedulingGated",
            message="Scheduling is blocked due to non-empty scheduling gates",
            last_transition_time=NOW,
        ),
    )


LOW = PriorityClass(metadata=ObjectMeta(name="low"), value=-5, preemption_policy="Never")
HIGH = PriorityClass(metadata=ObjectMeta(name="high"), value=10)
DEFAULT = PriorityClass(metadata=ObjectMeta(name="usual"), value=3, global_default=True)
HIGHER_DEFAULT = PriorityClass(metadata=ObjectMeta(name="unusual"), value=4, global_default=True)
PREEMPTS = "PreemptLowerPriority"


@pytest.mark.parametrize(
    ("spec", "classes", "expected"),
    [
        (PodSpec(), [], ("", 0, PREEMPTS)),
        (PodSpec(), [LOW, HIGH], ("", 0, PREEMPTS)),
        (PodSpec(), [HIGHER_DEFAULT, DEFAULT], ("usual", 3, PREEMPTS)),
        (PodSpec(priority_class_name="low"), [DEFAULT, LOW], ("low", -5, "Never")),
        (PodSpec(priority_class_name="high"), [LOW, HIGH], ("high", 10, PREEMPTS)),
        (PodSpec(priority_class_name="system-cluster-critical"), [], ("system-cluster-critical", 2000000000, PREEMPTS)),
        (PodSpec(priority_class_name="system-node-critical"), [], ("system-node-critical", 2000001000, PREEMPTS)),
        (PodSpec(priority=12), [DEFAULT], ("", 12, PREEMPTS)),
        (PodSpec(priority=12, preemption_policy="Never"), [], ("", 12, "Never")),
        (PodSpec(priority=12, priority_class_name="gone"), [], ("gone", 12, PREEMPTS)),
    ],
)
def test_pod_gets_the_priority_of_its_class(
    spec: PodSpec, classes: list[PriorityClass], expected: tuple[str, int, str]
) -> None:
    filled = admit(Pod(metadata=NAMED, spec=spec), *classes).spec
    assert (filled.priority_class_name, filled.priority, filled.preemption_policy) == expected


def test_unknown_priority_class_is_rejected() -> None:
    with pytest.raises(ClusterError) as caught:
        admit(Pod(metadata=NAMED, spec=PodSpec(priority_class_name="top")), HIGH)
    assert (caught.value.status, caught.value.reason) == (403, "Forbidden")
    assert str(caught.value) == 'pods "web" is forbidden: no PriorityClass with name top was found'


def expression(key: str, operator: str, value: str) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=key, operator=operator, values=(value,))


def selector(*expressions: LabelSelectorRequirement) -> LabelSelector:
    return LabelSelector(match_labels={"app": "web"}, match_expressions=expressions)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (PodAffinityTerm(label_selector=selector()), selector()),
        (PodAffinityTerm(), None),
        (PodAffinityTerm(label_selector=selector(), match_label_keys=("missing",)), selector()),
        (
            PodAffinityTerm(
                label_selector=selector(expression("a", "In", "b")),
                match_label_keys=("hash",),
                mismatch_label_keys=("tenant", "missing"),
            ),
            selector(expression("a", "In", "b"), expression("hash", "In", "1"), expression("tenant", "NotIn", "t")),
        ),
    ],
)
def test_label_keys_of_pod_affinity_are_merged_into_selectors(
    term: PodAffinityTerm, expected: LabelSelector | None
) -> None:
    term = replace(term, topology_key="zone")
    weighted = WeightedPodAffinityTerm(weight=3, pod_affinity_term=term)
    affinity = Affinity(
        pod_affinity=PodAffinity(
            required_during_scheduling_ignored_during_execution=(term,),
            preferred_during_scheduling_ignored_during_execution=(weighted,),
        ),
        pod_anti_affinity=PodAntiAffinity(
            required_during_scheduling_ignored_during_execution=(term,),
            preferred_during_scheduling_ignored_during_execution=(weighted,),
        ),
    )
    filled = spec_of(PodSpec(affinity=affinity), {"hash": "1", "tenant": "t"}).affinity
    assert filled is not None
    for terms in (filled.pod_affinity, filled.pod_anti_affinity):
        assert terms is not None
        (required,) = terms.required_during_scheduling_ignored_during_execution
        (preferred,) = terms.preferred_during_scheduling_ignored_during_execution
        assert required.label_selector == preferred.pod_affinity_term.label_selector == expected
        assert preferred.weight == 3


def test_label_keys_of_spread_constraints_are_merged_into_selectors() -> None:
    constraint = TopologySpreadConstraint(
        max_skew=1,
        topology_key="zone",
        when_unsatisfiable="DoNotSchedule",
        label_selector=selector(),
        match_label_keys=("hash",),
    )
    (filled,) = spec_of(PodSpec(topology_spread_constraints=(constraint,)), {"hash": "1"}).topology_spread_constraints
    assert filled.label_selector == selector(expression("hash", "In", "1"))


@pytest.mark.parametrize(("allocatable", "expected"), [({}, {"cpu": "4", "pods": 110}), ({"cpu": "3"}, {"cpu": "3"})])
def test_allocatable_defaults_to_capacity(allocatable: ResourceList, expected: ResourceList) -> None:
    node = Node(metadata=NAMED, status=NodeStatus(capacity={"cpu": "4", "pods": 110}, allocatable=allocatable))
    assert admit(node).status.allocatable == expected


def test_node_gets_no_labels_or_taints() -> None:
    node = admit(Node(metadata=NAMED))
    assert (node.metadata.labels, node.spec.taints) == ({}, ())


def test_namespace_is_labelled_with_its_name() -> None:
    namespace = admit(Namespace(metadata=ObjectMeta(name="team", labels={"a": "b"})))
    assert namespace.metadata.labels == {"a": "b", "kubernetes.io/metadata.name": "team"}


def test_other_kinds_get_their_defaults() -> None:
    storage = admit(StorageClass(metadata=NAMED))
    assert (storage.volume_binding_mode, storage.reclaim_policy) == ("Immediate", "Delete")
    assert admit(StorageClass(metadata=NAMED, volume_binding_mode="WaitForFirstConsumer")).volume_binding_mode == (
        "WaitForFirstConsumer"
    )
    assert admit(PersistentVolumeClaim(metadata=NAMED)).status.phase == "Pending"
    assert admit(CSIDriver(metadata=NAMED)).spec.attach_required is True
    assert admit(PriorityClass(metadata=NAMED)).preemption_policy == PREEMPTS


BAD_QUANTITY = PodSpec(containers=(Container(resources=Resources(requests={"cpu": "lots"})),))


@pytest.mark.parametrize(
    ("subject", "path"),
    [
        (Pod(), "metadata.name"),
        (Pod(metadata=NAMED, spec=BAD_QUANTITY), "spec.containers[0].resources.requests.cpu"),
        (Node(metadata=NAMED, status=NodeStatus(capacity={"cpu": "-1"})), "status.capacity.cpu"),
    ],
)
def test_invalid_object_is_rejected(subject: ApiObject, path: str) -> None:
    with pytest.raises(ClusterError) as created:
        admit(subject)
    with pytest.raises(ClusterError) as changed:
        admit_update(subject, subject)
    for caught in (created, changed):
        assert (caught.value.status, caught.value.reason) == (422, "Invalid")
        assert f'"{subject.metadata.name}" is invalid: {path}: ' in str(caught.value)


GATED = PodSpec(scheduling_gates=(PodSchedulingGate(name="a"), PodSchedulingGate(name="b")))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (PodSpec(), PodSpec(node_name="n1"), "spec.nodeName: Forbidden: only a binding may set it"),
        (PodSpec(node_name="n1"), PodSpec(), "spec.nodeName: Forbidden: only a binding may set it"),
        (
            PodSpec(scheduling_gates=(PodSchedulingGate(name="a"),)),
            GATED,
            'spec.schedulingGates: Forbidden: only deletion is allowed, but found new scheduling gate "b"',
        ),
    ],
)
def test_update_that_moves_or_gates_a_pod_is_rejected(old: PodSpec, new: PodSpec, message: str) -> None:
    with pytest.raises(ClusterError) as caught:
        admit_update(Pod(metadata=NAMED, spec=old), Pod(metadata=NAMED, spec=new))
    assert str(caught.value) == f'Pod "web" is invalid: {message}'


def test_update_may_remove_scheduling_gates() -> None:
    new = admit_update(Pod(metadata=NAMED, spec=GATED), Pod(metadata=NAMED))
    assert new.spec.scheduling_gates == ()


def test_update_keeps_server_fields() -> None:
    old = admit(Pod(metadata=NAMED))
    relabelled = admit_update(old, Pod(metadata=ObjectMeta(name="web", labels={"a": "b"}), spec=old.spec))
    assert (relabelled.metadata.uid, relabelled.metadata.creation_timestamp) == (old.metadata.uid, NOW)
    assert (relabelled.metadata.labels, relabelled.metadata.generation) == ({"a": "b"}, 1)
    assert admit_update(old, Pod(metadata=NAMED)).metadata.generation == 2
