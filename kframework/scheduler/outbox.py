"""Background writes of the scheduler: statuses of pods, writes of its engine, and events, in a queue each.

A later status of a pod is merged into a waiting one, and a binding replaces it; a status the pod already has is not
written. A status that fails permanently is logged and dropped: the next attempt writes it again. Other engines pass
calls with keys, to which the same applies; they are notified of permanent failures. Events never delay a status or a
binding: they have their own writers, and on a real cluster their own share of concurrent writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable
from random import Random
from typing import Any, Generic, NamedTuple, TypeVar

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from kframework.client.cluster import Cluster, RunBinder
from kframework.client.event_record import EventRecord, RunEvents
from kframework.client.missing_rights import is_denial
from kframework.client.transitions import is_equivalent
from kframework.client.transport import STOPPED, WriteFence
from kframework.clock import Clock, rfc3339
from kframework.core.cycle.run import Run
from kframework.errors import ClusterError
from kframework.framework.handle import COMPLETED
from kframework.framework.suspendable import Suspendable, run_async, wait_for
from kframework.objects import PodCondition
from kframework.state.pods import PendingPod, PodInfo
from kframework.verbosity import V3

_log = logging.getLogger(__name__)

#: The number of concurrent writes of statuses, and of events: as many as flow control ever allows
#: (`kframework.client.flow_control`); in memory, without flow control, all complete at once.
MAX_CONCURRENT = 64

#: The number of events that may wait; further ones are dropped. kube-scheduler's limit is 1,000, which at full speed
#: dropped two thirds of them.
MAX_EVENTS = 100_000

#: The delays before retries of a status or a bind, in seconds, the fraction of jitter, and the answers to retry: a
#: conflict, an internal error, an unavailable service or server. As in kube-scheduler.
RETRY_DELAYS, JITTER = (0.01, 0.05, 0.25), 0.1
RETRYABLE = frozenset({409, 500, 503, 0})

#: The same for writes of the engine, which are retried after any temporary error.
ENGINE_RETRY_DELAYS = (0.1, 0.2, 0.4, 0.8, 1.6)

#: The number of tries for an event after temporary errors or without an answer; the delay before the second try in
#: seconds, which doubles up to the longest, and the fraction of jitter. kube-scheduler tries an event twelve times in
#: two minutes without an answer, and once after any other error.
EVENT_TRIES, EVENT_RETRY_DELAY, MAX_EVENT_RETRY_DELAY, EVENT_JITTER = 12, 1.0, 16.0, 0.25

#: The answers of a server that denies a request. One that has just started does so until it has read its roles, so an
#: event is tried again, for seven seconds; kube-scheduler drops it.
DENIALS, DENIED_EVENT_TRIES = frozenset({401, 403}), 4

#: The answers to an event to retry, besides server errors: none at all, a conflict (unless the event exists already,
#: which equals success), too many requests, a denial.
EVENT_RETRYABLE = frozenset({0, 409, 429, *DENIALS})

#: The reasons for dropped events, as labels of the metric.
QUEUE_FULL, WRITE_FAILED = "queue_full", "write_failed"

#: Awaits a write and returns its error or None. Several callers may await one write.
WriteResult = Awaitable[ClusterError | None]


class _StatusWrite(WriteResult):
    """A waiting status write of one pod; `wanted` until a binding replaces it."""

    __slots__ = ("_ended", "_error", "condition", "nominated_node_name", "pod", "wanted")

    def __init__(self, pod: PodInfo) -> None:
        self.pod = pod
        self.condition: PodCondition | None = None
        self.nominated_node_name: str | None = None
        self.wanted = True
        self._error: ClusterError | None = None
        self._ended = asyncio.Event()

    def complete(self, error: ClusterError | None) -> None:
        self._error = error
        self._ended.set()

    def __await__(self) -> Generator[Any, None, ClusterError | None]:
        yield from self._ended.wait().__await__()
        return self._error


class _EngineWrite(NamedTuple):
    """An API call of the engine, with the callback for its failure."""

    key: str
    call: Callable[[], Awaitable[object]]
    on_failure: Callable[[ClusterError], None]


#: An event, or those of a run.
_Events = EventRecord | RunEvents


class Outbox:
    """The queues of waiting writes and their writers; it calls `on_empty` after the last status, or the last write.

    Nothing is written unless `fence` is open. `dropped` counts unwritten events by reason.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        random: Random,
        on_empty: Callable[[], None] = lambda: None,
        fence: WriteFence | None = None,
    ) -> None:
        self.fence: WriteFence = fence or WriteFence()
        self._cluster = cluster
        self._run_binder = cluster if isinstance(cluster, RunBinder) else None
        self._clock = clock
        self._random = random
        self._on_empty = on_empty
        self._statuses = KeyedWriteQueue[str, _StatusWrite](self._write_status, MAX_CONCURRENT, self._on_empty)
        self._engine_writes = KeyedWriteQueue[str, _EngineWrite](self._write_for_engine, MAX_CONCURRENT, self._on_empty)
        self._events = KeyedWriteQueue[_Events, _Events](self._write_event, MAX_CONCURRENT, self._on_events_written)
        #: The number of events waiting for a retry.
        self._awaiting_retry = 0
        self._tasks: TaskGroup | None = None
        self._is_dropping = False
        self.dropped: dict[str, int] = {QUEUE_FULL: 0, WRITE_FAILED: 0}

    def patch_status(
        self, pod: PodInfo, condition: PodCondition | None, nominated_node_name: str | None
    ) -> WriteResult:
        """Write a pod's condition, its nominated node or both; None leaves as it is."""
        status = self._statuses.waiting(pod.uid) or _StatusWrite(pod)
        if pod.uid not in self._statuses and _already_set(pod, condition, nominated_node_name):
            status.complete(None)
            return status
        if _log.isEnabledFor(V3):
            fields = _fields(pod, condition, nominated_node_name)
            _log.log(V3, "Updating pod condition and nominated node name", extra=fields)
        status.pod = pod
        status.condition = condition or status.condition
        if nominated_node_name is not None:
            status.nominated_node_name = nominated_node_name
        self._statuses.put(pod.uid, status)
        return status

    def wait_for_write(self, uid: str) -> Awaitable[None]:
        """Drop the pod's waiting status, as it is being bound, and return an awaitable for the one in flight.

        A status that fails is not retried.
        """
        if uid not in self._statuses:
            return COMPLETED
        self._discard(uid)
        status = self._statuses.in_flight(uid)
        if status is None:
            return COMPLETED
        status.wanted = False
        return self._wait_and_discard(uid)

    def release_statuses(self, run: Run) -> bool:
        """Drop the waiting statuses of a run's pods; False if one is in flight, or writes are blocked.

        Those pods are then bound one by one.
        """
        uids = [attempt.pod.uid for attempt in run.attempts]
        if not self.fence.is_open or any(map(self._statuses.in_flight, uids)):
            return False
        if len(self._statuses):
            for uid in uids:
                self._discard(uid)
        return True

    async def _wait_and_discard(self, uid: str) -> None:
        if self._statuses.in_flight(uid) is not None:
            await self._statuses.wait_until_written(uid)
        self._discard(uid)

    def _discard(self, uid: str) -> None:
        status = self._statuses.discard(uid)
        if status is not None:
            status.complete(None)

    def write(
        self, key: str, call: Callable[[], Awaitable[object]], on_failure: Callable[[ClusterError], None]
    ) -> None:
        """Make a call for the engine, in place of one that waits under this key and after one that is in flight."""
        self._engine_writes.put(key, _EngineWrite(key, call, on_failure))

    async def wait_for_engine_writes(self, keys: Iterable[str]) -> None:
        """Wait until all that the engine writes under these keys is written or refused."""
        for key in keys:
            while key in self._engine_writes:
                await self._engine_writes.wait_until_written(key)

    def record(self, event: EventRecord) -> None:
        event.tries = event.denials = 0
        if len(self._events) + self._awaiting_retry < MAX_EVENTS or self._events.waiting(event) is not None:
            self._events.put(event, event)
        else:
            self._count_dropped(QUEUE_FULL, f"{MAX_EVENTS} are queued")

    def record_run(self, events: RunEvents) -> None:
        self._events.put(events, events)

    def _count_dropped(self, reason: str, why: str) -> None:
        """Count a dropped event, and log it once until the queue is empty."""
        self.dropped[reason] += 1
        if not self._is_dropping:
            self._is_dropping = True
            _log.warning("dropped an event: %s; not logged again until the queue is empty", why)

    @property
    def only_events_left(self) -> bool:
        return self._statuses.is_idle and self._engine_writes.is_idle

    @property
    def is_empty(self) -> bool:
        return self.only_events_left and self._events.is_idle and not self._awaiting_retry

    async def run(self) -> None:
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._statuses.run)
            self._tasks.start_soon(self._engine_writes.run)
            self._tasks.start_soon(self._events.run)

    def _on_events_written(self) -> None:
        if not self._events.is_idle or self._awaiting_retry:
            return
        self._is_dropping = False
        if self.only_events_left:
            self._on_empty()

    def _with_retries(
        self,
        write: Callable[[], Suspendable[object]],
        pauses: Iterable[float],
        retryable: Callable[[ClusterError], bool],
    ) -> Suspendable[None]:
        """Write, again after each pause if the error is retryable; raises the last ClusterError."""
        for pause in pauses:
            try:
                yield from write()
                return
            except ClusterError as error:
                if not retryable(error):
                    raise
            yield from wait_for(asyncio.sleep(self.with_jitter(pause)))
        yield from write()

    def with_jitter(self, pause: float) -> float:
        return pause * (1 + JITTER * self._random.random())

    # -- statuses --------------------------------------------------------------------------------------------------

    def _write_status(self, status: _StatusWrite) -> Suspendable[None]:
        error: ClusterError | None = None
        try:
            yield from self._with_retries(
                lambda: self._patch(status),
                RETRY_DELAYS,
                lambda error: status.wanted and error.status in RETRYABLE,
            )
        except ClusterError as refusal:
            error = refusal
            self._log_refusal(refusal)
        finally:
            status.complete(error)

    def _log_refusal(self, error: ClusterError) -> None:
        """Log a refusal, but not that the subject is gone, the scheduler has stopped, or a right is missing."""
        if error.status != 404 and error.reason != STOPPED and not is_denial(error.message):
            _log.warning("cannot write the status of a pod: %s", error)

    def _patch(self, status: _StatusWrite) -> Suspendable[None]:
        if not status.wanted:
            return
        self.fence.check()
        pod, condition = status.pod, status.condition
        if condition is not None and isinstance(pod, PendingPod):
            condition = self._with_timestamp(pod, condition)
        nominated = status.nominated_node_name
        written = self._cluster.patch_pod_status(
            pod.namespace, pod.name, pod.uid, condition=condition, nominated_node_name=nominated
        )
        yield from wait_for(written)

    def _with_timestamp(self, pod: PendingPod, condition: PodCondition) -> PodCondition:
        """Add the transition time to the condition, so that the pod need not be read for it."""
        known = (old for old in pod.status.conditions if (old.type, old.status) == (condition.type, condition.status))
        since = next((old.last_transition_time for old in known), None)
        return replace(condition, last_transition_time=since or rfc3339(self._clock.now()))

    # -- writes of the engine --------------------------------------------------------------------------------------

    def _write_for_engine(self, write: _EngineWrite) -> Suspendable[None]:
        try:
            yield from self._with_retries(lambda: wait_for(write.call()), ENGINE_RETRY_DELAYS, _is_temporary)
        except ClusterError as error:
            if error.reason != STOPPED:
                write.on_failure(error)
        except Exception:  # the engine's own fault: other writes go on
            _log.exception("cannot write %s", write.key)

    # -- events ----------------------------------------------------------------------------------------------------

    def _write_event(self, event: _Events) -> Suspendable[None]:
        if isinstance(event, RunEvents):
            self._write_run(event)
            return
        event.tries += 1
        try:
            self.fence.check_event()
            yield from wait_for(self._cluster.record_event(event))
        except ClusterError as error:
            if error.status == 404 or error.reason == STOPPED:
                return  # the pod or namespace is gone, or writes are blocked
            event.denials += error.status in DENIALS
            has_tries = event.tries < EVENT_TRIES and event.denials < DENIED_EVENT_TRIES
            if has_tries and (error.status in EVENT_RETRYABLE or error.status >= 500):
                self._awaiting_retry += 1
                assert self._tasks is not None
                self._tasks.start_soon(self._write_again, event)
            elif is_denial(error.message):
                self.dropped[WRITE_FAILED] += 1  # the missing permission is already logged
            else:
                self._count_dropped(WRITE_FAILED, str(error))

    def _write_run(self, events: RunEvents) -> None:
        if not (self.fence.is_open and self._run_binder is not None and self._run_binder.record_run(events)):
            for each in events:
                self.record(each)

    async def _write_again(self, event: EventRecord) -> None:
        """Retry an event after a pause, unless a newer version of it is queued."""
        pause = min(EVENT_RETRY_DELAY * 2 ** (event.tries - 1), MAX_EVENT_RETRY_DELAY)
        await asyncio.sleep(pause * (1 + EVENT_JITTER * self._random.random()))
        self._awaiting_retry -= 1
        if event not in self._events:
            self._events.put(event, event)
        self._on_events_written()


def _is_temporary(error: ClusterError) -> bool:
    """Return whether an error is temporary: throttled, a server error, or no answer."""
    return error.retryable or error.status >= 500 or error.status in (0, 429)


def _already_set(pod: PodInfo, condition: PodCondition | None, nominated_node_name: str | None) -> bool:
    if not isinstance(pod, PendingPod) or nominated_node_name not in (None, pod.status.nominated_node_name):
        return False
    return condition is None or any(
        old.type == condition.type and is_equivalent(old, condition) for old in pod.status.conditions
    )


def _fields(pod: PodInfo, condition: PodCondition | None, nominated_node_name: str | None) -> dict[str, object]:
    fields: dict[str, object] = {"pod": pod.key}
    if condition is not None:
        fields["conditionType"] = condition.type
        fields["conditionStatus"] = condition.status
        fields["conditionReason"] = condition.reason
    if nominated_node_name is not None:
        fields["nominatedNodeName"] = nominated_node_name
    return fields


K = TypeVar("K", bound=Hashable)
W = TypeVar("W")


class KeyedWriteQueue(Generic[K, W]):
    """A queue that runs at most `limit` writes at a time, in order; `on_idle` is called after the last one.

    A new write replaces a waiting one with the same key; if one with its key is in flight, it waits for that and then
    joins the end of the queue. `write` never raises. Writes that need no waiting are done in one go, and only others
    cost a task.
    """

    def __init__(self, write: Callable[[W], Suspendable[None]], limit: int, on_idle: Callable[[], None]) -> None:
        self._write = write
        self._limit = limit
        self._on_idle = on_idle
        self._waiting: dict[K, W] = {}
        self._in_flight: dict[K, W] = {}
        #: The keys in order. One that was dropped, or is in flight, is skipped.
        self._order: deque[K] = deque()
        #: Set when a key is queued while no writer is busy; None before the first wait.
        self._wakeup: asyncio.Future[None] | None = None
        self._completions: dict[K, asyncio.Event] = {}

    def put(self, key: K, write: W) -> None:
        if key not in self._waiting and key not in self._in_flight:
            self._order.append(key)
            self._wake()
        self._waiting[key] = write

    def waiting(self, key: K) -> W | None:
        return self._waiting.get(key)

    def in_flight(self, key: K) -> W | None:
        return self._in_flight.get(key)

    def discard(self, key: K) -> W | None:
        return self._waiting.pop(key, None)

    async def wait_until_written(self, key: K) -> None:
        """Wait until the write in flight under a key has ended, or else the waiting one."""
        if key in self:
            await self._completions.setdefault(key, asyncio.Event()).wait()

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                woken = self._wakeup = asyncio.get_running_loop().create_future()
                while len(self._in_flight) < self._limit and (work := self._next()) is not None:
                    if (question := next(work, None)) is not None:
                        tasks.start_soon(self._continue_write, work, question)
                await woken

    async def _continue_write(self, work: Suspendable[None], question: Awaitable[object]) -> None:
        """Finish a write that waits, then run further ones in this task while there are any."""
        await run_async(work, question)
        while (following := self._next()) is not None:
            await run_async(following)

    def _wake(self) -> None:
        if self._wakeup is not None and len(self._in_flight) < self._limit and not self._wakeup.done():
            self._wakeup.set_result(None)

    def _next(self) -> Suspendable[None] | None:
        while self._order:
            key = self._order.popleft()
            if key in self._waiting and key not in self._in_flight:
                return self._run_write(key, self._waiting.pop(key))
        return None

    def _run_write(self, key: K, write: W) -> Suspendable[None]:
        self._in_flight[key] = write
        try:
            yield from self._write(write)
        finally:
            del self._in_flight[key]
            if self._completions and (landing := self._completions.pop(key, None)) is not None:
                landing.set()
            if key in self._waiting:
                self._order.append(key)
        if self.is_idle:
            self._on_idle()

    def __contains__(self, key: K) -> bool:
        return key in self._waiting or key in self._in_flight

    def __len__(self) -> int:
        """Count the waiting writes, without those in flight."""
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        return not (self._waiting or self._in_flight)
