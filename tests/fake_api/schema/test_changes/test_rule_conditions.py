"""Conditions of a DeviceTaintRule are validated as Kubernetes validates `metav1.Condition`."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.schema.changes import part_causes
from kframework.fake_api.wire.documents import Data

GOOD: Data = {
    "type": "EvictionInProgress",
    "status": "True",
    "reason": "PodsPendingEviction",
    "message": "3 pods",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def causes(part: str, *conditions: Data) -> list[str]:
    """List the problems of a DeviceTaintRule with these conditions."""
    rule: dict[str, Any] = {"metadata": {"name": "r"}, "status": {"conditions": list(conditions)}}
    return [str(each) for each in part_causes(part, {}, rule, "resource.k8s.io/v1", "DeviceTaintRule")]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, ""),
        ({"observedGeneration": 3}, ""),
        ({"type": "-"}, "type: Invalid value: "),
        ({"status": "Yes"}, 'status: Unsupported value: "Yes": supported values: "False", "True", "Unknown"'),
        ({"observedGeneration": -1}, "observedGeneration: Invalid value: -1: must be greater than or equal to zero"),
        ({"lastTransitionTime": None}, "lastTransitionTime: Required value: must be set"),
        ({"reason": ""}, "reason: Required value: must be set"),
        ({"reason": "a b"}, 'reason: Invalid value: "a b": a condition reason must start with alphabetic character'),
        ({"reason": "a" * 1025}, "reason: Too long: may not be more than 1024 bytes"),
        ({"message": "a" * 32769}, "message: Too long: may not be more than 32768 bytes"),
    ],
)
def test_fields_of_a_condition_are_checked(change: Data, problem: str) -> None:
    found = causes("status", {**GOOD, **change})
    assert len(found) == bool(problem)
    assert all(each.startswith(f"status.conditions[0].{problem}") for each in found)


def test_rule_has_at_most_eight_conditions_of_different_types() -> None:
    assert causes("status", *({**GOOD, "type": f"T{number}"} for number in range(8))) == []
    assert causes("status", *({**GOOD, "type": f"T{number}"} for number in range(9))) == [
        "status.conditions: Too many: 9: must have at most 8 items"
    ]
    assert causes("status", GOOD, GOOD) == ['status.conditions[1].type: Duplicate value: "EvictionInProgress"']


def test_spec_of_a_rule_changes_beside_any_status() -> None:
    assert causes("", {"type": ""}) == []
