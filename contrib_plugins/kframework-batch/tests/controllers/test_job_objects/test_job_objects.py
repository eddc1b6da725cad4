"""Pod groups and pods of jobs carry what Volcano's controller writes into them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.controllers.job_admission import MINIMUM, SMALLEST, with_defaults
from kframework_batch.controllers.job_objects import build_pod, build_pod_group, unsupported_fields
from kframework_batch.controllers.job_plugins.installed import Env
from kframework_batch.objects import Job, JobSpec, JobStatus, NetworkTopology, PartitionPolicy, SubGroupPolicy, TaskSpec
from kframework_batch.pod_templates import PodTemplateSpec, TemplateContainer, template_spec
from kframework_batch.resource import Resource
from msgspec.structs import replace

from kframework.objects import LabelSelector, ObjectMeta
from kframework.testing import make_pod


def task(name: str, replicas: int, least: int | None = None, *, cpu: int = 1, priority: str = "") -> TaskSpec:
    spec = template_spec(make_pod(cpu=cpu, memory=None, scheduler_name="").spec)
    template = PodTemplateSpec(
        metadata=ObjectMeta(annotations={"run": "1"}, labels={"app": name}),
        spec=type(spec)(containers=spec.containers, priority_class_name=priority, restart_policy="OnFailure"),
    )
    return TaskSpec(name=name, replicas=replicas, min_available=least, template=template)


def job(*tasks: TaskSpec, annotations: Mapping[str, str] | None = None, least: int = 0) -> Job:
    metadata = ObjectMeta(
        name="j",
        namespace="ns",
        uid="u-1",
        annotations=dict(annotations or {}),
        labels={"volcano.sh/preemptable": "true", "team": "x"},
    )
    spec = JobSpec(tasks=tasks, queue="q", priority_class_name="high", min_available=least)
    return with_defaults(Job(metadata=metadata, spec=spec, status=JobStatus(version=2, retry_count=1)), "volcano")


def test_pod_group_has_the_minimums_of_the_job() -> None:
    group = build_pod_group(job(task("a", 3, 2), task("b", 1), annotations={"note": "x"}), lambda name: 0)
    assert (group.metadata.name, group.metadata.namespace) == ("j-u-1", "ns")
    assert group.metadata.annotations == {"note": "x", "volcano.sh/job-version": "2"}
    assert group.metadata.labels == {"volcano.sh/preemptable": "true", "team": "x"}
    (owner,) = group.metadata.owner_references
    assert (owner.api_version, owner.kind, owner.name, owner.uid, owner.controller, owner.block_owner_deletion) == (
        "batch.volcano.sh/v1alpha1",
        "Job",
        "j",
        "u-1",
        True,
        True,
    )
    spec = group.spec
    assert (spec.min_member, spec.min_task_member, spec.queue) == (3, {"a": 2, "b": 1}, "q")
    assert (spec.priority_class_name, spec.min_resources) == ("high", {"cpu": "3"})


def test_pod_has_labels_and_annotations_of_its_task() -> None:
    annotations = {
        "volcano.sh/preemptable": "true",
        "volcano.sh/jdb-min-available": "2",
        "volcano.sh/jdb-max-unavailable": "1",
        "note": "no",
    }
    subject = job(task("a", 3), annotations=annotations)
    pod = build_pod(subject, subject.spec.tasks[0], 2)
    assert (pod.metadata.name, pod.metadata.namespace) == ("j-a-2", "ns")
    assert pod.metadata.owner_references == build_pod_group(subject, lambda name: 0).metadata.owner_references
    assert pod.metadata.annotations == {
        "run": "1",
        "volcano.sh/task-index": "2",
        "volcano.sh/task-spec": "a",
        "volcano.sh/job-name": "j",
        "volcano.sh/queue-name": "q",
        "scheduling.k8s.io/group-name": "j-u-1",
        "volcano.sh/job-version": "2",
        "volcano.sh/job-retry-count": "1",
        "volcano.sh/template-uid": "j-a",
        "volcano.sh/preemptable": "true",
        "volcano.sh/jdb-min-available": "2",
    }
    assert pod.metadata.labels == {
        "app": "a",
        "volcano.sh/task-index": "2",
        "volcano.sh/task-spec": "a",
        "volcano.sh/job-name": "j",
        "volcano.sh/job-namespace": "ns",
        "volcano.sh/queue-name": "q",
        "volcano.sh/preemptable": "true",
    }
    assert (pod.spec.scheduler_name, pod.spec.priority_class_name, pod.spec.restart_policy) == (
        "volcano",
        "high",
        "OnFailure",
    )


def test_scheduler_and_priority_of_the_template_take_precedence() -> None:
    subject = job(task("a", 1, priority="low"))
    template = subject.spec.tasks[0]
    assert build_pod(subject, template, 0).spec.priority_class_name == "low"


@pytest.mark.parametrize(("annotations", "cpu"), [({}, "11"), ({MINIMUM: SMALLEST}, "3")])
def test_min_resources_are_those_of_the_smallest_tasks_if_the_job_says_so(
    annotations: dict[str, str], cpu: str
) -> None:
    tasks = task("big", 1, 0, cpu=9), task("small", 2, 0, cpu=1), task("first", 1, 1, cpu=1)
    subject = job(*tasks, annotations=annotations, least=3)
    assert build_pod_group(subject, lambda name: 0).spec.min_resources == {"cpu": cpu}


def test_important_tasks_come_before_small_ones() -> None:
    subject = job(
        task("small", 1, 0), task("big", 1, 0, cpu=9, priority="low"), annotations={MINIMUM: SMALLEST}, least=1
    )
    assert build_pod_group(subject, {"": 0, "low": 1, "high": 0}.__getitem__).spec.min_resources == {"cpu": "9"}


_TASKS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 9), st.sampled_from(["", "low", "high"])),
    min_size=1,
    max_size=3,
)


@given(_TASKS, st.integers(0, 12))
def test_min_resources_are_those_of_the_pods_of_highest_priority(
    tasks: list[tuple[int, int, int, str]], least: int
) -> None:
    made = [
        task(f"t{n}", replicas, min(minimum, replicas), cpu=cpu, priority=priority)
        for n, (replicas, minimum, cpu, priority) in enumerate(tasks)
    ]
    subject = job(*made, least=min(least, sum(each.replicas for each in made)))
    values = {"": 0, "low": -5, "high": 5}
    spec = build_pod_group(subject, values.__getitem__).spec

    # One by one: first the minimum of each task, if they all fit, then whatever is most important.
    by_priority = sorted(subject.spec.tasks, key=lambda each: -values[each.template.spec.priority_class_name])
    left = {each.name: each.replicas for each in by_priority}
    cpus = {each.name: int(str(each.template.spec.containers[0].resources.requests["cpu"])) for each in by_priority}
    chosen: list[str] = []
    if subject.spec.min_available >= sum(each.min_available or 0 for each in by_priority):
        for each in by_priority:
            chosen += [each.name] * (each.min_available or 0)
            left[each.name] -= each.min_available or 0
    for each in by_priority:
        chosen += [each.name] * left[each.name]
    total = sum(cpus[name] for name in chosen[: subject.spec.min_available])
    assert Resource.parse(spec.min_resources or {}) == ({"cpu": total * 1000} if total else {})


def test_pod_group_has_the_network_topology_of_its_job() -> None:
    close = job(task("a", 1))
    topology = NetworkTopology(mode="hard", highest_tier_allowed=2)
    close = replace(close, spec=replace(close.spec, network_topology=topology))
    assert build_pod_group(close, lambda name: 0).spec.network_topology == topology


def test_unsupported_fields_are_named() -> None:
    wanting = job(task("a", 1))
    with_volumes = replace(wanting, spec=replace(wanting.spec, volumes=({"mountPath": "/in"},)))
    assert unsupported_fields(with_volumes) == ["spec: volumes"]
    assert unsupported_fields(wanting) == []


def test_partitions_become_subgroup_policies() -> None:
    within = NetworkTopology(mode="hard", highest_tier_allowed=1)
    policy = PartitionPolicy(total_partitions=3, partition_size=2, min_partitions=2, network_topology=within)
    subject = job(task("a", 1), replace(task("w", 6), partition_policy=policy))
    assert build_pod_group(subject, lambda name: 0).spec.sub_group_policy == (
        SubGroupPolicy(
            name="w",
            label_selector=LabelSelector(match_labels={"volcano.sh/task-spec": "w"}),
            match_label_keys=("volcano.sh/partition-id",),
            sub_group_size=2,
            min_sub_groups=2,
            network_topology=within,
        ),
    )
    plain, divided = subject.spec.tasks
    made = [build_pod(subject, divided, index).metadata.labels["volcano.sh/partition-id"] for index in range(6)]
    assert made == ["0", "0", "1", "1", "2", "2"]
    assert "volcano.sh/partition-id" not in build_pod(subject, plain, 0).metadata.labels


def test_pods_have_additions_of_plugins() -> None:
    pod = build_pod(job(task("a", 2)), task("a", 2), 1, [Env()])
    (container,) = pod.spec.containers
    assert isinstance(container, TemplateContainer)
    assert [each.value for each in container.env] == ["1", "1"]
