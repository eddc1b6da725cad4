"""One event under the names of either API."""

from __future__ import annotations

from kframework.fake_api.wire.event_versions import from_core, to_core

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


def test_an_event_is_written_under_the_names_of_either_api() -> None:
    assert to_core(EVENT) == CORE
    assert from_core(CORE) == EVENT


def test_what_is_not_known_stays() -> None:
    event: dict[str, object] = {"apiVersion": "events.k8s.io/v1", "note": "x", "ours": 1}
    assert from_core(to_core(event)) == event
    assert to_core(event)["ours"] == 1


def test_core_shows_the_times_that_it_expects_even_if_there_are_none() -> None:
    event = to_core({"apiVersion": "events.k8s.io/v1", "kind": "Event"})
    assert event == {"apiVersion": "v1", "kind": "Event", "firstTimestamp": None, "lastTimestamp": None, "source": {}}
