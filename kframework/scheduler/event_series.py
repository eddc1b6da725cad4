"""Events that come again and again are written as one Event with a count, as kube-scheduler's recorder does it."""

from __future__ import annotations

from msgspec import structs

from kframework.clock import rfc3339_micro
from kframework.objects import Event, EventSeries, ObjectReference

#: After how many seconds without another event of its kind a series has ended, or a single event is forgotten.
SILENCE = 360.0

#: How often the count of a series that goes on is written, in seconds.
REFRESH = 1800.0

_Key = tuple[str, str, str, str, str, ObjectReference, ObjectReference | None]


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
