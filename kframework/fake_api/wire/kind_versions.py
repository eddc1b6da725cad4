"""Kinds that are served in two versions, and kept in one of them.

A HorizontalPodAutoscaler is kept in v2, and `kubectl autoscale` writes v1. An event is kept in events.k8s.io/v1, as
schedulers write it, and kubectl shows core/v1.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import entries, mapping, text, value

#: Annotations that hold, in v1, what has no field there; each with its place in v2.
_ANNOTATED = {
    "autoscaling.alpha.kubernetes.io/metrics": ("spec", "metrics"),
    "autoscaling.alpha.kubernetes.io/behavior": ("spec", "behavior"),
    "autoscaling.alpha.kubernetes.io/conditions": ("status", "conditions"),
    "autoscaling.alpha.kubernetes.io/current-metrics": ("status", "currentMetrics"),
}
_USED, _WANTED = "currentCPUUtilizationPercentage", "targetCPUUtilizationPercentage"
#: What is wanted where nobody says what, in percent.
_DEFAULT = 80


def to_v1(scaler: Data) -> Data:
    """Write one of v2 as one of v1: the share of the CPU has a field, all else stands in annotations."""
    spec, status = mapping(scaler, "spec"), mapping(scaler, "status")
    cpu = next((each for each in entries(spec, "metrics") if _share(each, "target") is not None), None)
    parts = {
        "spec": {**spec, "metrics": [each for each in entries(spec, "metrics") if each is not cpu]},
        "status": status,
    }
    annotations = {
        name: msgspec.json.encode(told).decode()
        for name, (part, field) in _ANNOTATED.items()
        if (told := parts[part].get(field))
    }
    shown: Data = {**scaler, "apiVersion": "autoscaling/v1", "spec": _without(spec, ("metrics", "behavior"))}
    if cpu is not None:
        shown["spec"] = {**mapping(shown, "spec"), _WANTED: _share(cpu, "target")}
    if status:
        used = (_share(each, "current") for each in entries(status, "currentMetrics"))
        share = next((each for each in used if each is not None), None)
        rest = _without(status, ("conditions", "currentMetrics"))
        shown["status"] = rest if share is None else {**rest, _USED: share}
    if annotations:
        metadata = mapping(scaler, "metadata")
        shown["metadata"] = {**metadata, "annotations": {**mapping(metadata, "annotations"), **annotations}}
    return shown


def from_v1(scaler: Data) -> Data:
    """Write one of v1 as one of v2; annotations that hold no JSON of the kind are passed over."""
    metadata, annotations = mapping(scaler, "metadata"), mapping(scaler, "metadata.annotations")
    kept: Data = {**scaler, "apiVersion": "autoscaling/v2"}
    for part, field in (("spec", _WANTED), ("status", _USED)):
        if part in scaler:
            kept[part] = _without(mapping(scaler, part), (field,))
    for name, (part, field) in _ANNOTATED.items():
        written, told = annotations.get(name), None
        with suppress(ValueError, RecursionError):
            told = msgspec.json.decode(written) if isinstance(written, str) else None
        if isinstance(told, dict if field == "behavior" else list):
            kept[part] = {**mapping(kept, part), field: told}
    wanted, metrics = value(scaler, f"spec.{_WANTED}"), entries(kept, "spec.metrics")
    if wanted is None and not metrics:
        wanted = _DEFAULT
    if wanted is not None:
        target = {"type": "Utilization", "averageUtilization": wanted}
        cpu: Data = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
        metrics = [*metrics, cpu]
    kept["spec"] = {**mapping(kept, "spec"), "metrics": metrics}
    if annotations.keys() & _ANNOTATED.keys():
        kept["metadata"] = {**metadata, "annotations": _without(annotations, tuple(_ANNOTATED))}
    return kept


def _share(metric: Data, place: str) -> object:
    """Return the share of the CPU that a metric is about; None if it is about something else."""
    if metric.get("type") != "Resource" or text(metric, "resource.name") != "cpu":
        return None
    return value(metric, f"resource.{place}.averageUtilization")


def _without(data: Data, fields: tuple[str, ...]) -> Data:
    return {name: told for name, told in data.items() if name not in fields}


#: What the fields of events.k8s.io/v1 are called in core/v1, where they differ.
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


#: What core/v1 shows of an event that is without; `kubectl get events --sort-by` fails for a field that no event has.
_SHOWN_EMPTY: dict[str, object] = {"firstTimestamp": None, "lastTimestamp": None, "source": {}}


def to_core(event: dict[str, object]) -> dict[str, object]:
    """Write an event of events.k8s.io/v1 as one of core/v1."""
    return {**_SHOWN_EMPTY, **{_CORE_NAMES.get(name, name): told for name, told in event.items()}, "apiVersion": "v1"}


def from_core(event: dict[str, object]) -> dict[str, object]:
    """Write an event of core/v1 as one of events.k8s.io/v1."""
    given = {_NAMES.get(name, name): told for name, told in event.items() if told or name not in _SHOWN_EMPTY}
    return {**given, "apiVersion": "events.k8s.io/v1"}
