"""Events that a scheduler reports about an object (events.k8s.io/v1; leader election still writes core/v1)."""

from __future__ import annotations

from kframework.objects.meta import ApiObject, ApiStruct
from kframework.objects.storage import ObjectReference


class EventSeries(ApiStruct, frozen=True, kw_only=True):
    """The count of the same event, and its last time (six decimals of a second)."""

    count: int = 0
    last_observed_time: str | None = None


class Event(ApiObject, frozen=True, kw_only=True):
    """An event of events.k8s.io/v1; `event_time` has exactly six decimals of a second."""

    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""


class EventSource(ApiStruct, frozen=True, kw_only=True):
    """The reporter of a core/v1 event."""

    component: str = ""
    host: str = ""


class CoreEvent(ApiObject, frozen=True, kw_only=True):
    """The same event under core/v1, with that API's names."""

    event_time: str | None = None
    series: EventSeries | None = None
    reporting_component: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    involved_object: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    message: str = ""
    type: str = ""
    source: EventSource = EventSource()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    count: int = 0
