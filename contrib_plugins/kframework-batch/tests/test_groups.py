"""What a pod group says of its job."""

from __future__ import annotations

import pytest
from kframework_batch.groups import Priorities, apply_group, group_fields, phase_of, remove_group
from kframework_batch.job import JobInfo, TopologyRequirement
from kframework_batch.membership import GroupObject
from kframework_batch.objects import (
    KubeGang,
    KubePodGroup,
    KubePodGroupSpec,
    KubePodGroupStatus,
    KubeSchedulingConstraints,
    KubeSchedulingPolicy,
    KubeTopologyConstraint,
    NetworkTopology,
    ObjectCondition,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    SigsPodGroup,
    SigsPodGroupSpec,
    SigsPodGroupStatus,
    SubGroupPolicy,
)
from msgspec.structs import replace

from kframework.objects import ObjectMeta, PriorityClass, ResourceList

PRIORITIES = Priorities(
    [
        PriorityClass(metadata=ObjectMeta(name="high"), value=100),
        PriorityClass(metadata=ObjectMeta(name="usual"), value=5, global_default=True),
        PriorityClass(metadata=ObjectMeta(name="lowly"), value=3, global_default=True),
    ]
)


def meta(**annotations: str) -> ObjectMeta:
    return ObjectMeta(namespace="n", name="g", annotations=annotations)


def described(group: GroupObject) -> JobInfo:
    job = JobInfo("n", "g")
    apply_group(job, group, PRIORITIES, "default")
    return job


@pytest.mark.parametrize(("name", "value"), [("high", 100), ("", 3), ("unheard-of", 3)])
def test_unknown_priority_class_counts_as_the_lowest_default(name: str, value: int) -> None:
    assert PRIORITIES.value(name) == value
    assert Priorities().value(name) == 0


def test_volcano_pod_group_is_read() -> None:
    metadata = ObjectMeta(namespace="n", name="g", uid="u", creation_timestamp="t", labels={"l": "1"})
    spec = PodGroupSpec(
        min_member=3, min_task_member={"ps": 1}, queue="q", priority_class_name="high", min_resources={"cpu": "1500m"}
    )
    job = described(PodGroup(metadata=metadata, spec=spec, status=PodGroupStatus(phase="Inqueue")))
    assert (job.has_group, job.group_uid, job.created, job.labels) == (True, "u", "t", {"l": "1"})
    assert (job.min_available, job.role_minimums, job.queue, job.priority) == (3, {"ps": 1}, "q", 100)
    assert (job.min_resources, job.invalid_reason, job.phase) == ({"cpu": 1500}, "", "Inqueue")


def test_sigs_pod_group_is_read() -> None:
    job = described(SigsPodGroup(metadata=meta(), spec=SigsPodGroupSpec(min_member=2, min_resources={"memory": 5})))
    assert (job.min_available, job.queue, job.priority, job.min_resources) == (2, "default", 3, {"memory": 5})


def test_quotas_and_pods_are_not_min_resources() -> None:
    least: ResourceList = {
        "cpu": 1,
        "nvidia.com/gpu": 2,
        "pods": 3,
        "count/pods": 3,
        "requests.cpu": 1,
        "limits.memory": 5,
    }
    job = described(PodGroup(metadata=meta(), spec=PodGroupSpec(min_resources=least)))
    assert job.min_resources == {"cpu": 1000, "nvidia.com/gpu": 2}


@pytest.mark.parametrize(
    ("spec", "minimum", "priority"),
    [
        (KubePodGroupSpec(scheduling_policy=KubeSchedulingPolicy(gang=KubeGang(min_count=4))), 4, 3),
        (KubePodGroupSpec(scheduling_policy=KubeSchedulingPolicy(basic={})), 1, 3),
        (KubePodGroupSpec(), 1, 3),
        (KubePodGroupSpec(priority_class_name="high"), 1, 100),
        (KubePodGroupSpec(priority_class_name="high", priority=0), 1, 0),
    ],
)
def test_kubernetes_pod_group_is_read(spec: KubePodGroupSpec, minimum: int, priority: int) -> None:
    job = described(KubePodGroup(metadata=meta(), spec=spec))
    assert (job.min_available, job.queue, job.priority, job.min_resources) == (minimum, "default", priority, None)


@pytest.mark.parametrize("kind", [SigsPodGroup, KubePodGroup])
def test_queue_annotation_or_label_is_used_for_groups_without_queue_field(
    kind: type[SigsPodGroup | KubePodGroup],
) -> None:
    key = "scheduling.volcano.sh/queue-name"
    assert described(kind(metadata=meta(**{key: "q"}))).queue == "q"
    assert described(kind(metadata=ObjectMeta(labels={key: "q"}))).queue == "q"


@pytest.mark.parametrize(
    ("metadata", "yes"),
    [
        (meta(), False),
        (meta(**{"volcano.sh/preemptable": "true"}), True),
        (ObjectMeta(labels={"volcano.sh/preemptable": "true"}), True),
        (meta(**{"volcano.sh/preemptable": "perhaps"}), False),
    ],
)
def test_group_is_not_preemptable_by_default(metadata: ObjectMeta, yes: bool) -> None:
    assert described(PodGroup(metadata=metadata)).preemptable is yes


@pytest.mark.parametrize(
    ("topology", "closeness"),
    [
        (None, None),
        (NetworkTopology(mode="hard", highest_tier_allowed=2), TopologyRequirement(hard=True, highest_tier=2)),
        (NetworkTopology(mode="hard", highest_tier_name="rack"), TopologyRequirement(hard=True, tier_name="rack")),
        (NetworkTopology(), TopologyRequirement(hard=True)),
        (NetworkTopology(mode="soft", highest_tier_allowed=2), TopologyRequirement(hard=False)),
    ],
)
def test_network_topology_of_a_group_is_read(
    topology: NetworkTopology | None, closeness: TopologyRequirement | None
) -> None:
    assert described(PodGroup(spec=PodGroupSpec(network_topology=topology))).topology == closeness


KUBE_TOPOLOGY = KubeSchedulingConstraints(topology=(KubeTopologyConstraint(key="rack"),))


@pytest.mark.parametrize(
    ("group", "refused"),
    [
        (PodGroup(), ""),
        (
            PodGroup(spec=PodGroupSpec(sub_group_policy=(SubGroupPolicy(name="s"), SubGroupPolicy(name="s")))),
            "spec.subGroupPolicy: there are two of the name 's'",
        ),
        (
            PodGroup(spec=PodGroupSpec(min_resources={"cpu": "lots"})),
            "spec.minResources: 'lots' is not a quantity: write a number and a suffix, like 500m, 2 or 1.5Gi",
        ),
        (
            SigsPodGroup(spec=SigsPodGroupSpec(min_resources={"cpu": ""})),
            "spec.minResources: '' is not a quantity: write a number and a suffix, like 500m, 2 or 1.5Gi",
        ),
        (
            KubePodGroup(spec=KubePodGroupSpec(scheduling_constraints=KUBE_TOPOLOGY)),
            "spec.schedulingConstraints.topology is not supported",
        ),
    ],
)
def test_unsupported_group_is_invalid_with_a_reason(group: GroupObject, refused: str) -> None:
    assert described(group).invalid_reason == refused


def test_corrected_group_is_valid_again() -> None:
    job = described(PodGroup(spec=PodGroupSpec(min_member=2, min_resources={"cpu": "lots"}, min_task_member={"a": 1})))
    apply_group(job, PodGroup(spec=PodGroupSpec(min_member=2)), PRIORITIES, "default")
    assert (job.invalid_reason, job.min_resources, job.role_minimums) == ("", None, {})


@pytest.mark.parametrize(
    ("group", "phase"),
    [
        (PodGroup(), ""),
        (PodGroup(status=PodGroupStatus(phase="Unknown")), "Unknown"),
        (SigsPodGroup(), ""),
        (SigsPodGroup(status=SigsPodGroupStatus(phase="Pending")), "Pending"),
        (SigsPodGroup(status=SigsPodGroupStatus(phase="Scheduling")), "Inqueue"),
        (SigsPodGroup(status=SigsPodGroupStatus(phase="Running")), "Running"),
        (SigsPodGroup(status=SigsPodGroupStatus(phase="Finished")), "Completed"),
        (SigsPodGroup(status=SigsPodGroupStatus(phase="Failed")), "Completed"),
        (KubePodGroup(), ""),
        (
            KubePodGroup(
                status=KubePodGroupStatus(conditions=(ObjectCondition(type="PodGroupScheduled", status="True"),))
            ),
            "Running",
        ),
        (
            KubePodGroup(
                status=KubePodGroupStatus(conditions=(ObjectCondition(type="PodGroupScheduled", status="False"),))
            ),
            "",
        ),
    ],
)
def test_phases_are_translated_to_those_of_volcano(group: GroupObject, phase: str) -> None:
    assert phase_of(group) == described(group).phase == phase


def test_update_from_before_our_write_does_not_revert_it() -> None:
    group = PodGroup(metadata=meta(), status=PodGroupStatus(phase="Pending"))
    job = described(group)
    job.phase, job.status = "Inqueue", PodGroupStatus(phase="Inqueue")
    apply_group(job, replace(group, metadata=meta(a="b")), PRIORITIES, "default")
    assert (job.annotations, job.phase, job.status) == ({"a": "b"}, "Inqueue", PodGroupStatus(phase="Inqueue"))


def test_own_status_write_changes_nothing() -> None:
    job = described(KubePodGroup(metadata=meta()))
    written = KubePodGroupStatus(conditions=(ObjectCondition(type="PodGroupScheduled", status="False"),))
    job.phase, job.status = "Inqueue", written
    before = group_fields(job)
    apply_group(job, KubePodGroup(metadata=meta(), status=written), PRIORITIES, "default")
    assert (group_fields(job), job.phase, job.status) == (before, "Inqueue", written)


def test_status_written_by_others_is_used() -> None:
    group = PodGroup(metadata=meta(), status=PodGroupStatus(phase="Pending"))
    job = described(group)
    job.phase, job.status = "Inqueue", PodGroupStatus(phase="Inqueue")
    apply_group(job, replace(group, status=PodGroupStatus(phase="Running")), PRIORITIES, "default")
    assert (job.phase, job.status) == ("Running", PodGroupStatus(phase="Running"))


def test_recreated_group_is_read_again() -> None:
    group = PodGroup(metadata=meta(), status=PodGroupStatus(phase="Running"))
    job = described(group)
    job.phase, job.message, job.fit_errors = "Unknown", "Not enough valid tasks", {"uid": "0/0 nodes are available"}
    remove_group(job)
    assert (job.has_group, job.object, job.status, job.phase, job.queue) == (False, None, None, "", "")
    assert (job.message, job.fit_errors, job.priority, job.min_available) == ("", {}, 0, 0)
    apply_group(job, group, PRIORITIES, "default")
    assert (job.has_group, job.phase) == (True, "Running")


@pytest.mark.parametrize(
    "changed",
    [
        PodGroup(metadata=meta(a="b")),
        PodGroup(metadata=ObjectMeta(labels={"a": "b"})),
        PodGroup(metadata=ObjectMeta(uid="u")),
        PodGroup(metadata=ObjectMeta(creation_timestamp="t")),
        PodGroup(spec=PodGroupSpec(queue="q")),
        PodGroup(spec=PodGroupSpec(priority_class_name="high")),
        PodGroup(spec=PodGroupSpec(min_member=1)),
        PodGroup(spec=PodGroupSpec(min_task_member={"a": 1})),
        PodGroup(spec=PodGroupSpec(min_resources={"cpu": 1})),
        PodGroup(spec=PodGroupSpec(min_resources={"cpu": "lots"})),
        PodGroup(status=PodGroupStatus(phase="Inqueue")),
    ],
)
def test_relevant_fields_of_a_group(changed: PodGroup) -> None:
    plain = group_fields(described(PodGroup()))
    assert group_fields(described(changed)) != plain
    assert group_fields(described(PodGroup(status=PodGroupStatus(running=3)))) == plain
