"""Events about pods in a compact form; a Kubernetes Event is created only when it is sent or shown."""

from __future__ import annotations

import socket
from collections.abc import Sequence, Set
from functools import lru_cache
from typing import TYPE_CHECKING, overload

import msgspec

from kframework.clock import rfc3339_micro
from kframework.objects import Event, EventSeries, ObjectMeta, ObjectReference
from kframework.state.pods import PendingPod, PodInfo, bound_note

if TYPE_CHECKING:
    from kframework.core.cycle.run import RunBinding

#: The reason of the event for a bound pod.
SCHEDULED = "Scheduled"

#: Longer notes are cut, in bytes.
_MAX_NOTE = 1024

#: The API rejects longer names.
_MAX_NAME_LENGTH = 253


class PodReference(msgspec.Struct, frozen=True, gc=False):
    """A pod, and its resource version if known: an Event about a changed pod starts another series."""

    namespace: str
    name: str
    uid: str
    version: str = ""

    def object(self) -> ObjectReference:
        return ObjectReference(
            api_version="v1",
            kind="Pod",
            name=self.name,
            namespace=self.namespace,
            uid=self.uid,
            resource_version=self.version,
        )


class LeaseReference(PodReference, frozen=True, gc=False):
    """The Lease of a scheduler, which events about the scheduler itself concern."""

    def object(self) -> ObjectReference:
        return ObjectReference(
            api_version="coordination.k8s.io/v1", kind="Lease", name=self.name, namespace=self.namespace
        )


class SeriesKey(msgspec.Struct, frozen=True, gc=False):
    """The fields that the events of one series share: all but name, times and note."""

    profile: str
    reason: str
    action: str
    warning: bool
    pod: PodReference
    related: PodReference | None = None


class EventRecord(msgspec.Struct, gc=False, eq=False):
    """An event with its number of occurrences and of write attempts; times are in seconds since 1970.

    It takes 448 bytes plus the pod's names, and does not keep the pod alive.
    """

    series_key: SeriesKey
    note: str
    since: float
    #: Makes the names of two simultaneous events distinct.
    number: int
    seen_at: float
    count: int = 1
    tries: int = 0
    denials: int = 0

    @property
    def name(self) -> str:
        """The name of the Event: from its pod, or from the pod's uid if that would be too long."""
        pod, nanoseconds = self.series_key.pod, int(self.since * 1e9) + self.number
        name = f"{pod.name}.{nanoseconds:x}"
        return name if len(name) <= _MAX_NAME_LENGTH else f"{pod.uid}.{nanoseconds:x}"

    def event(self) -> Event:
        """Create the Event, with a series if it occurred more than once."""
        series_key, pod = self.series_key, self.series_key.pod
        return Event(
            metadata=ObjectMeta(name=self.name, namespace=pod.namespace),
            event_time=rfc3339_micro(self.since),
            reporting_controller=series_key.profile,
            reporting_instance=_reporting_instance(series_key.profile),
            action=series_key.action,
            reason=series_key.reason,
            regarding=pod.object(),
            related=series_key.related.object() if series_key.related is not None else None,
            note=self.note,
            type="Warning" if series_key.warning else "Normal",
            series=EventSeries(count=self.count, last_observed_time=rfc3339_micro(self.seen_at))
            if self.count > 1
            else None,
        )


class RunEvents(Sequence[EventRecord]):
    """The events that the pods of a run are bound; each is created when it is read.

    Attributes:
        number: the number of the first of them.
    """

    def __init__(self, bound: RunBinding, number: int, now: float) -> None:
        self.number: int = number
        self._bound = bound
        self._now = now

    @property
    def namespaces(self) -> Set[str]:
        return {attempt.pod.namespace for attempt in self._bound.run.attempts}

    @overload
    def __getitem__(self, index: int) -> EventRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[EventRecord]: ...
    def __getitem__(self, index: int | slice) -> EventRecord | list[EventRecord]:
        if isinstance(index, slice):
            return [self[each] for each in range(len(self))[index]]
        run = self._bound.run
        attempt, node_name = run.attempts[index], run.results[index].node
        pod, number = attempt.pod, self.number + range(len(self))[index]
        series_key = SeriesKey(attempt.profile.name, SCHEDULED, "Binding", False, reference(pod))
        return EventRecord(series_key, cut_note(bound_note(pod, node_name)), self._now, number, self._now)

    def __len__(self) -> int:
        return len(self._bound)


def reference(pod: PodInfo) -> PodReference:
    version = pod.object.metadata.resource_version if isinstance(pod, PendingPod) else ""
    return PodReference(pod.namespace, pod.name, pod.uid, version)


def cut_note(note: str) -> str:
    """Cut a note as kube-scheduler does: 1024 bytes, the end marked."""
    encoded = note.encode()
    if len(encoded) <= _MAX_NOTE:
        return note
    return encoded[: _MAX_NOTE - 4].decode(errors="ignore") + " ..."


@lru_cache(maxsize=64)
def _reporting_instance(profile: str) -> str:
    return f"{profile}-{socket.gethostname()}"
