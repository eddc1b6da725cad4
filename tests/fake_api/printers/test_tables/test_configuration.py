"""The rows of what is configured."""

from __future__ import annotations

import pytest

from kframework.fake_api.printers.tables import CONFIGURATION

ApiDocument = dict[str, object]

NOW = 1767229200.0  # 2026-01-01T01:00:00Z
CREATED = "2026-01-01T00:55:00Z"
RBAC = "rbac.authorization.k8s.io/v1"


@pytest.mark.parametrize(
    ("api_version", "kind", "document", "expected"),
    [
        ("v1", "ConfigMap", {"data": {"a": "1"}, "binaryData": {"b": "Yg=="}}, ("a", 2, "5m")),
        ("v1", "Secret", {"type": "Opaque", "data": {"a": "MQ=="}}, ("a", "Opaque", 1, "5m")),
        ("v1", "ServiceAccount", {"secrets": [{"name": "x"}]}, ("a", 1, "5m")),
        (
            "v1",
            "ResourceQuota",
            {"status": {"hard": {"pods": "3", "limits.cpu": "2"}, "used": {"pods": "1"}}},
            ("a", "pods: 1/3", "limits.cpu: 0/2", "5m"),
        ),
        (RBAC, "Role", {}, ("a", CREATED)),
        (
            RBAC,
            "RoleBinding",
            {
                "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [
                    {"kind": "User", "name": "ann"},
                    {"kind": "User", "name": "bob"},
                    {"kind": "ServiceAccount", "namespace": "shop", "name": "web"},
                ],
            },
            ("a", "Role/r", "5m", "ann, bob", "", "shop/web"),
        ),
        ("apiregistration.k8s.io/v1", "APIService", {}, ("a", "Local", "Unknown", "5m")),
        (
            "apiregistration.k8s.io/v1",
            "APIService",
            {
                "spec": {"service": {"namespace": "kube-system", "name": "metrics"}},
                "status": {"conditions": [{"type": "Available", "status": "False", "reason": "NoEndpoints"}]},
            },
            ("a", "kube-system/metrics", "False (NoEndpoints)", "5m"),
        ),
        ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", {"webhooks": [{}, {}]}, ("a", 2, "5m")),
        (
            "certificates.k8s.io/v1",
            "CertificateSigningRequest",
            {
                "spec": {"signerName": "s", "username": "u"},
                "status": {"conditions": [{"type": "Approved"}], "certificate": "x"},
            },
            ("a", "5m", "s", "u", "<none>", "Approved,Issued"),
        ),
        ("certificates.k8s.io/v1", "CertificateSigningRequest", {}, ("a", "5m", "", "", "<none>", "Pending")),
        (
            *("certificates.k8s.io/v1", "CertificateSigningRequest", {"spec": {"expirationSeconds": 86400}}),
            ("a", "5m", "", "", "24h", "Pending"),
        ),
        ("node.k8s.io/v1", "RuntimeClass", {"handler": "gvisor"}, ("a", "gvisor", "5m")),
    ],
)
def test_objects_are_encoded_as_rows(
    api_version: str, kind: str, document: ApiDocument, expected: tuple[object, ...]
) -> None:
    document = {"metadata": {"name": "a", "creationTimestamp": CREATED}, **document}
    assert CONFIGURATION[api_version, kind].cells(document, NOW) == expected
