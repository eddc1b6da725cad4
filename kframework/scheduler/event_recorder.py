"""Events about pods, aggregated: repeated events become one Event with a count, as in kube-scheduler's recorder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kframework.client.event_record import (
    SCHEDULED,
    EventRecord,
    LeaseReference,
    RunEvents,
    SeriesKey,
    cut_note,
    reference,
)
from kframework.clock import Clock
from kframework.core.cycle.run import RunBinding
from kframework.core.host import PodEvent

#: The seconds without a repetition after which a series has ended, or a single event is dropped.
SERIES_GAP = 360.0

#: How often the count of an active series is written, in seconds.
REFRESH_INTERVAL = 1800.0


class EventRecorder:
    """A recorder that passes events to `write` with repetitions aggregated, and those of a run to `write_run`."""

    def __init__(
        self, clock: Clock, write: Callable[[EventRecord], None], write_run: Callable[[RunEvents], None]
    ) -> None:
        self._clock = clock
        self._write = write
        self._write_run = write_run
        self._aggregator = EventAggregator()
        self._recorded = 0

    def record(self, event: PodEvent) -> None:
        self._recorded += 1
        now, related = self._clock.now(), event.related
        pod, other = reference(event.pod), reference(related) if related is not None else None
        series_key = SeriesKey(event.profile, event.reason, event.action, event.warning, pod, other)
        record = EventRecord(series_key, cut_note(event.note), now, self._recorded, now)
        if event.reason == SCHEDULED:
            # A pod has one; keeping it for six more minutes would be 18,000 records at 50 pods per second.
            self.pod_ended(pod.uid)
            self._write(record)
        elif (due := self._aggregator.observe(record)) is not None:
            self._write(due)

    def record_reload(self, profile: str, lease: LeaseReference, note: str, *, warning: bool) -> None:
        """Record that another configuration was taken, or with a warning that it was refused; never as a series."""
        self._recorded += 1
        now, reason = self._clock.now(), "ConfigurationRefused" if warning else "ConfigurationTaken"
        series_key = SeriesKey(profile, reason, "Reloading", warning, lease)
        self._write(EventRecord(series_key, cut_note(note), now, self._recorded, now))

    def record_run(self, bound: RunBinding) -> None:
        events = RunEvents(bound, self._recorded + 1, self._clock.now())
        self._recorded += len(events)
        if not len(self._aggregator):
            self._write_run(events)
            return
        for each in events:
            self.pod_ended(each.series_key.pod.uid)
            self._write(each)

    def pod_ended(self, uid: str) -> None:
        """Write the series of a bound or deleted pod a last time and drop them."""
        for ended in self._aggregator.finish_pod(uid):
            self._write(ended)

    async def run(self) -> None:
        """Write active series periodically, and ended ones a last time; runs until cancelled."""
        while True:
            for _ in range(int(REFRESH_INTERVAL // SERIES_GAP)):
                await asyncio.sleep(SERIES_GAP)
                for record in self._aggregator.finish(self._clock.now()):
                    self._write(record)
            for record in self._aggregator.refresh():
                self._write(record)


class EventAggregator:
    """A store of the events of the last minutes, which decides what to write for another one; `now` is in seconds.

    Events with one series_key are the same: another note is never written while the series is active.
    """

    def __init__(self) -> None:
        self._known: dict[SeriesKey, EventRecord] = {}
        self._of_pods: dict[str, set[SeriesKey]] = {}

    def observe(self, record: EventRecord) -> EventRecord | None:
        """Return the record to write for a new event, if any.

        That is the event itself the first time, its series the second time, and nothing after that.
        """
        known = self._known.setdefault(record.series_key, record)
        if known is record:
            self._of_pods.setdefault(record.series_key.pod.uid, set()).add(record.series_key)
            return record
        known.count += 1
        known.seen_at = record.seen_at
        return known if known.count == 2 else None

    def refresh(self) -> list[EventRecord]:
        """Return every series, to be written with its count."""
        return [known for known in self._known.values() if known.count > 1]

    def finish(self, now: float) -> list[EventRecord]:
        """Drop events without recent repetition; return the series among them, to be written a last time."""
        silent = [known for known in self._known.values() if known.seen_at < now - SERIES_GAP]
        for known in silent:
            del self._known[known.series_key]
            of_pod = self._of_pods[known.series_key.pod.uid]
            of_pod.discard(known.series_key)
            if not of_pod:
                del self._of_pods[known.series_key.pod.uid]
        return [known for known in silent if known.count > 1]

    def finish_pod(self, uid: str) -> list[EventRecord]:
        """Drop the events of a pod; return the series among them, oldest first, to be written a last time."""
        if uid not in self._of_pods:
            return []
        known = [self._known.pop(series_key) for series_key in self._of_pods.pop(uid)]
        return sorted((each for each in known if each.count > 1), key=lambda each: each.number)

    def __len__(self) -> int:
        return len(self._known)
