"""Pods and their templates are filled in as Kubernetes fills them in."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.in_memory.schema.defaults import default_pod_spec, default_template_spec


def test_minimal_pod_gets_defaults() -> None:
    assert default_pod_spec({"containers": [{"name": "c", "image": "nginx"}]}) == {
        "containers": [
            {
                "name": "c",
                "image": "nginx",
                "imagePullPolicy": "Always",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
    }


def test_template_gets_no_pod_only_defaults() -> None:
    filled = default_template_spec({"containers": []})
    assert filled.keys() & {"enableServiceLinks", "serviceAccountName"} == set()
    assert filled["dnsPolicy"] == "ClusterFirst"
    assert default_template_spec({"serviceAccountName": "a"})["serviceAccount"] == "a"


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("registry.example:5000/nginx", "Always"),
        ("nginx@sha256:0123", "IfNotPresent"),
        ("", "Always"),
    ],
)
def test_pull_policy_depends_on_the_image(image: str, policy: str) -> None:
    filled: Any = default_template_spec({"containers": [{"image": image}]})
    assert filled["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("volume", "found"),
    [
        ({"name": "v"}, {"name": "v", "emptyDir": {}}),
        ({"name": "v", "secret": {}}, {"name": "v", "secret": {"defaultMode": 420}}),
        ({"name": "v", "hostPath": {"path": "/x"}}, {"name": "v", "hostPath": {"path": "/x", "type": ""}}),
        (
            {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {
                "name": "v",
                "projected": {
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                    "defaultMode": 420,
                },
            },
        ),
    ],
)
def test_volumes_get_defaults(volume: Any, found: Any) -> None:
    assert default_template_spec({"volumes": [volume]})["volumes"] == [found]


@pytest.mark.parametrize(
    ("container", "found"),
    [
        ({"ports": [{"containerPort": 80}]}, {"ports": [{"containerPort": 80, "protocol": "TCP"}]}),
        (
            {"livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 5}},
            {
                "livenessProbe": {
                    "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                    "periodSeconds": 5,
                    "timeoutSeconds": 1,
                    "successThreshold": 1,
                    "failureThreshold": 3,
                }
            },
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]},
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x", "apiVersion": "v1"}}}]},
        ),
        (
            {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}},
            {
                "resources": {
                    "limits": {"cpu": "1", "memory": "1Gi"},
                    "requests": {"cpu": "500m", "memory": "1Gi"},
                }
            },
        ),
    ],
)
def test_containers_get_defaults(container: Any, found: Any) -> None:
    filled: Any = default_pod_spec({"containers": [container]})
    assert filled["containers"][0].items() >= found.items()


def test_host_ports_default_on_the_host_network() -> None:
    filled: Any = default_pod_spec({"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80}]}]})
    assert filled["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}]


def test_defaults_are_idempotent() -> None:
    once = default_pod_spec(
        {"containers": [{"name": "c", "image": "x", "livenessProbe": {}}], "volumes": [{"name": "v"}]}
    )
    assert default_pod_spec(once) == once
