"""Kinds that no scheduler reads are validated in Kubernetes' words."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.schema.changes import change_causes
from kframework.in_memory.schema.defaults import with_defaults
from kframework.in_memory.schema.validation.kinds import object_causes
from tests.fake_api.local_api import LocalApi

RBAC, NETWORK = "rbac.authorization.k8s.io/v1", "networking.k8s.io/v1"
RBAC_GROUP = "rbac.authorization.k8s.io"
PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
BACKEND = {"service": {"name": "web", "port": {"number": 80}}}


def causes(api_version: str, kind: str, data: Any) -> list[str]:
    named = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}} | data
    return list(map(str, object_causes(with_defaults(named, api_version, kind), api_version, kind)))


@pytest.mark.parametrize(
    ("secret", "expected"),
    [
        ({"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}}, []),
        (
            {"type": "kubernetes.io/tls", "data": {"tls.crt": ""}},
            ["data[tls.key]: Required value"],
        ),
        ({"type": "kubernetes.io/dockerconfigjson"}, ["data[.dockerconfigjson]: Required value"]),
        ({"type": "kubernetes.io/basic-auth", "stringData": {"password": "x"}}, []),
        (
            {"type": "kubernetes.io/basic-auth"},
            ["data[username]: Required value", "data[password]: Required value"],
        ),
        (
            {"type": "kubernetes.io/service-account-token"},
            ["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
        ),
        ({"type": "example.com/any"}, []),
    ],
)
def test_secret_has_the_keys_of_its_type(secret: Any, expected: list[str]) -> None:
    assert causes("v1", "Secret", secret) == expected


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ({}, []),
        ({"type": "Recreate"}, []),
        (
            {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}},
            ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
        ),
        (
            {"type": "Slow"},
            ['spec.strategy: Unsupported value: {"type":"Slow"}: supported values: "Recreate", "RollingUpdate"'],
        ),
        (
            {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}},
            ['spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0'],
        ),
        (
            {"rollingUpdate": {"maxSurge": -1, "maxUnavailable": "200%"}},
            [
                "spec.strategy.rollingUpdate.maxSurge: Invalid value: -1: must be greater than or equal to 0",
                'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "200%": must not be greater than 100%',
            ],
        ),
    ],
)
def test_strategy_of_a_deployment_is_consistent(strategy: Any, expected: list[str]) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "strategy": strategy}
    assert causes("apps/v1", "Deployment", {"spec": spec}) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 1}, []),
        (
            {"minAvailable": 1, "maxUnavailable": 1},
            [
                (
                    'spec: Invalid value: {"minAvailable":1,"maxUnavailable":1}: '
                    "minAvailable and maxUnavailable cannot be both set"
                )
            ],
        ),
        ({"minAvailable": "half"}, [f'spec.minAvailable: Invalid value: "half": {PERCENT}']),
        ({"maxUnavailable": "101%"}, ['spec.maxUnavailable: Invalid value: "101%": must not be greater than 100%']),
        ({"maxUnavailable": -1}, ["spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"]),
        (
            {"unhealthyPodEvictionPolicy": "Never"},
            [
                (
                    'spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": '
                    'supported values: "AlwaysAllow", "IfHealthyBudget"'
                )
            ],
        ),
    ],
)
def test_budget_is_a_number_or_a_percentage(spec: Any, expected: list[str]) -> None:
    assert causes("policy/v1", "PodDisruptionBudget", {"spec": spec}) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"scaleTargetRef": TARGET, "maxReplicas": 3}, []),
        ({"scaleTargetRef": {"kind": "ReplicationController", "name": "a"}, "maxReplicas": 3}, []),
        (
            {"scaleTargetRef": {}},
            [
                "spec.maxReplicas: Required value: must be set and greater than 0",
                "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
                "spec.scaleTargetRef.kind: Required value",
                "spec.scaleTargetRef.name: Required value",
                'spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group',
            ],
        ),
        (
            {"scaleTargetRef": TARGET, "minReplicas": 0, "maxReplicas": -1},
            [
                "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
                "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1",
                "spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
            ],
        ),
        (
            {"scaleTargetRef": TARGET, "maxReplicas": 1, "metrics": [{}, {"type": "Pods", "resource": {}}]},
            [
                "spec.metrics[0].type: Required value: must specify a metric source type",
                (
                    'spec.metrics[0].type: Unsupported value: "": supported values: "ContainerResource", "External", '
                    '"Object", "Pods", "Resource"'
                ),
                "spec.metrics[1].pods: Required value: must populate information for the given metric source",
                "spec.metrics[1].resource: Forbidden: must populate the given metric source only",
            ],
        ),
    ],
)
def test_autoscaler_has_bounds_and_a_target(spec: Any, expected: list[str]) -> None:
    assert causes("autoscaling/v2", "HorizontalPodAutoscaler", {"spec": spec}) == expected


def paths(**path: Any) -> Any:
    return {"rules": [{"http": {"paths": [{"pathType": "Prefix", "path": "/", "backend": BACKEND} | path]}}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"defaultBackend": BACKEND}, []),
        (paths(), []),
        (paths(pathType="ImplementationSpecific", path=""), []),
        ({}, ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]),
        ({"rules": [{"http": {"paths": []}}]}, ["spec.rules[0].http.paths: Required value"]),
        (
            {"rules": [{"host": "10.0.0.1"}]},
            ['spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address'],
        ),
        (
            paths(pathType=None),
            ["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"],
        ),
        (
            paths(pathType="Regex"),
            [
                (
                    'spec.rules[0].http.paths[0].pathType: Unsupported value: "Regex": '
                    'supported values: "Exact", "ImplementationSpecific", "Prefix"'
                )
            ],
        ),
        (
            paths(path="a//b/.."),
            [
                f'spec.rules[0].http.paths[0].path: Invalid value: "a//b/..": {why}'
                for why in ("must be an absolute path", "must not contain '//'", "cannot end with '/..'")
            ],
        ),
        (
            paths(backend={}),
            ['spec.rules[0].http.paths[0].backend: Invalid value: "": resource or service backend is required'],
        ),
        (
            {"defaultBackend": BACKEND | {"resource": {}}},
            ['spec.defaultBackend: Invalid value: "": cannot set both resource and service backends'],
        ),
        (
            {"defaultBackend": {"service": {"port": {"name": "http", "number": 80}}}},
            [
                "spec.defaultBackend.service.name: Required value",
                'spec.defaultBackend: Invalid value: "": cannot set both port name & port number',
            ],
        ),
        (
            {"defaultBackend": {"service": {"name": "web"}}},
            ["spec.defaultBackend: Required value: port name or number is required"],
        ),
    ],
)
def test_ingress_has_rules_with_backends(spec: Any, expected: list[str]) -> None:
    assert causes(NETWORK, "Ingress", {"spec": spec}) == expected


@pytest.mark.parametrize(
    ("kind", "rule", "expected"),
    [
        ("Role", {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, []),
        ("ClusterRole", {"verbs": ["get"], "nonResourceURLs": ["/healthz"]}, []),
        (
            *("Role", {}),
            [
                "rules[0].verbs: Required value: verbs must contain at least one value",
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource",
            ],
        ),
        (
            *("Role", {"verbs": ["get"], "nonResourceURLs": ["/"], "resources": ["pods"]}),
            [
                f'rules[0].nonResourceURLs: Invalid value: ["/"]: {why}'
                for why in (
                    "namespaced rules cannot apply to non-resource URLs",
                    "rules cannot apply to both regular resources and non-resource URLs",
                )
            ],
        ),
    ],
)
def test_role_has_verbs_and_their_objects(kind: str, rule: Any, expected: list[str]) -> None:
    assert causes(RBAC, kind, {"rules": [rule]}) == expected


@pytest.mark.parametrize(
    ("kind", "role", "subject", "expected"),
    [
        ("RoleBinding", {"kind": "Role", "name": "a"}, {"kind": "User", "name": "ann"}, []),
        ("RoleBinding", {"kind": "ClusterRole", "name": "a"}, {"kind": "ServiceAccount", "name": "robot"}, []),
        (
            *("ClusterRoleBinding", {"kind": "Role", "name": "a"}, {"kind": "ServiceAccount", "name": "robot"}),
            [
                'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"',
                "subjects[0].namespace: Required value",
            ],
        ),
        (
            *("RoleBinding", {"kind": "Pod", "apiGroup": "x"}, {"kind": "Pod"}),
            [
                f'roleRef.apiGroup: Unsupported value: "x": supported values: "{RBAC_GROUP}"',
                'roleRef.kind: Unsupported value: "Pod": supported values: "Role", "ClusterRole"',
                "roleRef.name: Required value",
                "subjects[0].name: Required value",
                'subjects[0].kind: Unsupported value: "Pod": supported values: "ServiceAccount", "User", "Group"',
            ],
        ),
    ],
)
def test_binding_has_a_role_and_subjects(kind: str, role: Any, subject: Any, expected: list[str]) -> None:
    assert causes(RBAC, kind, {"roleRef": role, "subjects": [subject]}) == expected


def test_binding_gets_the_groups_of_its_role_and_subjects() -> None:
    subjects = [{"kind": "Group", "name": "dev"}, {"kind": "ServiceAccount", "name": "robot"}]
    filled = with_defaults({"roleRef": {"kind": "Role", "name": "a"}, "subjects": subjects}, RBAC, "RoleBinding")
    assert filled["roleRef"] == {"kind": "Role", "name": "a", "apiGroup": RBAC_GROUP}
    assert filled["subjects"] == [{"kind": "Group", "name": "dev", "apiGroup": RBAC_GROUP}, subjects[1]]


@pytest.mark.parametrize(
    ("spec", "types"),
    [({}, ["Ingress"]), ({"egress": [{}]}, ["Ingress", "Egress"]), ({"policyTypes": ["Egress"]}, ["Egress"])],
)
def test_network_policy_applies_to_ingress_by_default(spec: Any, types: list[str]) -> None:
    filled: Any = with_defaults({"spec": {"podSelector": {}} | spec}, NETWORK, "NetworkPolicy")
    assert filled["spec"]["policyTypes"] == types


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        (["10.0.0.0/24", "fd00::/64"], []),
        (
            ["here"],
            [
                (
                    'spec.podCIDRs[0]: Invalid value: "here": '
                    "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
                )
            ],
        ),
        (
            ["10.0.0.0/24", "10.0.1.0/24"],
            [
                (
                    'spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: '
                    "may specify no more than one CIDR for each IP family"
                )
            ],
        ),
    ],
)
def test_node_has_a_range_of_addresses_of_each_family(ranges: list[str], expected: list[str]) -> None:
    assert causes("v1", "Node", {"spec": {"podCIDRs": ranges}}) == expected


def test_node_keeps_its_addresses_and_its_machine() -> None:
    old: dict[str, object] = {"spec": {"podCIDRs": ["10.0.0.0/24"], "providerID": "a"}}
    assert list(change_causes({}, old, "v1", "Node")) == []
    found = [str(each) for each in change_causes(old, {"spec": {"providerID": "b"}}, "v1", "Node")]
    assert found == [
        'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid',
        'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid',
    ]


async def test_invalid_role_binding_is_refused() -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    body = {"metadata": {"name": "a"}, "roleRef": {"kind": "Role"}}
    assert await LocalApi().call_error("POST", path, body) == (
        422,
        "Invalid",
        'RoleBinding.rbac.authorization.k8s.io "a" is invalid: roleRef.name: Required value',
    )
