"""An EventRecord becomes a Kubernetes Event."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kframework.client.event_record import PodReference
from kframework.objects import EventSeries, ObjectReference
from tests.support.event_records import failed_scheduling


def test_event_has_the_fields_of_its_record() -> None:
    event = failed_scheduling(note="0/1 nodes").event()
    name, _, nanoseconds = event.metadata.name.rpartition(".")
    assert (name, event.metadata.namespace) == ("web", "default")
    assert abs(int(nanoseconds, 16) - 1767225600_123456_000) < 1000
    assert (event.event_time, event.series) == ("2026-01-01T00:00:00.123456Z", None)
    assert (event.reason, event.action, event.type) == ("FailedScheduling", "Scheduling", "Warning")
    assert (event.note, event.reporting_controller) == ("0/1 nodes", "default-scheduler")
    assert event.reporting_instance.startswith("default-scheduler-")
    pod = ObjectReference(api_version="v1", kind="Pod", name="web", namespace="default", uid="1")
    assert (event.regarding, event.related) == (pod, None)


def test_repeated_event_is_a_series() -> None:
    assert failed_scheduling(count=3).event().series == EventSeries(
        count=3, last_observed_time="2026-01-01T00:00:09.000001Z"
    )


@pytest.mark.parametrize(("length", "named_after"), [(236, "name"), (237, "uid")])
def test_event_is_named_after_the_uid_when_the_pods_name_is_too_long(length: int, named_after: str) -> None:
    record = failed_scheduling("x" * length)
    assert record.name.rpartition(".")[0] == (record.series_key.pod.name if named_after == "name" else "1")


def test_event_names_the_related_pod() -> None:
    record = failed_scheduling()
    record.series_key = replace(record.series_key, related=PodReference("default", "urgent", "2"))
    related = record.event().related
    assert related is not None and (related.name, related.uid) == ("urgent", "2")
