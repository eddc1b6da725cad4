"""Budgets and priority classes keep every field a scheduler reads."""

from __future__ import annotations

import pytest

from kframework.objects.policy import PodDisruptionBudget, PriorityClass
from tests.objects.conftest import RoundTrip


@pytest.mark.parametrize("amount", [1, "50%"])
def test_budget(round_trip: RoundTrip, amount: int | str) -> None:
    budget = round_trip(
        PodDisruptionBudget,
        {
            "metadata": {"name": "b", "namespace": "ns"},
            "spec": {"minAvailable": amount, "maxUnavailable": amount, "selector": {}},
            "status": {
                "disruptionsAllowed": 1,
                "currentHealthy": 2,
                "desiredHealthy": 3,
                "expectedPods": 4,
                "observedGeneration": 5,
                "disruptedPods": {"web-0": "2026-01-02T03:04:05Z"},
            },
        },
    )
    assert budget.spec.min_available == amount


def test_priority_class(round_trip: RoundTrip) -> None:
    priority = round_trip(
        PriorityClass,
        {
            "metadata": {"name": "high"},
            "value": -5,
            "globalDefault": True,
            "preemptionPolicy": "Never",
            "description": "d",
        },
    )
    assert priority.value == -5
