"""The loop that all controllers share: reconcile what has changed, and retry what failed.

A controller is level-triggered: it reconciles a subject from the current objects. It may be cancelled after any call
and started again, and a repeated event does no harm.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, TypeVar, cast

import anyio
import msgspec

from kframework import Clock, ClusterError, Watch
from kframework.engine import Cluster, Deleted, Message, Synced, Upserted
from kframework.objects import ApiObject, ApiStruct, kind_of

T = TypeVar("T", bound=ApiObject)

#: The kind of an object, its namespace and its name.
_ObjectKey = tuple[type[ApiObject], str, str]

#: The number of deleted objects that are remembered: a response may arrive after the watch reported the deletion.
_MAX_DELETED = 10_000


class Mirror:
    """The objects that a controller watches, and the results of its own writes: the latest version of each.

    A deleted object does not return with an older version.
    """

    def __init__(self, subjects: Callable[[ApiObject], Iterable[str]]) -> None:
        self._subjects = subjects
        self._objects: dict[_ObjectKey, ApiObject] = {}
        self._by_subject: dict[str, dict[_ObjectKey, None]] = {}
        self._deleted: dict[str, ApiObject] = {}  # by uid, as it was seen last

    def find(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        return cast("T | None", self._objects.get((kind, namespace, name)))

    def for_subject(self, subject: str, kind: type[T]) -> list[T]:
        """List the objects of a kind that concern a subject, in the order in which they came to do so."""
        keys = self._by_subject.get(subject, {})
        return [cast("T", self._objects[key]) for key in keys if key[0] is kind]

    def put(self, obj: ApiObject) -> ApiObject | None:
        """Store an object and return the previous version, or the object itself if it is not new."""
        key = _object_key(obj)
        old = self._objects.get(key)
        last = self._deleted.get(obj.metadata.uid, old)
        if last is not None and not _is_newer(obj, last):
            return obj
        self._deleted.pop(obj.metadata.uid, None)
        self._objects[key] = obj
        before, now = set(self._subjects(old)) if old is not None else set(), dict.fromkeys(self._subjects(obj))
        for subject in before - now.keys():
            self._unlink(subject, key)
        for subject in now:
            self._by_subject.setdefault(subject, {})[key] = None
        return old

    def drop(self, obj: ApiObject) -> ApiObject:
        """Forget an object, known by name and uid, unless another has taken its place; return its last version."""
        key = _object_key(obj)
        known = self._objects.get(key, obj)
        last = known if known.metadata.uid == obj.metadata.uid else obj
        self._deleted[last.metadata.uid] = last
        if len(self._deleted) > _MAX_DELETED:
            del self._deleted[next(iter(self._deleted))]
        if self._objects.get(key) is last:
            del self._objects[key]
            for subject in set(self._subjects(last)):
                self._unlink(subject, key)
        return last

    def _unlink(self, subject: str, key: _ObjectKey) -> None:
        keys = self._by_subject[subject]
        del keys[key]
        if not keys:
            del self._by_subject[subject]


def _object_key(obj: ApiObject) -> _ObjectKey:
    return type(obj), obj.metadata.namespace, obj.metadata.name


def _is_newer(obj: ApiObject, old: ApiObject) -> bool:
    version, known = obj.metadata.resource_version, old.metadata.resource_version
    if obj.metadata.uid != old.metadata.uid or not (version.isdecimal() and known.isdecimal()):
        return version != known
    return int(version) > int(known)


_log = logging.getLogger(__name__)

#: What failed is tried again after the first of these, then after twice as long each time, up to the last; seconds.
_FIRST_BACKOFF, _LAST_BACKOFF = 0.1, 60.0
#: Statuses that a retry would only repeat, unless an object changes.
_PERMANENT_ERRORS = (400, 403, 422)


class Reconciler(ABC):
    """A loop that reconciles subjects, such as a queue, or a job with its pods; each controller names its own."""

    #: What it watches, and what it does to it.
    watches: ClassVar[tuple[Watch, ...]]
    #: What it reads one by one, without watching it, and what it does to it.
    reads: ClassVar[tuple[Watch, ...]] = ()

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self.cluster: Cluster = cluster
        self.clock: Clock = clock
        self.mirror: Mirror = Mirror(self.subjects)
        #: Called when all is done that can be done.
        self.on_idle: Callable[[], None] = lambda: None
        self._synced = False
        self._busy = False
        self._wake = asyncio.Event()
        self._queue: dict[str, None] = {}  # subjects to be looked at, in order
        self._failures: dict[str, int] = {}  # how often a subject has failed in a row
        self._retrying: set[str] = set()  # those of them that should do better next time
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._awaited: set[str] = set()  # subjects that will change when their time comes

    @property
    def kinds(self) -> tuple[type[ApiObject], ...]:
        return tuple(watch.kind for watch in self.watches)

    @abstractmethod
    def subjects(self, obj: ApiObject) -> Iterable[str]:
        """Name the subjects that an object concerns."""

    @abstractmethod
    async def reconcile(self, subject: str) -> None:
        """Put a subject in order; what it raises is logged, and a ClusterError is tried again."""

    def permanent_subjects(self) -> Iterable[str]:
        return ()

    def is_relevant(self, old: ApiObject, new: ApiObject) -> bool:
        """Return whether this change of an object can change anything for those whom it concerns."""
        return True

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do until something changes, or the time comes for something to be cleaned up."""
        return self._synced and not (self._busy or self._queue or self._retrying or self._awaited)

    async def run(self) -> None:
        """Watch the cluster and keep it in order until cancelled."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._work)
                await self.cluster.watch(self.kinds, self._receive, ended_pods=True)
        finally:
            for timer in self._timers.values():
                timer.cancel()

    # -- for those who reconcile -----------------------------------------------------------------------------------

    def requeue_after(self, subject: str, seconds: float) -> None:
        """Reconcile the subject again after this many seconds, unless it is reconciled before that."""
        self._timers[subject] = asyncio.get_running_loop().call_later(seconds, self._enqueue, subject)

    def expect_after(self, subject: str, seconds: float) -> None:
        """Reconcile the subject again after this many seconds, and count as busy until then."""
        self._awaited.add(subject)
        self.requeue_after(subject, seconds)

    async def create(self, obj: ApiObject) -> bool:
        """Create an object; False if there is one of its name already, seen or not yet seen, which is left as it is."""
        try:
            self._apply(await self.cluster.create(obj))
        except ClusterError as error:
            if error.reason != "AlreadyExists":
                raise
            return False
        return True

    async def annotate(self, obj: ApiObject, key: str, text: str) -> None:
        """Annotate the object if its uid still matches; without a change there is no call."""
        if obj.metadata.annotations.get(key) != text:
            patch = {"metadata": {"uid": obj.metadata.uid, "annotations": {key: text}}}
            self._apply(await self.cluster.patch(type(obj), obj.metadata.name, patch, obj.metadata.namespace))

    async def patch_spec(self, obj: ApiObject, patch: Mapping[str, object]) -> None:
        """Merge-patch the spec of the very object; with nothing to change there is no call."""
        if patch:
            whole = {"metadata": {"uid": obj.metadata.uid}, "spec": patch}
            self._apply(await self.cluster.patch(type(obj), obj.metadata.name, whole, obj.metadata.namespace))

    async def patch_status(self, obj: ApiObject, patch: Mapping[str, object]) -> None:
        """Merge-patch the status of the very object; with nothing to change there is no call."""
        if patch:
            name, namespace, uid = obj.metadata.name, obj.metadata.namespace, obj.metadata.uid
            self._apply(await self.cluster.patch_status(type(obj), name, patch, namespace, uid=uid))

    async def delete(self, obj: ApiObject) -> None:
        await delete_if_exists(self.cluster, obj)

    # -- the loop --------------------------------------------------------------------------------------------------

    def _receive(self, message: Message) -> None:
        """Queue a change for later: no write may happen while the cluster delivers it."""
        match message:
            case Upserted(obj=obj):
                self._apply(obj)
            case Deleted(obj=obj):
                for subject in self.subjects(self.mirror.drop(obj)):
                    self._enqueue(subject)
            case Synced():
                self._synced = True
                for subject in self.permanent_subjects():
                    self._enqueue(subject)
                self._wake.set()

    def _apply(self, obj: ApiObject) -> None:
        old = self.mirror.put(obj)
        if old is obj or (old is not None and not self.is_relevant(old, obj)):
            return
        for subject in (*(self.subjects(old) if old is not None else ()), *self.subjects(obj)):
            self._enqueue(subject)

    def _enqueue(self, subject: str) -> None:
        self._queue[subject] = None
        self._wake.set()

    async def _work(self) -> None:
        while True:
            self._wake.clear()
            while self._synced and self._queue:
                self._busy = True
                subject = next(iter(self._queue))
                del self._queue[subject]
                await self._reconcile_one(subject)
                await asyncio.sleep(0)  # a cluster in memory never lets others have their turn
            self._busy = False
            if self.idle:
                self.on_idle()
            await self._wake.wait()

    async def _reconcile_one(self, subject: str) -> None:
        self._awaited.discard(subject)
        timer = self._timers.pop(subject, None)
        if timer is not None:
            timer.cancel()
        try:
            await self.reconcile(subject)
        except ClusterError as error:
            failures = self._failures[subject] = self._failures.get(subject, 0) + 1
            if error.status in _PERMANENT_ERRORS:  # a retry would delay other work
                self._retrying.discard(subject)
                delay = _LAST_BACKOFF
            else:
                self._retrying.add(subject)
                delay = min(_FIRST_BACKOFF * 2 ** min(failures - 1, 30), _LAST_BACKOFF)
            level = logging.WARNING if failures == 1 else logging.DEBUG
            _log.log(level, "%s %s: %s (again in %g s)", type(self).__name__, self._describe(subject), error, delay)
            self.requeue_after(subject, delay)
            return
        except Exception:  # one bad object must not stop the others
            _log.exception("%s %s is left as it is until it changes", type(self).__name__, self._describe(subject))
        self._failures.pop(subject, None)
        self._retrying.discard(subject)

    def _describe(self, subject: str) -> str:
        """Name the objects of a subject for a log."""
        objects = [obj for kind in self.kinds for obj in self.mirror.for_subject(subject, kind)]
        if not objects:
            return subject
        first = objects[0]
        prefix = f"{first.metadata.namespace}/" if first.metadata.namespace else ""
        return f"{kind_of(first).name} {prefix}{first.metadata.name}"


async def delete_if_exists(cluster: Cluster, obj: ApiObject) -> None:
    try:
        await cluster.delete(type(obj), obj.metadata.name, obj.metadata.namespace, uid=obj.metadata.uid)
    except ClusterError as error:
        if error.status != 404:
            raise


def merge_patch(old: ApiStruct, new: ApiStruct) -> dict[str, object]:
    """Return the patch that makes the new of the old, {} if they are equal."""
    return _difference(msgspec.to_builtins(old), msgspec.to_builtins(new))


def _difference(old: Mapping[str, object], new: Mapping[str, object]) -> dict[str, object]:
    patch: dict[str, object] = {key: None for key in old if key not in new}
    for key, value in new.items():
        was = old.get(key)
        if isinstance(value, Mapping) and isinstance(was, Mapping):
            inner = _difference(cast("Mapping[str, object]", was), cast("Mapping[str, object]", value))
            if inner:
                patch[key] = inner
        elif was != value:
            patch[key] = value
    return patch
