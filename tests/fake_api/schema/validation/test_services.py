"""What is wrong with a Service is said in Kubernetes' words."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.schema.validation.services import service


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"ports": [{"port": 80}]}, []),
        ({}, ["spec.ports: Required value"]),
        ({"clusterIP": "None"}, []),
        ({"type": "ExternalName"}, ["spec.externalName: Required value"]),
        (
            {"type": "Pod", "ports": [{"port": 80}]},
            ['spec.type: Unsupported value: "Pod": supported values: "ClusterIP"'],
        ),
        ({"ports": [{"port": 0}]}, ["spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"]),
        (
            {"ports": [{"port": 80, "name": "a"}, {"port": 81}]},
            ["spec.ports[1].name: Required value"],
        ),
        (
            {"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "a"}]},
            ['spec.ports[1].name: Duplicate value: "a"', 'spec.ports[1]: Duplicate value: {"port":80,"protocol":null}'],
        ),
        (
            {"ports": [{"port": 80, "targetPort": "80"}]},
            ['spec.ports[0].targetPort: Invalid value: "80": must contain at least one letter (a-z)'],
        ),
    ],
)
def test_what_is_wrong(spec: Any, found: list[str]) -> None:
    causes = list(map(str, service({"spec": {"type": "ClusterIP"} | spec})))
    assert len(causes) == len(found), causes
    assert all(text.startswith(beginning) for text, beginning in zip(causes, found, strict=True)), causes
