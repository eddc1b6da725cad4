"""Bodies that are no objects of their kind are refused in the words of Go's decoder."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.in_memory.schema.decoding import decoding_problem
from kframework.objects.openapi.definitions import OBJECT_META

POD = "io.k8s.api.core.v1.Pod"
QUANTITIES = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
TIME = 'parsing time "{}" as "2006-01-02T15:04:05Z07:00": cannot parse "{}" as "{}"'


def cannot(value: str, field: str, type: str) -> str:
    return f"json: cannot unmarshal {value} into Go struct field {field} of type {type}"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"containers": "x"}, cannot("string", "PodSpec.spec.containers", "[]v1.Container")),
        ({"containers": {"name": "x"}}, cannot("object", "PodSpec.spec.containers", "[]v1.Container")),
        ({"containers": ["x"]}, cannot("string", "PodSpec.spec.containers", "v1.Container")),
        ({"containers": [{"name": 1}]}, cannot("number", "Container.spec.containers.name", "string")),
        (
            {"containers": [{"ports": [{"containerPort": "80"}]}]},
            cannot("string", "ContainerPort.spec.containers.ports.containerPort", "int32"),
        ),
        (
            {"containers": [{"ports": [{"containerPort": 1 << 40}]}]},
            cannot(f"number {1 << 40}", "ContainerPort.spec.containers.ports.containerPort", "int32"),
        ),
        ({"activeDeadlineSeconds": 1.5}, cannot("number 1.5", "PodSpec.spec.activeDeadlineSeconds", "int64")),
        ({"activeDeadlineSeconds": 1 << 40}, ""),
        ({"hostNetwork": "yes"}, cannot("string", "PodSpec.spec.hostNetwork", "bool")),
        ({"restartPolicy": True}, cannot("bool", "PodSpec.spec.restartPolicy", "v1.RestartPolicy")),
        ({"nodeSelector": ["a"]}, cannot("array", "PodSpec.spec.nodeSelector", "map[string]string")),
        ({"nodeSelector": {"a": True}}, cannot("bool", "PodSpec.spec.nodeSelector", "string")),
        ({"affinity": []}, cannot("array", "PodSpec.spec.affinity", "v1.Affinity")),
        ({"overhead": 1}, cannot("number", "PodSpec.spec.overhead", "v1.ResourceList")),
        ({"overhead": {"cpu": 1}}, ""),
        ({"overhead": {"cpu": "1,5"}}, QUANTITIES),
        ({"overhead": {"cpu": True}}, QUANTITIES),
        ({"overhead": {"cpu": "1mm"}}, "unable to parse quantity's suffix"),
        ({"hostNetwork": 1, "overhead": {"cpu": "x"}}, QUANTITIES),
        ({"hostNetwork": 1, "hostPID": "x"}, cannot("number", "PodSpec.spec.hostNetwork", "bool")),
        ("x", cannot("string", "Pod.spec", "v1.PodSpec")),
        ({"containers": [{"livenessProbe": {"httpGet": {"port": "http"}}}], "unknown": 1}, ""),
        (
            {"containers": [{"livenessProbe": {"httpGet": {"port": True}}}]},
            cannot("bool", "HTTPGetAction.spec.containers.livenessProbe.httpGet.port", "int32"),
        ),
    ],
)
def test_pod_decoding_problem_is_reported(spec: Any, why: str) -> None:
    assert decoding_problem({"spec": spec}, POD) == why


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"labels": {"a": 1}}, cannot("number", "ObjectMeta.metadata.labels", "string")),
        ({"creationTimestamp": None}, ""),
        ({"creationTimestamp": "2026-01-02T03:04:05.678+02:00"}, ""),
        ({"creationTimestamp": "today"}, TIME.format("today", "today", "2006")),
        ({"creationTimestamp": "2026-01-02"}, TIME.format("2026-01-02", "", "T")),
        ({"creationTimestamp": 1}, cannot("number", "ObjectMeta.metadata.creationTimestamp", "string")),
    ],
)
def test_metadata_decoding_problem_is_reported(metadata: Any, why: str) -> None:
    assert decoding_problem({"metadata": metadata}, POD) == why
    assert decoding_problem(metadata, OBJECT_META, ("metadata",)) == why


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("core.v1.Secret", {"data": {"a": "eA=="}}, ""),
        ("core.v1.Secret", {"data": {"a": "a b"}}, "illegal base64 data at input byte 1"),
        ("core.v1.Secret", {"data": {"a": 1}}, cannot("number", "Secret.data", "[]uint8")),
        ("apps.v1.Deployment", {"spec": {"replicas": "3"}}, cannot("string", "DeploymentSpec.spec.replicas", "int32")),
        ("apps.v1.Deployment", [], "json: cannot unmarshal array into Go value of type v1.Deployment"),
        ("apps.v1.ControllerRevision", {"data": [1, "x"]}, ""),
    ],
)
def test_decoding_problem_of_other_kinds_is_reported(name: str, data: Any, why: str) -> None:
    assert decoding_problem(data, f"io.k8s.api.{name}") == why
