"""Fields that decide where pods run may change where a real API server lets them change."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.schema.changes import change_causes, update_causes
from kframework.in_memory.schema.defaults import with_defaults
from kframework.in_memory.schema.validation.kinds import object_causes


def toleration(**fields: Any) -> dict[str, Any]:
    return {"tolerations": [{"key": "broken", "operator": "Exists", "effect": "NoExecute"} | fields]}


def job(suspended: bool = True, start_time: str | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "command": ["sh"]} | spec.pop("container", {})
    template = {
        "metadata": {"labels": {"a": "b"}} | spec.pop("metadata", {}),
        "spec": {"restartPolicy": "Never", "containers": [container]} | spec,
    }
    data = {"spec": {"suspend": suspended, "template": template}, "status": {"startTime": start_time}}
    return with_defaults(data, "batch/v1", "Job")


def test_toleration_seconds_of_a_pod_may_change() -> None:
    assert list(update_causes(toleration(tolerationSeconds=15), toleration(tolerationSeconds=600))) == []
    (cause,) = update_causes(toleration(tolerationSeconds=15), toleration(tolerationSeconds=15, key="other"))
    assert str(cause).endswith("existing toleration can not be modified except its tolerationSeconds")


def required(*terms: list[str], kind: str = "nodeAffinity") -> dict[str, Any]:
    """Return an affinity with a term for each list of keys."""
    found = [{"matchExpressions": [{"key": key, "operator": "Exists"} for key in keys]} for keys in terms]
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": found}}}}


ONLY_MORE = "only additions are allowed (no mutations or deletions)"
SELECTOR = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
SAME_TERMS = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
#: Changes of a pod, and the first problem of each while the pod is gated; "" if there is none.
CHANGES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": "b", "c": "d"}}, ""),
    ({"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": "c"}}, SELECTOR),
    ({"nodeSelector": {"a": "b"}}, {}, SELECTOR),
    ({}, required(["a"], ["b"]), ""),
    (required(["a"]), required(["a", "b"]), ""),
    (required(["a"]), required(["b", "a"]), ONLY_MORE),
    (required(["a", "b"]), required(["a"]), ONLY_MORE),
    (required([]), required(["a"]), ONLY_MORE),
    (required(["a"]), required(["a"], ["b"]), SAME_TERMS),
    (required(["a"]), {}, SAME_TERMS),
    ({}, required(["a"], kind="podAffinity"), "pod updates may not change fields other than"),
]


@pytest.mark.parametrize(("old", "new", "problem"), CHANGES)
def test_gated_pod_may_only_be_confined_to_fewer_nodes(old: dict[str, Any], new: dict[str, Any], problem: str) -> None:
    def causes(gates: list[dict[str, str]]) -> list[str]:
        return [str(each) for each in update_causes({**old, "schedulingGates": gates}, new)]

    found = causes([{"name": "g"}])
    assert len(found) == bool(problem) and all(problem in each for each in found)
    assert len(causes([])) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"nodeSelector": {"zone": "b"}},
        {"tolerations": [{"operator": "Exists"}]},
        {"schedulingGates": [{"name": "g"}]},
        {"affinity": {"nodeAffinity": {}}},
        {"container": {"resources": {"requests": {"cpu": "2"}}}},
        {"metadata": {"labels": {"a": "b", "c": "d"}}},
        {"metadata": {"annotations": {"a": "b"}}},
    ],
)
def test_directives_of_a_suspended_job_may_change_until_it_starts(changed: dict[str, Any]) -> None:
    def causes(**state: Any) -> list[str]:
        return [
            str(cause).rpartition(": ")[2] for cause in change_causes(job(**state), job(**changed), "batch/v1", "Job")
        ]

    assert causes() == []
    assert causes(suspended=False) == ["field is immutable"]
    assert causes(start_time="2026-01-01T00:00:00Z") == ["field is immutable"]


@pytest.mark.parametrize(
    "changed", [{"container": {"command": ["bash"]}}, {"affinity": {"podAffinity": {"a": "b"}}}, {"hostNetwork": True}]
)
def test_rest_of_a_suspended_jobs_template_is_immutable(changed: dict[str, Any]) -> None:
    assert len(list(change_causes(job(), job(**changed), "batch/v1", "Job"))) == 1


@pytest.mark.parametrize(("mounted", "problems"), [("data", 0), ("other", 1)])
def test_containers_of_a_stateful_set_mount_the_templates_of_its_claims(mounted: str, problems: int) -> None:
    container = {"name": "c", "image": "i", "volumeMounts": [{"name": mounted, "mountPath": "/data"}]}
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [container]}}
    claims = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    spec = {"selector": {"matchLabels": {"app": "db"}}, "template": template, "volumeClaimTemplates": claims}
    data = {"metadata": {"name": "db"}, "spec": spec}
    assert len(list(object_causes(data, "apps/v1", "StatefulSet"))) == problems
