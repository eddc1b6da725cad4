"""Claims to devices are validated in Kubernetes' words."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.in_memory.schema.validation.kinds import object_causes
from tests.fake_api.local_api import LocalApi

CLASS = {"deviceClassName": "gpu"}


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ({}, []),
        ({"requests": [{"name": "a", "exactly": CLASS}, {"name": "b", "firstAvailable": [CLASS | {"name": "x"}]}]}, []),
        (
            {"requests": [{"exactly": {}}]},
            ["requests[0].name: Required value", "requests[0].exactly.deviceClassName: Required value"],
        ),
        (
            {"requests": [{"name": "a"}, {"name": "a", "exactly": CLASS}]},
            [
                'requests[1]: Duplicate value: "a"',
                "requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
            ],
        ),
        (
            {"requests": [{"name": "a", "exactly": CLASS, "firstAvailable": [CLASS]}]},
            [
                (
                    "requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, "
                    "but multiple fields are set"
                )
            ],
        ),
        (
            {"requests": [{"name": "a", "firstAvailable": [CLASS | {"name": "x"}] * 9}]},
            ["requests[0].firstAvailable: Too many: 9: must have at most 8 items"],
        ),
        (
            {"requests": [{"name": "a", "exactly": CLASS | {"allocationMode": "All", "count": 2}}]},
            ["requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'"],
        ),
        (
            {"requests": [{"name": "a", "exactly": CLASS | {"count": -1, "selectors": [{}]}}]},
            [
                "requests[0].exactly.selectors[0].cel: Required value",
                "requests[0].exactly.count: Invalid value: -1: must be greater than zero",
            ],
        ),
        (
            {"requests": [{"name": "a", "exactly": CLASS | {"allocationMode": "Some"}}]},
            ['requests[0].exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"'],
        ),
        (
            {
                "requests": [{"name": "a", "firstAvailable": [CLASS | {"name": "x"}]}],
                "constraints": [{"requests": ["a", "a/x", "b"], "matchAttribute": "example.com/numa"}],
            },
            [
                (
                    'constraints[0].requests[2]: Invalid value: "b": must be the name of a request in the claim or '
                    "the name of a request and a subrequest separated by '/'"
                )
            ],
        ),
    ],
)
def test_invalid_claim_has_causes(devices: Any, expected: list[str]) -> None:
    spec = {"devices": devices}
    for kind, data, path in (("ResourceClaim", spec, "spec"), ("ResourceClaimTemplate", {"spec": spec}, "spec.spec")):
        found = object_causes({"spec": data}, "resource.k8s.io/v1", kind)
        assert list(map(str, found)) == [f"{path}.devices.{each}" for each in expected]


async def test_claim_without_a_class_is_refused() -> None:
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    body = {"metadata": {"name": "a"}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {}}]}}}
    assert await LocalApi().call_error("POST", path, body) == (
        422,
        "Invalid",
        (
            'ResourceClaim.resource.k8s.io "a" is invalid: '
            "spec.devices.requests[0].exactly.deviceClassName: Required value"
        ),
    )
