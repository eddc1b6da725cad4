"""What is wrong with a pod is said in Kubernetes' words."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.in_memory.schema.validation.pods import pod_causes, spec_causes


def spec(*containers: Any, **more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "x"} | each for each in containers or ({},)]} | more


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (spec(), []),
        ({}, ["spec.containers: Required value"]),
        ({"containers": []}, ["spec.containers: Required value"]),
        (spec({"name": ""}, {"name": "d"}), ["spec.containers[0].name: Required value"]),
        (spec({"image": ""}), ["spec.containers[0].image: Required value"]),
        (
            spec({"image": " x"}),
            ['spec.containers[0].image: Invalid value: " x": must not have leading or trailing wh'],
        ),
        (spec({}, {}), ['spec.containers[1].name: Duplicate value: "c"']),
        (spec({"name": "A_b"}), ['spec.containers[0].name: Invalid value: "A_b": a lowercase RFC 1123 label must']),
        (
            spec({"imagePullPolicy": "Never!"}),
            ['spec.containers[0].imagePullPolicy: Unsupported value: "Never!": supp'],
        ),
        (
            spec({"ports": [{"containerPort": 70000}, {"name": "HTTP", "containerPort": 1, "protocol": "tcp"}]}),
            [
                'spec.containers[0].ports[1].name: Invalid value: "HTTP": must contain only alpha-numeric characters',
                'spec.containers[0].ports[1].name: Invalid value: "HTTP": must contain at least one letter (a-z)',
                "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535",
                'spec.containers[0].ports[1].protocol: Unsupported value: "tcp": supported values: "SCTP"',
            ],
        ),
        (spec({"ports": [{}]}), ["spec.containers[0].ports[0].containerPort: Required value"]),
        (
            spec({"ports": [{"name": "a", "containerPort": 1}] * 2}),
            ['spec.containers[0].ports[1].name: Duplicate value: "a"'],
        ),
        (spec({"env": [{"value": "x"}]}), ["spec.containers[0].env[0].name: Required value"]),
        (
            spec({"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
            ['spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty'],
        ),
        (
            spec({"volumeMounts": [{"name": "v", "mountPath": "/x"}, {"name": "v", "mountPath": "/x"}]}),
            [
                'spec.containers[0].volumeMounts[0].name: Not found: "v"',
                'spec.containers[0].volumeMounts[1].name: Not found: "v"',
                'spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/x": must be unique',
            ],
        ),
        (
            spec({"livenessProbe": {}}),
            ["spec.containers[0].livenessProbe: Required value: must specify a handler type"],
        ),
        (
            spec({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}),
            ['spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
        ),
        (
            spec({"resources": {"requests": {"memory": "-1"}}}),
            ['spec.containers[0].resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0'],
        ),
        (
            spec(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]),
            ["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
        ),
        (spec(volumes=[{"name": "v", "configMap": {}}]), ["spec.volumes[0].configMap.name: Required value"]),
        (spec(volumes=[{"name": "v"}] * 2), ['spec.volumes[1].name: Duplicate value: "v"']),
        (
            spec(restartPolicy="Sometimes"),
            ['spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'],
        ),
        (
            spec(activeDeadlineSeconds=0),
            ["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483"],
        ),
    ],
)
def test_invalid_value_has_causes(spec: dict[str, Any], expected: list[str]) -> None:
    causes = list(map(str, spec_causes(spec, "spec")))
    assert len(causes) == len(expected), causes
    assert all(text.startswith(beginning) for text, beginning in zip(causes, expected, strict=True)), causes


def test_valid_spec_is_validated_once() -> None:
    right = spec()
    assert pod_causes(right) == []
    right["containers"][0]["image"] = ""  # nobody does that to a spec
    assert pod_causes(right) == []
    assert [str(each) for each in pod_causes(dict(right))] == ["spec.containers[0].image: Required value"]
