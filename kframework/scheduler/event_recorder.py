"""What a scheduler tells about pods, in the form of Kubernetes' Events: names, references, notes, series.

Events that come again and again are written as one Event with a count, as kube-scheduler's recorder does it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from msgspec import structs

from kframework.clock import Clock, rfc3339_micro
from kframework.core.effects import PodEvent
from kframework.objects import Event, EventSeries, ObjectMeta, ObjectReference
from kframework.state.pods import PendingPod, PodInfo

#: Longer notes are cut, in bytes.
_MAX_NOTE = 1024

#: Longer names are refused by the API.
_MAX_NAME = 253

#: After how many seconds without another event of its kind a series has ended, or a single event is forgotten.
SILENCE = 360.0

#: How often the count of a series that goes on is written, in seconds.
REFRESH = 1800.0

_Key = tuple[str, str, str, str, str, ObjectReference, ObjectReference | None]


class EventRecorder:
    """Gives events their form and passes those on to `write` that are to be written."""

    def __init__(self, clock: Clock, write: Callable[[Event], None]) -> None:
        self._clock = clock
        self._write = write
        self._aggregator = EventAggregator()
        self._host = socket.gethostname()
        self._recorded = 0

    def record(self, told: PodEvent) -> None:
        """Record an Event about a pod."""
        self._recorded += 1
        now, pod, related = self._clock.now(), told.pod, told.related
        event = Event(
            # The number keeps two events of one moment apart.
            metadata=ObjectMeta(name=_name(pod, int(now * 1e9) + self._recorded), namespace=pod.namespace),
            event_time=rfc3339_micro(now),
            reporting_controller=told.profile,
            reporting_instance=f"{told.profile}-{self._host}",
            action=told.action,
            reason=told.reason,
            regarding=_reference(pod),
            related=_reference(related) if related is not None else None,
            note=_cut(told.note),
            type="Warning" if told.warning else "Normal",
        )
        due = self._aggregator.observe(event, now)
        if due is not None:
            self._write(due)

    async def run(self) -> None:
        """Write series that go on now and then, and those that have ended a last time; for ever."""
        while True:
            for _ in range(int(REFRESH // SILENCE)):
                await asyncio.sleep(SILENCE)
                for event in self._aggregator.finish(self._clock.now()):
                    self._write(event)
            for event in self._aggregator.refresh():
                self._write(event)

    def __repr__(self) -> str:
        return f"<EventRecorder {self._recorded} events, {self._aggregator!r}>"


def _name(pod: PodInfo, nanoseconds: int) -> str:
    """Name an event after its pod; after the pod's uid where that name would be too long."""
    name = f"{pod.name}.{nanoseconds:x}"
    return name if len(name) <= _MAX_NAME else f"{pod.uid}.{nanoseconds:x}"


def _reference(pod: PodInfo) -> ObjectReference:
    """Point to a pod, and where its object is known to that version: a changed pod starts another series."""
    version = pod.object.metadata.resource_version if isinstance(pod, PendingPod) else ""
    return ObjectReference(
        api_version="v1", kind="Pod", name=pod.name, namespace=pod.namespace, uid=pod.uid, resource_version=version
    )


def _cut(note: str) -> str:
    """Cut a note as kube-scheduler does: 1024 bytes, the end marked."""
    encoded = note.encode()
    if len(encoded) <= _MAX_NOTE:
        return note
    return encoded[: _MAX_NOTE - 4].decode(errors="ignore") + " ..."


# -- series ------------------------------------------------------------------------------------------------------------


class _Known:
    """An event that was written, how often it came, and when last, in seconds since 1970."""

    __slots__ = ("count", "event", "seen_at")

    def __init__(self, event: Event, now: float) -> None:
        self.event = event
        self.count = 1
        self.seen_at = now

    def series(self) -> Event:
        series = EventSeries(count=self.count, last_observed_time=rfc3339_micro(self.seen_at))
        return structs.replace(self.event, series=series)


class EventAggregator:
    """Knows the events of the last minutes, and says what of a further one is to be written; `now` is in seconds.

    Events are the same if all but name, time and note are: another note is never written while the series goes on.
    """

    def __init__(self) -> None:
        self._known: dict[_Key, _Known] = {}

    def observe(self, event: Event, now: float) -> Event | None:
        """Return what is to be written now that an event has come.

        That is the event itself the first time, its series the second time, and nothing after that.
        """
        key = _key(event)
        known = self._known.get(key)
        if known is None:
            self._known[key] = _Known(event, now)
            return event
        known.count += 1
        known.seen_at = now
        return known.series() if known.count == 2 else None

    def refresh(self) -> list[Event]:
        """Return every series, to be written with its count."""
        return [known.series() for known in self._known.values() if known.count > 1]

    def finish(self, now: float) -> list[Event]:
        """Forget what has been silent for long; return the series among it, to be written a last time."""
        silent = {key: known for key, known in self._known.items() if known.seen_at < now - SILENCE}
        for key in silent:
            del self._known[key]
        return [known.series() for known in silent.values() if known.count > 1]

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        return f"<EventAggregator {len(self)} events known>"


def _key(event: Event) -> _Key:
    return (
        event.type,
        event.action,
        event.reason,
        event.reporting_controller,
        event.reporting_instance,
        event.regarding,
        event.related,
    )
