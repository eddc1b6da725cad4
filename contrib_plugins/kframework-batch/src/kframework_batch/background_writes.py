"""The writes of sessions except bindings: statuses of groups and queues, deletions of victims, warnings.

The host makes and retries the calls; a failure reaches the engine as a message, between two sessions.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from kframework import ClusterError
from kframework.clock import rfc3339_micro
from kframework.engine import EngineMessage, Host
from kframework.objects import ApiObject, Event, ObjectMeta, ObjectReference, Pod, kind_of

_log = logging.getLogger(__name__)

#: Who records the events.
_CONTROLLER = "kframework-batch"

_NOT_FOUND, _CONFLICT = 404, 409


class EvictionFailed(EngineMessage, frozen=True):
    """A victim, by its uid, could not be sent away."""

    uid: str


class StatusNotWritten(EngineMessage, frozen=True):
    """The status of a pod group or a queue, by its uid, could not be written."""

    uid: str


class Reconfigured(EngineMessage, frozen=True):
    """Another configuration, this text, holds from the next session on."""

    text: str


class BackgroundWrites:
    """Writes through the host, of each object's status only the newest; `report` takes failures."""

    def __init__(self, host: Host, report: Callable[[EngineMessage], None]) -> None:
        self._host = host
        self._report = report
        self._warnings = 0

    def write_status(self, subject: ApiObject, patch: Mapping[str, object]) -> None:
        """Apply a merge patch to an object's status; StatusNotWritten is reported if that fails."""
        metadata = subject.metadata
        name, namespace, uid = metadata.name, metadata.namespace, metadata.uid

        def on_refusal(error: ClusterError) -> None:
            # An object that is gone has no status any more, though another one may have its name by now.
            if error.status not in (_NOT_FOUND, _CONFLICT):
                what = f"{kind_of(subject).name} {namespace}/{name}" if namespace else f"{kind_of(subject).name} {name}"
                _log.warning("the status of %s cannot be written: %s", what, error)
            self._report(StatusNotWritten(uid))

        def write() -> Awaitable[object]:
            return self._host.api.patch_status(type(subject), name, patch, namespace, uid=uid)

        self._host.write(f"status of {uid}", write, on_refusal)

    def delete_victim(self, pod: Pod) -> None:
        """Delete a victim, with its grace; EvictionFailed is reported if that fails."""
        metadata = pod.metadata

        def on_refusal(error: ClusterError) -> None:
            # A pod that is not found went by itself. A conflict may mean that, or that the pod has been changed
            # meanwhile: if it is gone, the watch reports it, else it is there as before.
            if error.status == _NOT_FOUND:
                return
            if error.status != _CONFLICT:
                _log.warning("victim %s/%s cannot be deleted: %s", metadata.namespace, metadata.name, error)
            self._report(EvictionFailed(metadata.uid))

        name, namespace, uid = metadata.name, metadata.namespace, metadata.uid
        self._host.write(f"eviction of {uid}", lambda: self._host.api.delete(Pod, name, namespace, uid=uid), on_refusal)

    def record_warning(self, subject: ApiObject, now: float, reason: str, message: str) -> None:
        """Record a warning about an object; one that cannot be written is lost. `now` is in seconds since 1970."""
        metadata, kind = subject.metadata, kind_of(subject)
        self._warnings += 1
        event = Event(
            # The number keeps two events of one moment apart.
            metadata=ObjectMeta(
                name=f"{metadata.name}.{int(now * 1e9) + self._warnings:x}", namespace=metadata.namespace
            ),
            event_time=rfc3339_micro(now),
            reporting_controller=_CONTROLLER,
            reporting_instance=_CONTROLLER,
            action="Scheduling",
            reason=reason,
            regarding=ObjectReference(
                api_version=kind.api_version,
                kind=kind.name,
                name=metadata.name,
                namespace=metadata.namespace,
                uid=metadata.uid,
            ),
            note=message,
            type="Warning",
        )

        def on_refusal(error: ClusterError) -> None:
            # One that is there already was written by a try whose answer was lost.
            if error.status != _CONFLICT:
                _log.warning("an event of %s cannot be written: %s", metadata.name, error)

        key = f"event {metadata.namespace}/{event.metadata.name}"
        self._host.write(key, lambda: self._host.api.create(event), on_refusal)
