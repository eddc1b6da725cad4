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


def test_every_view_of_a_pod_is_compared() -> None:
    assert replayed(resources()).differences == []


def test_a_pod_without_requests_is_skipped_by_the_balance() -> None:
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
def test_a_planted_difference_is_found(field: str, value: Json) -> None:
    assert differing(resources(), lambda case: case["expect"].update({field: value})).keys() == {field}
