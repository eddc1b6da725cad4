"""What a scheduler tells of a pod, for tests of those who write it down."""

from __future__ import annotations

from kframework.client.event_record import EventRecord, PodReference, SeriesKey

__all__ = ["failed_scheduling"]


def failed_scheduling(
    pod: str = "web", namespace: str = "default", *, count: int = 1, note: str = "0/1 nodes"
) -> EventRecord:
    """Tell for the so-manieth time, nine seconds after the first, that a pod fits nowhere."""
    series_key = SeriesKey(
        "default-scheduler", "FailedScheduling", "Scheduling", True, PodReference(namespace, pod, "1")
    )
    return EventRecord(series_key, note, 1767225600.123456, 0, 1767225609.000001, count)
