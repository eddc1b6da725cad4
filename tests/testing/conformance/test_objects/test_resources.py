"""What a pod asks for."""

from __future__ import annotations

import pytest

from tests.testing.conformance.planted import Json, Part, differing, pod, replayed


def resources() -> Part:
    """Write a case: one container states its memory and a device, the other nothing."""
    stated = {"name": "stated", "resources": {"requests": {"memory": "1Gi", "example.com/gpu": "2"}}}
    return {
        "id": "resources-1",
        "kind": "resources",
        "suite": "planted",
        "input": {"pod": pod("p", containers=[stated, {"name": "silent"}]), "resources": ["cpu", "memory"]},
        "expect": {
            "fit": {"cpuMilli": 0, "memory": 1 << 30, "ephemeralStorage": 0, "scalar": {"example.com/gpu": 2}},
            "onNode": {"cpuMilli": 0, "memory": 1 << 30, "ephemeralStorage": 0, "scalar": {"example.com/gpu": 2}},
            "onNodeNonZero": {"cpuMilli": 200, "memory": (1 << 30) + (200 << 20)},
            "scoringNodeResourcesFit": {"cpu": 200, "memory": (1 << 30) + (200 << 20)},
            "scoringNodeResourcesBalancedAllocation": {"cpu": 0, "memory": 1 << 30},
        },
    }


def test_requests_of_a_pod_are_compared_for_every_reader() -> None:
    assert replayed(resources()).differences == []


def test_balanced_allocation_skips_pod_without_requests() -> None:
    case = resources()
    case["input"]["resources"] = ["cpu"]
    case["expect"]["scoringNodeResourcesFit"] = {"cpu": 200}
    case["expect"]["scoringNodeResourcesBalancedAllocation"] = "Skip"
    assert replayed(case).differences == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("fit", {"cpuMilli": 0, "memory": 1 << 30, "ephemeralStorage": 0}),
        ("onNode", {"cpuMilli": 1, "memory": 1 << 30, "ephemeralStorage": 0, "scalar": {"example.com/gpu": 2}}),
        ("onNodeNonZero", {"cpuMilli": 0, "memory": 1 << 30}),
        ("scoringNodeResourcesFit", {"cpu": 100, "memory": 1 << 30}),
        ("scoringNodeResourcesBalancedAllocation", "Skip"),
    ],
)
def test_planted_difference_is_reported(field: str, value: Json) -> None:
    assert differing(resources(), lambda case: case["expect"].update({field: value})).keys() == {field}
