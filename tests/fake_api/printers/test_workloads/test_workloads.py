"""The rows of workloads."""

from __future__ import annotations

import pytest

from kframework.fake_api.printers.workloads import WORKLOADS

ApiDocument = dict[str, object]

NOW = 1767229200.0  # 2026-01-01T01:00:00Z
METADATA: ApiDocument = {"name": "a", "creationTimestamp": "2026-01-01T00:55:00Z"}
TEMPLATE: ApiDocument = {"spec": {"containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "j"}]}}
SELECTOR: ApiDocument = {"matchLabels": {"app": "a"}}


def cells(api_version: str, kind: str, document: ApiDocument) -> tuple[object, ...]:
    return WORKLOADS[api_version, kind].cells({"metadata": METADATA, **document}, NOW)


@pytest.mark.parametrize(
    ("api_version", "kind", "document", "expected"),
    [
        (
            "apps/v1",
            "Deployment",
            {
                "spec": {"replicas": 3, "selector": SELECTOR, "template": TEMPLATE},
                "status": {"readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2},
            },
            ("a", "2/3", 1, 2, "5m", "c,d", "i:1,j", "app=a"),
        ),
        ("apps/v1", "Deployment", {"spec": {}}, ("a", "0/1", 0, 0, "5m", "", "", "<none>")),
        (
            "apps/v1",
            "DaemonSet",
            {
                "spec": {"selector": SELECTOR, "template": {"spec": {"nodeSelector": {"disk": "ssd"}}}},
                "status": {"desiredNumberScheduled": 3, "currentNumberScheduled": 2, "numberReady": 1},
            },
            ("a", 3, 2, 1, 0, 0, "disk=ssd", "5m", "", "", "app=a"),
        ),
        ("apps/v1", "StatefulSet", {"spec": {"template": TEMPLATE}}, ("a", "0/1", "5m", "c,d", "i:1,j")),
        (
            "apps/v1",
            "ControllerRevision",
            {
                "metadata": METADATA
                | {
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}]
                },
                "revision": 2,
            },
            ("a", "daemonset.apps/d", 2, "5m"),
        ),
        ("apps/v1", "ControllerRevision", {"revision": 2}, ("a", "<none>", 2, "5m")),
        (
            "batch/v1",
            "CronJob",
            {
                "spec": {"schedule": "* * * * *", "suspend": True, "jobTemplate": {"spec": {"template": TEMPLATE}}},
                "status": {"active": [{}], "lastScheduleTime": "2026-01-01T00:59:00Z"},
            },
            ("a", "* * * * *", "<none>", "True", 1, "60s", "5m", "c,d", "i:1,j", "<none>"),
        ),
        (
            "v1",
            "PodTemplate",
            {"template": TEMPLATE | {"metadata": {"labels": {"b": "2", "a": "1"}}}},
            ("a", "c,d", "i:1,j", "a=1,b=2"),
        ),
    ],
)
def test_objects_are_encoded_as_rows(
    api_version: str, kind: str, document: ApiDocument, expected: tuple[object, ...]
) -> None:
    assert cells(api_version, kind, document) == expected


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({"completions": 2}, {"succeeded": 1, "startTime": "2026-01-01T00:58:00Z"}, ("Running", "1/2", "2m")),
        ({"parallelism": 3}, {}, ("Running", "0/1 of 3", "")),
        ({}, {"conditions": [{"type": "Suspended", "status": "True"}]}, ("Suspended", "0/1", "")),
        (
            {"completions": 1},
            {
                "succeeded": 1,
                "startTime": "2026-01-01T00:58:00Z",
                "completionTime": "2026-01-01T00:58:09Z",
                "conditions": [
                    {"type": "SuccessCriteriaMet", "status": "True"},
                    {"type": "Complete", "status": "True"},
                ],
            },
            ("Complete", "1/1", "9s"),
        ),
        ({}, {"conditions": [{"type": "Failed", "status": "True"}]}, ("Failed", "0/1", "")),
    ],
)
def test_job_row_shows_status_and_completions(
    spec: ApiDocument, status: ApiDocument, expected: tuple[str, ...]
) -> None:
    assert cells("batch/v1", "Job", {"spec": spec, "status": status})[1:4] == expected


@pytest.mark.parametrize(
    ("metrics", "current", "targets"),
    [
        ([], [], "<none>"),
        (
            [{"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}}],
            [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 30}}}],
            "cpu: 30%/80%",
        ),
        (
            [{"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}}] * 3,
            [],
            "cpu: <unknown>/80%, cpu: <unknown>/80% + 1 more...",
        ),
        ([{"type": "Pods", "pods": {"target": {"averageValue": "2"}}}], [], "<unknown>/2 (avg)"),
    ],
)
def test_autoscaler_row_shows_targets(metrics: list[ApiDocument], current: list[ApiDocument], targets: str) -> None:
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 3, "metrics": metrics}
    row = cells("autoscaling/v2", "HorizontalPodAutoscaler", {"spec": spec, "status": {"currentMetrics": current}})
    assert row == ("a", "Deployment/web", targets, "<unset>", 3, 0, "5m")
