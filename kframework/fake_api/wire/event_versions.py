"""The two versions of an event: core/v1, which kubectl shows, and events.k8s.io/v1, which schedulers write."""

from __future__ import annotations

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
    return {**_SHOWN_EMPTY, **_renamed(event, _CORE_NAMES), "apiVersion": "v1"}


def from_core(event: dict[str, object]) -> dict[str, object]:
    """Write an event of core/v1 as one of events.k8s.io/v1."""
    given = {field: value for field, value in event.items() if value or field not in _SHOWN_EMPTY}
    return {**_renamed(given, _NAMES), "apiVersion": "events.k8s.io/v1"}


def _renamed(event: dict[str, object], names: dict[str, str]) -> dict[str, object]:
    return {names.get(field, field): value for field, value in event.items()}
