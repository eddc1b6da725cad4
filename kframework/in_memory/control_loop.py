"""The base of the controllers of a cluster in memory: a queue of keys of changed objects, reconciled one by one."""

from __future__ import annotations

import asyncio
import heapq
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import ClassVar

from kframework.clock import Clock
from kframework.errors import ClusterError, InputError
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, Pod

#: Namespace and name.
Key = tuple[str, str]

#: The backoff of a key after its first failure, and the maximum, in seconds (client-go's rate limiter); it doubles.
_BASE_DELAY, _MAX_DELAY = 0.005, 1000.0

#: Errors after which a key is retried: the cluster rejected a write, or an object, time or number is invalid.
_RETRIED_ERRORS = (ClusterError, InputError, ValueError, ArithmeticError)

_log = logging.getLogger(__name__)


def key_of(subject: ApiObject) -> Key:
    return subject.metadata.namespace, subject.metadata.name


def group_key_of(pod: Pod) -> Key | None:
    """Return the namespace and the name of the PodGroup that a pod names."""
    group = pod.spec.scheduling_group
    return None if group is None or not group.pod_group_name else (pod.metadata.namespace, group.pod_group_name)


class WorkQueue:
    """Keys to reconcile, each at most once, in the order in which they were added or become due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wake = asyncio.Event()
        self._ready: dict[Key, None] = {}
        self._delayed: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []  # some out of date
        self._failures: dict[Key, int] = {}

    @property
    def idle(self) -> bool:
        return not self._ready and not self._delayed

    @property
    def is_due(self) -> bool:
        return bool(self._ready)

    def add(self, key: Key) -> None:
        self._ready[key] = None
        self._wake.set()

    def add_after(self, key: Key, seconds: float) -> None:
        """Enqueue a key after some seconds, or earlier if it is already due earlier."""
        due = self._clock.now() + seconds
        if due < self._delayed.get(key, float("inf")):
            self._delayed[key] = due
            heapq.heappush(self._heap, (due, key))
            self._wake.set()

    def add_rate_limited(self, key: Key) -> None:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self.add_after(key, min(_BASE_DELAY * 2 ** min(failures - 1, 32), _MAX_DELAY))

    def forget(self, key: Key) -> None:
        self._failures.pop(key, None)

    def pop(self) -> Key | None:
        """Remove and return the next key that is due; None if there is none.

        Its later deadline is dropped and must be set again: an old one would keep a finished simulation running.
        """
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            due, delayed = heapq.heappop(self._heap)
            if self._delayed.get(delayed) == due:
                del self._delayed[delayed]
                self._ready[delayed] = None
        key = next(iter(self._ready), None)
        if key is not None:
            del self._ready[key]
            self._delayed.pop(key, None)
        return key

    async def wait(self) -> None:
        if not self._ready:
            while self._heap and self._delayed.get(self._heap[0][1]) != self._heap[0][0]:
                heapq.heappop(self._heap)
            await wait_until(self._heap[0][0] if self._heap else None, self._wake, self._clock)
        self._wake.clear()


async def wait_until(due: float | None, event: asyncio.Event, clock: Clock) -> None:
    """Wait for an event, or until a time at the latest; then the event is set."""
    timer = None
    if due is not None:
        timer = asyncio.get_running_loop().call_later(max(0.0, due - clock.now()), event.set)
    try:
        await event.wait()
    finally:
        if timer is not None:
            timer.cancel()


class MemoryController(ABC):
    """A controller of a cluster in memory: it watches some kinds, and reacts to their changes."""

    #: The kinds that it watches.
    kinds: ClassVar[tuple[type[ApiObject], ...]] = ()

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._wake = asyncio.Event()
        #: Called when all is done that can be done.
        self.on_idle: Callable[[], None] = lambda: None

    @property
    @abstractmethod
    def idle(self) -> bool:
        """Whether nothing is left to do until something changes."""

    @abstractmethod
    def _receive(self, change: Change) -> None:
        """Record a change for later: a subscriber must not write."""

    @abstractmethod
    def _work(self) -> None:
        """Do all that is due."""

    async def run(self) -> None:
        stop = self._subscribe()
        try:
            while True:
                self._wake.clear()
                self._work()
                if self.idle:
                    self.on_idle()
                await self._wait()
        finally:
            stop()

    def _subscribe(self) -> Callable[[], None]:
        stop = self._cluster.subscribe(self.kinds, self._receive)
        for kind in self.kinds:
            for subject in self._cluster.objects(kind):
                self._receive(Change(0, None, subject))
        return stop

    async def _wait(self) -> None:
        await self._wake.wait()


class ControlLoop(MemoryController):
    """A controller that reconciles the actual state with the desired one, key by key.

    It is notified of each change during the write, and may itself write only while it reconciles. If the cluster
    rejects a write, or an object is invalid, the key is retried, later each time.
    """

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(cluster)
        self._clock = clock
        self._queue = WorkQueue(clock)

    @property
    def idle(self) -> bool:
        return self._queue.idle

    @abstractmethod
    def _affected_keys(self, change: Change) -> Iterable[Key]:
        """Return the keys to reconcile after a change."""

    @abstractmethod
    def _reconcile(self, key: Key) -> None:
        """Reconcile a key; its object may be deleted."""

    def _requeue_at(self, key: Key, times: Iterable[float], now: float) -> None:
        """Enqueue a key for the first of these times that is after `now`."""
        later = [time - now for time in times if time > now]
        if later:
            self._queue.add_after(key, min(later))

    async def _wait(self) -> None:
        await self._queue.wait()

    def _work(self) -> None:
        while (key := self._queue.pop()) is not None:
            try:
                self._reconcile(key)
            except _RETRIED_ERRORS as error:
                _log.warning("%s %s: %s", type(self).__name__, "/".join(key), error)
                self._queue.add_rate_limited(key)
            else:
                self._queue.forget(key)

    def _receive(self, change: Change) -> None:
        for key in self._affected_keys(change):
            self._queue.add(key)
