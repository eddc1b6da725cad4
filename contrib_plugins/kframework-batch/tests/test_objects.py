"""The kinds of batch scheduling, as they stand in files and in the API."""

from __future__ import annotations

import msgspec
import pytest
from kframework_batch.objects import (
    Job,
    KubePodGroup,
    PodGroup,
    PodGroupCondition,
    PodGroupStatus,
    Queue,
    SigsPodGroup,
)

from kframework.objects import ApiObject, find_kind
from kframework.objects.openapi.unknown_fields import unknown_fields
from kframework.objects.problem import format_path


@pytest.mark.parametrize(
    ("api_version", "name", "struct", "namespaced"),
    [
        ("scheduling.volcano.sh/v1beta1", "Queue", Queue, False),
        ("scheduling.volcano.sh/v1beta1", "PodGroup", PodGroup, True),
        ("batch.volcano.sh/v1alpha1", "Job", Job, True),
        ("scheduling.x-k8s.io/v1alpha1", "PodGroup", SigsPodGroup, True),
        ("scheduling.k8s.io/v1alpha2", "PodGroup", KubePodGroup, True),
    ],
)
def test_kinds_are_declared(api_version: str, name: str, struct: type[ApiObject], namespaced: bool) -> None:
    kind = find_kind(api_version, name)
    assert kind is not None
    assert (kind.struct, kind.namespaced) == (struct, namespaced)


def test_misspelt_fields_of_a_job_are_found_in_its_templates_too() -> None:
    container = {"name": "c", "livenessProbe": {"exec": {}}, "resorces": {}}
    task = {"replicas": 1, "topologyPolicy": "none", "template": {"spec": {"containers": [container]}}}
    data = {"spec": {"minAvailabel": 2, "tasks": [task]}, "status": {"conditions": []}}
    found = unknown_fields(data, "batch.volcano.sh/v1alpha1", "Job")
    assert [(format_path(each.path), each.nearest) for each in found] == [
        ("spec.minAvailabel", "minAvailable"),
        ("spec.tasks[0].template.spec.containers[0].resorces", "resources"),
    ]


def test_queue_is_decoded_from_yaml() -> None:
    text = b"""{"metadata": {"name": "q"}, "spec": {"weight": 4, "capability": {"cpu": "8"}, "reclaimable": false,
        "guarantee": {"resource": {"cpu": 2}}, "deserved": {"cpu": "4"}, "parent": "root", "priority": 5}}"""
    spec = msgspec.json.decode(text, type=Queue).spec
    assert (spec.weight, spec.capability, spec.reclaimable, spec.guarantee.resource) == (
        4,
        {"cpu": "8"},
        False,
        {"cpu": 2},
    )
    assert (spec.deserved, spec.parent, spec.priority) == ({"cpu": "4"}, "root", 5)


def test_pod_group_is_decoded_from_yaml() -> None:
    text = b"""{"metadata": {"name": "g"}, "spec": {"minMember": 3, "minTaskMember": {"ps": 1}, "queue": "q",
        "priorityClassName": "high", "minResources": {"cpu": "3"}, "networkTopology": {"mode": "hard",
        "highestTierAllowed": 2}, "subGroupPolicy": [{"name": "s", "subGroupSize": 2}]},
        "status": {"phase": "Running", "conditions": [{"type": "Scheduled", "transitionID": "t"}]}}"""
    group = msgspec.json.decode(text, type=PodGroup)
    spec = group.spec
    assert (spec.min_member, spec.min_task_member, spec.queue, spec.priority_class_name) == (3, {"ps": 1}, "q", "high")
    assert spec.min_resources == {"cpu": "3"}
    assert spec.network_topology is not None and spec.network_topology.highest_tier_allowed == 2
    assert [policy.sub_group_size for policy in spec.sub_group_policy] == [2]
    assert group.status == PodGroupStatus(
        phase="Running", conditions=(PodGroupCondition(type="Scheduled", transition_id="t"),)
    )


def test_job_is_decoded_from_yaml() -> None:
    text = b"""{"metadata": {"name": "j"}, "spec": {"minAvailable": 2, "queue": "q", "maxRetry": 1, "tasks": [{
        "name": "worker", "replicas": 3, "minAvailable": 2, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "main"}]}}, "policies": [{"event": "PodFailed", "action": "RestartJob",
        "exitCode": 3}]}]}}"""
    spec = msgspec.json.decode(text, type=Job).spec
    (task,) = spec.tasks
    assert (spec.min_available, spec.queue, spec.max_retry) == (2, "q", 1)
    assert (task.name, task.replicas, task.min_available, task.template.metadata.labels) == ("worker", 3, 2, {"a": "b"})
    assert [(policy.event, policy.action, policy.exit_code) for policy in task.policies] == [
        ("PodFailed", "RestartJob", 3)
    ]


def test_pod_groups_of_other_projects_are_decoded_from_yaml() -> None:
    sigs = msgspec.json.decode(b'{"spec": {"minMember": 2, "scheduleTimeoutSeconds": 9}}', type=SigsPodGroup)
    assert (sigs.spec.min_member, sigs.spec.schedule_timeout_seconds) == (2, 9)
    text = b"""{"spec": {"schedulingPolicy": {"gang": {"minCount": 4}}, "priority": 7,
        "schedulingConstraints": {"topology": [{"key": "rack"}]}}}"""
    kube = msgspec.json.decode(text, type=KubePodGroup)
    assert kube.spec.scheduling_policy.gang is not None and kube.spec.scheduling_policy.gang.min_count == 4
    assert (kube.spec.priority, [one.key for one in kube.spec.scheduling_constraints.topology]) == (7, ["rack"])
