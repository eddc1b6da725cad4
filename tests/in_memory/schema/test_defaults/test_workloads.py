"""What makes pods is filled in as Kubernetes fills it in."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.in_memory.schema.defaults import with_defaults

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}


def filled(kind: str, api_version: str = "apps/v1", **spec: Any) -> Any:
    return with_defaults({"metadata": {"name": "x"}, "spec": {"template": TEMPLATE} | spec}, api_version, kind)


@pytest.mark.parametrize(
    ("kind", "api_version", "spec", "found"),
    [
        (
            *("Deployment", "apps/v1", {}),
            {
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            },
        ),
        ("Deployment", "apps/v1", {"strategy": {"type": "Recreate"}}, {"strategy": {"type": "Recreate"}}),
        (
            *("DaemonSet", "apps/v1", {}),
            {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}},
        ),
        (
            *("StatefulSet", "apps/v1", {}),
            {
                "podManagementPolicy": "OrderedReady",
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            },
        ),
        ("ReplicaSet", "apps/v1", {"replicas": 0}, {"replicas": 0}),
        ("ReplicationController", "v1", {}, {"replicas": 1, "selector": {"a": "b"}}),
        (
            *("Job", "batch/v1", {}),
            {
                "completions": 1,
                "parallelism": 1,
                "backoffLimit": 6,
                "completionMode": "NonIndexed",
                "suspend": False,
                "podReplacementPolicy": "TerminatingOrFailed",
            },
        ),
    ],
)
def test_specs_get_defaults(kind: str, api_version: str, spec: Any, found: Any) -> None:
    result = filled(kind, api_version, **spec)
    assert result["spec"].items() >= found.items()
    assert result["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert with_defaults(result, api_version, kind) == result


def test_parallel_job_has_no_default_completions() -> None:
    assert "completions" not in filled("Job", "batch/v1", parallelism=3)["spec"]


def test_nested_templates_get_defaults() -> None:
    claims = filled("StatefulSet", volumeClaimTemplates=[{"metadata": {"name": "v"}, "spec": {}}])
    (claim,) = claims["spec"]["volumeClaimTemplates"]
    assert (claim["kind"], claim["spec"], claim["status"]) == (
        *("PersistentVolumeClaim", {"volumeMode": "Filesystem"}),
        {"phase": "Pending"},
    )
    cron = filled("CronJob", "batch/v1", jobTemplate={"spec": {"template": TEMPLATE}})
    assert cron["spec"]["concurrencyPolicy"] == "Allow"
    assert cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"] == "Always"
