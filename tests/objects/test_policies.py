"""Policies keep every field by which pods are admitted."""

from __future__ import annotations

from kframework.objects.policies import LimitRange, PriorityClass, RuntimeClass
from tests.objects.conftest import RoundTrip


def test_priority_class_decodes(round_trip: RoundTrip) -> None:
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


def test_runtime_class_decodes(round_trip: RoundTrip) -> None:
    scheduling = {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Exists"}]}
    data = {
        "metadata": {"name": "boxed"},
        "handler": "runsc",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": scheduling,
    }
    assert round_trip(RuntimeClass, data).handler == "runsc"


def test_limit_range_decodes(round_trip: RoundTrip) -> None:
    amounts = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
    item = {"type": "Container", **{field: {"cpu": "1"} for field in amounts}}
    data = {"metadata": {"name": "limits", "namespace": "team"}, "spec": {"limits": [item]}}
    assert round_trip(LimitRange, data).spec.limits[0].max_limit_request_ratio == {"cpu": "1"}
