"""What pods belong to keeps every field that a scheduler reads."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.objects.meta import ApiObject
from kframework.objects.workloads import (
    Namespace,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from tests.objects.conftest import RoundTrip

METADATA = {"name": "web", "namespace": "ns", "labels": {"a": "b"}}
SELECTOR = {"matchLabels": {"app": "web"}}
CASES: list[tuple[type[ApiObject], dict[str, Any]]] = [
    (Namespace, {"metadata": METADATA}),
    (Service, {"metadata": METADATA, "spec": {"selector": {"app": "web"}}}),
    (ReplicationController, {"metadata": METADATA, "spec": {"replicas": 0, "selector": {"app": "web"}}}),
    (ReplicaSet, {"metadata": METADATA, "spec": {"replicas": 0, "selector": SELECTOR}}),
    (StatefulSet, {"metadata": METADATA, "spec": {"replicas": 0, "selector": SELECTOR}}),
]


@pytest.mark.parametrize(("struct", "fields"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_workloads_decode(round_trip: RoundTrip, struct: type[ApiObject], fields: dict[str, Any]) -> None:
    assert round_trip(struct, fields).metadata.labels == {"a": "b"}


def test_service_without_a_selector_differs_from_one_with_an_empty_one() -> None:
    assert Service().spec.selector is None
    assert msgspec.convert({"spec": {"selector": {}}}, Service).spec.selector == {}


@pytest.mark.parametrize("amount", [1, "50%"])
def test_budget_decodes(round_trip: RoundTrip, amount: int | str) -> None:
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
