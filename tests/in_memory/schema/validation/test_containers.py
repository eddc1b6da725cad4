"""Containers with unusual but valid fields have no problems."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.in_memory.schema.validation.containers import claim_name_causes, container_causes, security_causes

COMMAND = {"exec": {"command": ["true"]}}


@pytest.mark.parametrize(
    "fields",
    [
        {"livenessProbe": {"httpGet": {"path": "/", "port": "http", "scheme": "HTTPS"}, "successThreshold": 1}},
        {
            "livenessProbe": {"grpc": {"port": 9000}},
            "readinessProbe": {"tcpSocket": {"port": 1}, "successThreshold": 3},
        },
        {"startupProbe": {**COMMAND, "initialDelaySeconds": 0}, "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}},
        {"terminationMessagePolicy": "FallbackToLogsOnError", "imagePullPolicy": "Never"},
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}]},
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k.txt"}}}]},
        {"envFrom": [{"secretRef": {"name": "s"}, "prefix": "S_"}, {"configMapRef": {"name": "m", "optional": True}}]},
        {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a/b", "mountPropagation": "None"}]},
        {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPathExpr": "$(A)"}, {"name": "v", "mountPath": "/w"}]},
        {"volumeDevices": [{"name": "v", "devicePath": "/dev/xvda"}]},
        {"securityContext": {"privileged": True, "allowPrivilegeEscalation": True, "runAsUser": 0}},
        {"ports": [{"containerPort": 80, "hostIP": "::1", "name": "http"}]},
    ],
)
def test_valid_container_has_no_causes(fields: dict[str, Any]) -> None:
    container = {"name": "c", "image": "i", **fields}
    assert [str(each) for each in container_causes(container, "c", {"v"}, set())] == []


@pytest.mark.parametrize(
    ("claims", "found"),
    [
        ([{"name": "gpu"}], []),
        ([{"name": "gpu", "request": "a"}, {"name": "gpu", "request": "b"}], []),
        ([{"name": "gpu"}, {"name": "gpu"}], ['c[1]: Duplicate value: "gpu"']),
        ([{}], ["c[0]: Required value"]),
        ([{"name": "nic"}], ['c[0]: Not found: "nic"']),
    ],
)
def test_claims_of_a_container_are_those_of_its_pod(claims: list[dict[str, str]], found: list[str]) -> None:
    assert [str(each) for each in claim_name_causes({"resources": {"claims": claims}}, "c", {"gpu"})] == found


def test_seccomp_profile_has_a_known_type() -> None:
    assert not [*security_causes({"seccompProfile": {"type": "RuntimeDefault"}}, "s")]
    (cause,) = security_causes({"seccompProfile": {}}, "s")
    assert cause.field == "s.seccompProfile.type"
