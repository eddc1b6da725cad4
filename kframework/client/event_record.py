"""What is told of a pod, in the form of Kubernetes' Events: names, references, notes, series.

What waits to be written, or to come again, is a few words; the Event is made of them when it is sent, or looked at.
"""

from __future__ import annotations

import socket
from functools import lru_cache

import msgspec

from kframework.clock import rfc3339_micro
from kframework.objects import Event, EventSeries, ObjectMeta, ObjectReference

#: Longer names are refused by the API.
_MAX_NAME = 253


class PodReference(msgspec.Struct, frozen=True, gc=False):
    """A pod, and where its object is known the version of it: a changed pod starts another series."""

    namespace: str
    name: str
    uid: str
    version: str = ""

    def object(self) -> ObjectReference:
        """Write it as Events do."""
        return ObjectReference(
            api_version="v1",
            kind="Pod",
            name=self.name,
            namespace=self.namespace,
            uid=self.uid,
            resource_version=self.version,
        )


class Occasion(msgspec.Struct, frozen=True, gc=False):
    """What events of one series have in common: all but their names, times and notes."""

    profile: str
    reason: str
    action: str
    warning: bool
    pod: PodReference
    related: PodReference | None = None


class EventRecord(msgspec.Struct, gc=False, eq=False):
    """An event, how often it came by now, and how often it was tried to write it; times are in seconds since 1970.

    It keeps no pod alive: it takes 440 bytes, and the names of the pod.
    """

    occasion: Occasion
    note: str
    since: float
    #: Keeps the names of two events of one moment apart.
    number: int
    seen_at: float
    count: int = 1
    tries: int = 0

    @property
    def name(self) -> str:
        """The name of the Event: after its pod, or after the pod's uid where that name would be too long."""
        pod, nanoseconds = self.occasion.pod, int(self.since * 1e9) + self.number
        name = f"{pod.name}.{nanoseconds:x}"
        return name if len(name) <= _MAX_NAME else f"{pod.uid}.{nanoseconds:x}"

    def event(self) -> Event:
        """Make the Event of it, with a series if it came more than once."""
        occasion, pod = self.occasion, self.occasion.pod
        return Event(
            metadata=ObjectMeta(name=self.name, namespace=pod.namespace),
            event_time=rfc3339_micro(self.since),
            reporting_controller=occasion.profile,
            reporting_instance=_instance(occasion.profile),
            action=occasion.action,
            reason=occasion.reason,
            regarding=pod.object(),
            related=occasion.related.object() if occasion.related is not None else None,
            note=self.note,
            type="Warning" if occasion.warning else "Normal",
            series=EventSeries(count=self.count, last_observed_time=rfc3339_micro(self.seen_at))
            if self.count > 1
            else None,
        )


@lru_cache(maxsize=64)
def _instance(profile: str) -> str:
    return f"{profile}-{socket.gethostname()}"
