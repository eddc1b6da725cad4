"""Each kind has its own defaults, others have none."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.in_memory.schema.defaults import default_service, with_defaults


@pytest.mark.parametrize(
    ("api_version", "kind", "data", "found"),
    [
        ("v1", "Secret", {}, {"type": "Opaque"}),
        (
            *("v1", "Secret", {"data": {"a": "eA==", "b": "eA=="}, "stringData": {"b": "y"}}),
            {"type": "Opaque", "data": {"a": "eA==", "b": "eQ=="}},
        ),
        ("v1", "PersistentVolumeClaim", {"spec": {}}, {"spec": {"volumeMode": "Filesystem"}}),
        ("v1", "Pod", {"spec": 1}, {"spec": 1}),
        ("storage.k8s.io/v1", "StorageClass", {}, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
        ("example.com/v1", "Secret", {}, {}),
    ],
)
def test_defaults_are_added(api_version: str, kind: str, data: Any, found: Any) -> None:
    assert with_defaults(data, api_version, kind) == found


PORT = {"port": 80}
FILLED = {"port": 80, "protocol": "TCP", "targetPort": 80}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        (
            {"ports": [PORT]},
            {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "ports": [FILLED]},
        ),
        ({"type": "NodePort"}, {"externalTrafficPolicy": "Cluster"}),
        ({"type": "LoadBalancer"}, {"allocateLoadBalancerNodePorts": True, "externalTrafficPolicy": "Cluster"}),
        (
            {"sessionAffinity": "ClientIP"},
            {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}},
        ),
        ({"ports": [{"port": 80, "targetPort": "http"}]}, {"ports": [{**FILLED, "targetPort": "http"}]}),
    ],
)
def test_specs_get_defaults(spec: Any, found: Any) -> None:
    result: Any = default_service({"spec": spec})["spec"]
    assert result.items() >= found.items()
    assert default_service({"spec": result}) == {"spec": result}


def test_external_name_service_has_no_policy() -> None:
    result: Any = default_service({"spec": {"type": "ExternalName", "externalName": "x.example"}})["spec"]
    assert "internalTrafficPolicy" not in result
