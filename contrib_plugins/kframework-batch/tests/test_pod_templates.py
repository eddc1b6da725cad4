"""Templates hand on what no scheduler reads."""

from __future__ import annotations

import msgspec
from kframework_batch.pod_templates import PodTemplateSpec, TemplatePodSpec, template_spec

from kframework.objects import Pod
from kframework.testing import make_pod

TEMPLATE = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {
        "subdomain": "mesh",
        "dnsPolicy": "Default",
        "securityContext": {"runAsUser": 1000},
        "imagePullSecrets": [{"name": "s"}],
        "containers": [
            {
                "name": "c",
                "image": "i",
                "command": ["sh"],
                "args": ["-c", "true"],
                "workingDir": "/w",
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
                "envFrom": [{"secretRef": {"name": "s"}}],
                "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "s", "readOnly": True}],
                "readinessProbe": {"httpGet": {"port": 80}},
                "imagePullPolicy": "IfNotPresent",
                "resources": {"requests": {"cpu": "1"}},
            }
        ],
        "volumes": [
            {"name": "v", "configMap": {"name": "m", "items": [{"key": "k", "path": "p"}], "defaultMode": 420}},
            {"name": "w", "secret": {"secretName": "s", "optional": True}},
            {"name": "x", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            {"name": "y", "hostPath": {"path": "/p", "type": "Directory"}},
            {"name": "z", "nfs": {"server": "n", "path": "/e"}},
        ],
    },
}


def test_template_fields_are_preserved() -> None:
    read = msgspec.convert(TEMPLATE, PodTemplateSpec)
    pod = Pod(metadata=read.metadata, spec=read.spec)
    assert msgspec.json.decode(msgspec.json.encode(pod)) == TEMPLATE


def test_template_can_be_created_from_a_pod() -> None:
    spec = make_pod("p", cpu=2, node_selector={"a": "b"}).spec
    made = template_spec(spec)
    assert isinstance(made, TemplatePodSpec)
    assert msgspec.to_builtins(made) == msgspec.to_builtins(spec)
