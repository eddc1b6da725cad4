"""What may not change is refused, and what was not said counts as unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.schema.changes import change_causes
from tests.fake_api.local_api import MERGE, LocalApi


def selecting(value: str, **spec: Any) -> dict[str, Any]:
    return {"spec": {"selector": {"matchLabels": {"a": value}}} | spec}


@pytest.mark.parametrize(
    ("api_version", "kind", "old", "new", "found"),
    [
        ("apps/v1", "Deployment", selecting("b"), selecting("b", replicas=2), []),
        (
            *("apps/v1", "Deployment", selecting("b"), selecting("c")),
            ['spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable'],
        ),
        (
            *("v1", "Secret", {"type": "a"}, {"type": "b"}),
            ['type: Invalid value: "b": field is immutable'],
        ),
        (
            *("v1", "ConfigMap", {"immutable": True, "data": {"a": "b"}}, {"data": {"a": "c"}}),
            [
                "immutable: Forbidden: field is immutable when `immutable` is set",
                "data: Forbidden: field is immutable when `immutable` is set",
            ],
        ),
        (
            *("v1", "Service", {"spec": {"clusterIP": "10.96.0.1"}}, {"spec": {"clusterIP": "10.96.0.2"}}),
            ['spec.clusterIPs[0]: Invalid value: ["10.96.0.2"]: may not change once set'],
        ),
        (
            "rbac.authorization.k8s.io/v1",
            *("RoleBinding", {"roleRef": {"name": "a"}}, {"roleRef": {"name": "b"}}),
            ['roleRef: Invalid value: {"name":"b"}: cannot change roleRef'],
        ),
        ("v1", "Pod", {"spec": {"a": 1}}, {"spec": {"a": 2}}, []),
        (
            *("scheduling.k8s.io/v1", "PriorityClass", {"value": 10}, {"value": 20}),
            ["value: Forbidden: may not be changed in an update."],
        ),
        (
            *("storage.k8s.io/v1", "StorageClass"),
            *({"provisioner": "a", "reclaimPolicy": "Retain"}, {"provisioner": "b", "reclaimPolicy": "Retain"}),
            ["provisioner: Forbidden: updates to provisioner are forbidden."],
        ),
        (
            *("storage.k8s.io/v1", "StorageClass"),
            *(
                {"volumeBindingMode": "WaitForFirstConsumer"},
                {"volumeBindingMode": "Immediate", "reclaimPolicy": "Delete"},
            ),
            ['volumeBindingMode: Invalid value: "Immediate": field is immutable'],
        ),
    ],
)
def test_forbidden_change_is_rejected(api_version: str, kind: str, old: Any, new: Any, found: list[str]) -> None:
    assert list(map(str, change_causes(old, new, api_version, kind))) == found


def test_stateful_set_may_change_in_few_fields() -> None:
    (cause,) = change_causes({"spec": {"serviceName": "a"}}, {"spec": {"serviceName": "b"}}, "apps/v1", "StatefulSet")
    assert str(cause).startswith("spec: Forbidden: updates to statefulset spec for fields other than 'replicas', ")


REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


async def test_certificate_request_is_approved_once() -> None:
    api = LocalApi()
    stored = await api.call("POST", REQUESTS, {"metadata": {"name": "a"}, "spec": {"request": "YQ=="}})
    assert stored["spec"]["username"] == "kubernetes-admin"
    approved = {"type": "Approved", "status": "True", "reason": "KubectlApprove"}
    body = stored | {"spec": {}, "status": {"conditions": [approved]}}
    result = await api.call("PUT", f"{REQUESTS}/a/approval", body)
    assert result["spec"] == stored["spec"]
    assert result["status"]["conditions"][0].items() > approved.items()
    for path, conditions, why in (
        ("approval", [], 'Forbidden: updates may not remove a condition of type "Approved"'),
        (
            "approval",
            [approved, approved | {"type": "Denied"}],
            "Approved and Denied conditions are mutually exclusive",
        ),
        ("status", [approved | {"reason": "x"}], 'updates may not modify a condition of type "Approved"'),
        ("status", [approved | {"status": "False"}], 'status: Unsupported value: "False": supported values: "True"'),
    ):
        patch = {"status": {"conditions": conditions}}
        _, _, message = await api.call_error("PATCH", f"{REQUESTS}/a/{path}", patch, content_type=MERGE)
        assert why in message
