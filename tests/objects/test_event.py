"""Events keep every field a scheduler writes, under the names of both their APIs."""

from __future__ import annotations

from kframework.objects.event import CoreEvent, Event
from tests.objects.conftest import RoundTrip

POD = {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "web-0", "uid": "u"}
COMMON = {
    "metadata": {"name": "web-0.1", "namespace": "ns"},
    "eventTime": "2026-01-02T03:04:05.000000Z",
    "series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:05.000000Z"},
    "reportingInstance": "kframework-host",
    "action": "Scheduling",
    "reason": "FailedScheduling",
    "related": POD,
    "type": "Warning",
}


def test_event_encodes_and_decodes(round_trip: RoundTrip) -> None:
    event = round_trip(Event, {**COMMON, "reportingController": "kframework", "regarding": POD, "note": "n"})
    assert event.regarding.name == "web-0"


def test_core_event_encodes_and_decodes(round_trip: RoundTrip) -> None:
    event = round_trip(
        CoreEvent,
        {
            **COMMON,
            "reportingComponent": "kframework",
            "involvedObject": POD,
            "message": "m",
            "source": {"component": "kframework", "host": "h"},
            "firstTimestamp": "2026-01-02T03:04:05Z",
            "lastTimestamp": "2026-01-02T03:04:05Z",
            "count": 3,
        },
    )
    assert event.involved_object.uid == "u"
