"""Autoscalers in v1 and v2."""

from __future__ import annotations

import json

import pytest

from kframework.fake_api.wire.kind_versions import from_core, from_v1, to_core, to_v1
from tests.fake_api.local_api import MERGE, Json, LocalApi

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def cpu(share: int) -> Json:
    target = {"type": "Utilization", "averageUtilization": share}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"targetCPUUtilizationPercentage": 50}, {"metrics": [cpu(50)]}),
        ({"maxReplicas": 3}, {"maxReplicas": 3, "metrics": [cpu(80)]}),
    ],
)
def test_v1_is_converted_to_v2(old: Json, new: Json) -> None:
    assert from_v1({"apiVersion": "autoscaling/v1", "spec": old}) == {"apiVersion": "autoscaling/v2", "spec": new}


def test_fields_missing_in_v1_survive_a_round_trip() -> None:
    pods = {"type": "Pods", "pods": {"metric": {"name": "x"}}}
    current = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 7}}}
    scaler: Json = {
        "apiVersion": "autoscaling/v2",
        "metadata": {"name": "a", "annotations": {"b": "c"}},
        "spec": {"maxReplicas": 3, "metrics": [pods, cpu(40)], "behavior": {"scaleUp": {}}},
        "status": {"conditions": [{"type": "AbleToScale"}], "currentMetrics": [current], "currentReplicas": 1},
    }
    converted = to_v1(scaler)
    assert converted["spec"] == {"maxReplicas": 3, "targetCPUUtilizationPercentage": 40}
    assert converted["status"] == {"currentReplicas": 1, "currentCPUUtilizationPercentage": 7}
    annotations = converted["metadata"]["annotations"]  # type: ignore[index]  # plain data
    assert json.loads(annotations["autoscaling.alpha.kubernetes.io/metrics"]) == [pods]
    assert from_v1(converted) == scaler


@pytest.mark.parametrize("written", ["", "{", "7", "[" * 100_000])
def test_invalid_annotations_are_ignored(written: str) -> None:
    annotations = {"autoscaling.alpha.kubernetes.io/metrics": written}
    assert from_v1({"metadata": {"annotations": annotations}, "spec": {}})["spec"] == {"metrics": [cpu(80)]}


async def test_both_versions_are_views_of_one_object() -> None:
    api, path = LocalApi(), "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
    body = {"metadata": {"name": "a"}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}}
    await api.call("POST", path.format("v1"), body)
    patch = {"spec": {"targetCPUUtilizationPercentage": 60}}
    await api.call("PATCH", path.format("v1") + "/a", patch, content_type=MERGE)
    newer = await api.call("GET", path.format("v2") + "/a")
    assert (newer["apiVersion"], newer["spec"]["metrics"]) == ("autoscaling/v2", [cpu(60)])
    groups = (await api.call("GET", "/apis/autoscaling"))["preferredVersion"]
    assert groups["version"] == "v2"


EVENT: dict[str, object] = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "a.1", "namespace": "default"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:10.000000Z"},
    "reportingController": "default-scheduler",
    "reportingInstance": "default-scheduler-host",
    "action": "Binding",
    "reason": "Scheduled",
    "regarding": {"kind": "Pod", "name": "a"},
    "related": {"kind": "Node", "name": "n"},
    "note": "Successfully assigned default/a to n",
    "type": "Normal",
    "deprecatedSource": {"component": "x"},
    "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
    "deprecatedLastTimestamp": "2026-01-01T00:00:10Z",
    "deprecatedCount": 3,
}
CORE: dict[str, object] = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "a.1", "namespace": "default"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:10.000000Z"},
    "reportingComponent": "default-scheduler",
    "reportingInstance": "default-scheduler-host",
    "action": "Binding",
    "reason": "Scheduled",
    "involvedObject": {"kind": "Pod", "name": "a"},
    "related": {"kind": "Node", "name": "n"},
    "message": "Successfully assigned default/a to n",
    "type": "Normal",
    "source": {"component": "x"},
    "firstTimestamp": "2026-01-01T00:00:00Z",
    "lastTimestamp": "2026-01-01T00:00:10Z",
    "count": 3,
}


def test_event_is_accepted_in_either_version() -> None:
    assert to_core(EVENT) == CORE
    assert from_core(CORE) == EVENT


def test_unknown_fields_stay() -> None:
    event: dict[str, object] = {"apiVersion": "events.k8s.io/v1", "note": "x", "ours": 1}
    assert from_core(to_core(event)) == event
    assert to_core(event)["ours"] == 1


def test_core_event_has_times_even_without_values() -> None:
    event = to_core({"apiVersion": "events.k8s.io/v1", "kind": "Event"})
    assert event == {"apiVersion": "v1", "kind": "Event", "firstTimestamp": None, "lastTimestamp": None, "source": {}}
