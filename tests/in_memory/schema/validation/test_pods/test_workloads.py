"""What is wrong with what makes pods is said in Kubernetes' words."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.in_memory.schema.validation.kinds import object_causes

POD = {"containers": [{"name": "c", "image": "x"}]}


def workload(labels: Any = None, pod: Any = None, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"} if labels is None else labels}, "spec": POD | (pod or {})}
    return {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template} | spec}


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("Deployment", workload(), []),
        (
            *("Deployment", workload({"a": "c"})),
            ['spec.template.metadata.labels: Invalid value: {"a":"c"}: `selector` does not match template `labels`'],
        ),
        ("ReplicaSet", workload(selector=None), ["spec.selector: Required value"]),
        (
            "DaemonSet",
            workload(selector={}),
            ["spec.selector: Invalid value: {}: empty selector is invalid for daemonset"],
        ),
        (
            *("StatefulSet", workload(pod={"restartPolicy": "Never"})),
            ['spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"'],
        ),
        ("Deployment", workload(replicas=-1), ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
        ("Deployment", workload(pod={"containers": []}), ["spec.template.spec.containers: Required value"]),
        (
            *("Deployment", workload(pod={"activeDeadlineSeconds": 1})),
            [
                (
                    "spec.template.spec.activeDeadlineSeconds: Forbidden:"
                    " activeDeadlineSeconds in ReplicaSet is not Supported"
                )
            ],
        ),
        (
            "Deployment",
            workload(selector={"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}),
            [],
        ),
    ],
)
def test_invalid_workload_has_causes(kind: str, data: dict[str, Any], expected: list[str]) -> None:
    assert list(map(str, object_causes(data, "apps/v1", kind))) == expected


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("Job", workload(pod={"restartPolicy": "Never"}), []),
        (
            *("Job", workload(pod={"restartPolicy": "Always"})),
            ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'],
        ),
        (
            *("Job", workload(completionMode="Indexed")),
            ["spec.completions: Required value: when completion mode is Indexed"],
        ),
    ],
)
def test_invalid_job_has_causes(kind: str, data: dict[str, Any], expected: list[str]) -> None:
    assert list(map(str, object_causes(data, "batch/v1", kind))) == expected
