"""Allocations are compared with recorded ones: devices, details, and whether an error is the node's alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kframework.core.runtime.registry import Registry
from kframework.testing.conformance.cases import Case
from kframework.testing.conformance.replay import replay

GPUS = {
    "metadata": {"name": "gpus", "uid": "gpus"},
    "spec": {
        "driver": "d",
        "nodeName": "a",
        "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}],
    },
}
RESULT = {"request": "r", "driver": "d", "pool": "a", "device": "gpu-0"}
FIELD = {"key": "metadata.name", "operator": "In", "values": ["a"]}
DETAILS = {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [FIELD]}]}}
GIVEN = {"allocations": {"c": [RESULT]}, "allocationDetails": {"c": DETAILS}}


def differing(expect: Mapping[str, Any], *, count: int = 1, device_class: str = "gpu") -> list[str]:
    """Return the fields that differ where one claim asks for devices of a node that has one."""
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    request = {"name": "r", "exactly": exactly}
    claim = {
        "metadata": {"name": "c", "namespace": "n", "uid": "c"},
        "spec": {"devices": {"requests": [request]}},
    }
    inputs: dict[str, object] = {
        "node": {"metadata": {"name": "a", "uid": "a"}},
        "claims": [claim],
        "deviceClasses": [{"metadata": {"name": "gpu", "uid": "gpu"}}],
        "resourceSlices": [GPUS],
    }
    case = Case("one", "allocation", "planted", inputs, dict(expect)).of_minor("1.37")
    comparison = replay(case, Registry.from_installed())
    assert not comparison.uncompared
    return [str(fact.path[0]) for fact in comparison.differences]


@pytest.mark.parametrize(
    ("expect", "fields"),
    [
        (GIVEN, []),
        ({"allocated": False}, ["allocated"]),
        ({"error": "broken"}, ["error", "allocated"]),
        ({**GIVEN, "allocations": {"c": [{**RESULT, "device": "gpu-1"}]}}, ["allocations"]),
        ({**GIVEN, "allocationDetails": {}}, ["allocationDetails"]),
    ],
)
def test_difference_in_an_allocation_is_found(expect: dict[str, Any], fields: list[str]) -> None:
    assert differing(expect) == fields


def test_missing_device_and_invalid_claim_differ() -> None:
    assert differing({"allocated": False}, count=2) == []
    assert differing({"error": "no class"}, device_class="none") == ["error"]
