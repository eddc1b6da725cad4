"""What a scheduler tells about pods, in the form of Kubernetes' Events: names, references, notes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from kframework.clock import Clock, rfc3339_micro
from kframework.core.effects import PodEvent
from kframework.objects import Event, ObjectMeta, ObjectReference
from kframework.scheduler.event_series import REFRESH, SILENCE, EventAggregator
from kframework.state.pods import PendingPod, PodInfo

#: Longer notes are cut, in bytes.
_MAX_NOTE = 1024

#: Longer names are refused by the API.
_MAX_NAME = 253


class EventRecorder:
    """Gives events their form and passes those on to `write` that are to be written."""

    def __init__(self, clock: Clock, write: Callable[[Event], None]) -> None:
        self._clock = clock
        self._write = write
        self._aggregator = EventAggregator()
        self._host = socket.gethostname()
        self._recorded = 0

    def record(self, said: PodEvent) -> None:
        """Record an Event about a pod."""
        self._recorded += 1
        now = self._clock.now()
        pod, related = said.pod, said.related
        event = Event(
            # The number keeps two events of one moment apart.
            metadata=ObjectMeta(name=_name(pod, int(now * 1e9) + self._recorded), namespace=pod.namespace),
            event_time=rfc3339_micro(now),
            reporting_controller=said.profile,
            reporting_instance=f"{said.profile}-{self._host}",
            action=said.action,
            reason=said.reason,
            regarding=_reference(pod),
            related=_reference(related) if related is not None else None,
            note=_cut(said.note),
            type="Warning" if said.warning else "Normal",
        )
        told = self._aggregator.observe(event, now)
        if told is not None:
            self._write(told)

    async def run(self) -> None:
        """Write series that go on now and then, and those that have ended a last time; for ever."""
        while True:
            for _ in range(int(REFRESH // SILENCE)):
                await asyncio.sleep(SILENCE)
                self._pass_on(self._aggregator.finish(self._clock.now()))
            self._pass_on(self._aggregator.refresh())

    def _pass_on(self, events: list[Event]) -> None:
        for event in events:
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
