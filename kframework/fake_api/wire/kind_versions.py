"""Conversions of kinds that are served in two versions and stored in one.

A HorizontalPodAutoscaler is stored in v2, but `kubectl autoscale` writes v1. An event is stored in events.k8s.io/v1, as
schedulers write it, but kubectl shows core/v1.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from kframework.fake_api.wire.documents import Data
from kframework.objects.plain_data import entries, mapping, text, value

#: Annotations for what has no field in v1, with its path in v2.
_V2_ANNOTATIONS = {
    "autoscaling.alpha.kubernetes.io/metrics": ("spec", "metrics"),
    "autoscaling.alpha.kubernetes.io/behavior": ("spec", "behavior"),
    "autoscaling.alpha.kubernetes.io/conditions": ("status", "conditions"),
    "autoscaling.alpha.kubernetes.io/current-metrics": ("status", "currentMetrics"),
}
_CURRENT_CPU, _TARGET_CPU = "currentCPUUtilizationPercentage", "targetCPUUtilizationPercentage"
_DEFAULT_TARGET = 80


def to_v1(scaler: Data) -> Data:
    """Convert an autoscaler from v2 to v1: CPU utilization has a field, everything else is in annotations."""
    spec, status = mapping(scaler, "spec"), mapping(scaler, "status")
    cpu = next((each for each in entries(spec, "metrics") if _cpu_utilization(each, "target") is not None), None)
    parts = {
        "spec": {**spec, "metrics": [each for each in entries(spec, "metrics") if each is not cpu]},
        "status": status,
    }
    annotations = {
        name: msgspec.json.encode(setting).decode()
        for name, (part, field) in _V2_ANNOTATIONS.items()
        if (setting := parts[part].get(field))
    }
    converted: Data = {**scaler, "apiVersion": "autoscaling/v1", "spec": _remove_fields(spec, ("metrics", "behavior"))}
    if cpu is not None:
        converted["spec"] = {**mapping(converted, "spec"), _TARGET_CPU: _cpu_utilization(cpu, "target")}
    if status:
        used = (_cpu_utilization(each, "current") for each in entries(status, "currentMetrics"))
        share = next((each for each in used if each is not None), None)
        rest = _remove_fields(status, ("conditions", "currentMetrics"))
        converted["status"] = rest if share is None else {**rest, _CURRENT_CPU: share}
    if annotations:
        metadata = mapping(scaler, "metadata")
        converted["metadata"] = {**metadata, "annotations": {**mapping(metadata, "annotations"), **annotations}}
    return converted


def from_v1(scaler: Data) -> Data:
    metadata, annotations = mapping(scaler, "metadata"), mapping(scaler, "metadata.annotations")
    converted: Data = {**scaler, "apiVersion": "autoscaling/v2"}
    for part, field in (("spec", _TARGET_CPU), ("status", _CURRENT_CPU)):
        if part in scaler:
            converted[part] = _remove_fields(mapping(scaler, part), (field,))
    for name, (part, field) in _V2_ANNOTATIONS.items():
        text_value, setting = annotations.get(name), None
        with suppress(ValueError, RecursionError):
            setting = msgspec.json.decode(text_value) if isinstance(text_value, str) else None
        if isinstance(setting, dict if field == "behavior" else list):
            converted[part] = {**mapping(converted, part), field: setting}
    target_value, metrics = value(scaler, f"spec.{_TARGET_CPU}"), entries(converted, "spec.metrics")
    if target_value is None and not metrics:
        target_value = _DEFAULT_TARGET
    if target_value is not None:
        target = {"type": "Utilization", "averageUtilization": target_value}
        cpu: Data = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
        metrics = [*metrics, cpu]
    converted["spec"] = {**mapping(converted, "spec"), "metrics": metrics}
    if annotations.keys() & _V2_ANNOTATIONS.keys():
        converted["metadata"] = {**metadata, "annotations": _remove_fields(annotations, tuple(_V2_ANNOTATIONS))}
    return converted


def _cpu_utilization(metric: Data, side: str) -> object:
    if metric.get("type") != "Resource" or text(metric, "resource.name") != "cpu":
        return None
    return value(metric, f"resource.{side}.averageUtilization")


def _remove_fields(data: Data, fields: tuple[str, ...]) -> Data:
    return {name: value for name, value in data.items() if name not in fields}


#: Field names of core/v1 events, where they differ from events.k8s.io/v1.
_CORE_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_NAMES = {core: name for name, core in _CORE_NAMES.items()}


#: Fields that core/v1 always has; `kubectl get events --sort-by` fails for a field that no event has.
_EMPTY_CORE: dict[str, object] = {"firstTimestamp": None, "lastTimestamp": None, "source": {}}


def to_core(event: dict[str, object]) -> dict[str, object]:
    renamed = {_CORE_NAMES.get(name, name): value for name, value in event.items()}
    return {**_EMPTY_CORE, **renamed, "apiVersion": "v1"}


def from_core(event: dict[str, object]) -> dict[str, object]:
    fields = {_NAMES.get(name, name): value for name, value in event.items() if value or name not in _EMPTY_CORE}
    return {**fields, "apiVersion": "events.k8s.io/v1"}
