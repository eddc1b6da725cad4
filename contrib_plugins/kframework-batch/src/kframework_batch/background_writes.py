"""What sessions have done beside binding: statuses written, victims sent away, each in a coroutine of its own.

What could not be done reaches the engine as a message, between two sessions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TypeVar

import msgspec

from kframework import ClusterError
from kframework.clock import rfc3339_micro
from kframework.engine import Host, OwnMessage
from kframework.objects import ApiObject, Event, ObjectMeta, ObjectReference, Pod, kind_of
from kframework_batch.messages import EvictionFailed, StatusNotWritten

T = TypeVar("T")

_log = logging.getLogger(__name__)

#: Each pause before an errand is tried again is twice the one before, in seconds; after the last one it has failed.
_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6)

#: Who records the events.
_CONTROLLER = "kframework-batch"

_GONE, _CONFLICT, _TOO_MANY, _FAULTS = 404, 409, 429, 500


class _Write(msgspec.Struct):
    """A status that is to be written."""

    subject: ApiObject
    patch: Mapping[str, object]


class BackgroundWrites:
    """Writes statuses, the latest of each object and one at a time, and deletes victims.

    `report` takes what could not be done; `ended` is called after every errand.
    """

    def __init__(
        self, outside: Host, report: Callable[[OwnMessage], None], ended: Callable[[], None] = lambda: None
    ) -> None:
        self._outside = outside
        self._report = report
        self._ended = ended
        #: What is still to be written by the object's uid, and of which objects a status is being written.
        self._waiting: dict[str, _Write] = {}
        self._writing: set[str] = set()
        self._under_way = 0
        self._told = 0

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._under_way

    def _start(self, errand: Callable[[T], Coroutine[object, object, None]], subject: T) -> None:
        self._under_way += 1
        # The errand's own coroutine is made in this one: a replay closes what is spawned before it begins.
        self._outside.spawn(self._counted(errand, subject), "the engine of batches")

    async def _counted(self, errand: Callable[[T], Coroutine[object, object, None]], subject: T) -> None:
        try:
            await errand(subject)
        finally:
            self._under_way -= 1
            self._ended()

    def write(self, subject: ApiObject, patch: Mapping[str, object]) -> None:
        """Have a merge patch of an object's status written; StatusNotWritten is reported if it cannot be."""
        uid = subject.metadata.uid
        self._waiting[uid] = _Write(subject, patch)
        if uid not in self._writing:
            self._writing.add(uid)
            self._start(self._write_all, uid)

    async def _write_all(self, uid: str) -> None:
        while uid in self._waiting:
            write = self._waiting.pop(uid)
            error = await self._written(write)
            # One that is gone, though another one has its name by now, has no status any more.
            if error is not None and error.status not in (_GONE, _CONFLICT):
                _log.warning("the status of %s cannot be written: %s", _name(write.subject), error)
            if error is not None:
                self._report(StatusNotWritten(uid))
        self._writing.discard(uid)

    async def _written(self, write: _Write) -> ClusterError | None:
        metadata = write.subject.metadata
        return await _tried(
            lambda: self._outside.api.patch_status(
                type(write.subject), metadata.name, write.patch, metadata.namespace, uid=metadata.uid
            )
        )

    def send_away(self, pod: Pod) -> None:
        """Have a victim deleted, with its grace; EvictionFailed is reported if it cannot be."""
        self._start(self._delete, pod)

    def tell(self, subject: ApiObject, now: float, reason: str, message: str) -> None:
        """Have a warning about an object recorded; one that cannot be is lost. `now` is in seconds since 1970."""
        metadata = subject.metadata
        self._told += 1
        event = Event(
            # The number keeps two events of one moment apart.
            metadata=ObjectMeta(name=f"{metadata.name}.{int(now * 1e9) + self._told:x}", namespace=metadata.namespace),
            event_time=rfc3339_micro(now),
            reporting_controller=_CONTROLLER,
            reporting_instance=_CONTROLLER,
            action="Scheduling",
            reason=reason,
            regarding=ObjectReference(
                api_version=kind_of(subject).api_version,
                kind=kind_of(subject).name,
                name=metadata.name,
                namespace=metadata.namespace,
                uid=metadata.uid,
            ),
            note=message,
            type="Warning",
        )
        self._start(self._record, event)

    async def _record(self, event: Event) -> None:
        error = await _tried(lambda: self._outside.api.create(event))
        # One that is there already was written by a try whose answer was lost.
        if error is not None and error.status != _CONFLICT:
            _log.warning("an event of %s cannot be written: %s", event.regarding.name, error)

    async def _delete(self, pod: Pod) -> None:
        metadata = pod.metadata
        error = await _tried(lambda: self._outside.api.delete(Pod, metadata.name, metadata.namespace, uid=metadata.uid))
        # Where there is no such pod any more, it went by itself. A conflict may mean that, or that somebody has changed
        # the pod meanwhile: if it is gone, the cluster says so, else it is there as before.
        if error is None or error.status == _GONE:
            return
        if error.status != _CONFLICT:
            _log.warning("victim %s/%s cannot be deleted: %s", metadata.namespace, metadata.name, error)
        self._report(EvictionFailed(metadata.uid))

    def __repr__(self) -> str:
        return f"<BackgroundWrites: {self._under_way} under way>"


async def _tried(call: Callable[[], Awaitable[object]]) -> ClusterError | None:
    """Make a call of the API until it is done or refused; return what stands against it in the end."""
    for pause in (*_PAUSES, None):
        try:
            await call()
        except ClusterError as error:
            if pause is None or not (error.retryable or error.status >= _FAULTS or error.status in (0, _TOO_MANY)):
                return error
            await asyncio.sleep(pause)
        else:
            return None
    return None


def _name(subject: ApiObject) -> str:
    namespace = f"{subject.metadata.namespace}/" if subject.metadata.namespace else ""
    return f"{kind_of(subject).name} {namespace}{subject.metadata.name}"
