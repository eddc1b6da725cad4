"""A cluster in memory, interchangeable with a real one: the client's side of `MemoryStore`, subject to faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import msgspec
from msgspec import structs

from kframework.client import api_errors, transitions
from kframework.client.cluster import NO_LABELS, Cluster
from kframework.client.event_record import EventRecord, RunEvents
from kframework.clock import Clock
from kframework.errors import ClusterError
from kframework.framework.handle import COMPLETED, Completed
from kframework.in_memory import admission
from kframework.in_memory.kind_store import Change
from kframework.in_memory.store import Data, MemoryStore
from kframework.objects import (
    KINDS,
    ApiObject,
    Event,
    Namespace,
    Pod,
    PodCondition,
    PodStatus,
    kind_of,
)
from kframework.objects.codec import decode, encode
from kframework.objects.kinds import T
from kframework.state.inbox import Bound, Deleted, Message, StatusChanged, Synced, Upserted
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates

if TYPE_CHECKING:
    from kframework.core.cycle.run import Run

A = TypeVar("A")

#: A call of a client: `Completed`, unless it has a fault or failed.
Call = Coroutine[Any, Any, A]

#: The order in which kinds are listed; those that plugins declare come after, in the order of their first request.
_KIND_ORDER = {kind.struct: position for position, kind in enumerate(KINDS)}


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of a call: it takes `delay` seconds, then fails with `error`; if `done`, only after it did its work."""

    error: ClusterError | None = None
    delay: float = 0.0
    done: bool = False


class MemoryCluster(MemoryStore, Cluster):
    """A cluster that lives in this process, as its clients see it."""

    def __init__(
        self,
        clock: Clock,
        objects: Iterable[ApiObject] = (),
        documents: Iterable[Data] = (),
        version: int = 0,
        feature_gates: FeatureGates = DEFAULT_GATES,
    ) -> None:
        super().__init__(clock, objects, documents, version, feature_gates)
        #: Called with (method, kind, namespace, name) before every call of a client; the first fault returned applies.
        self.faults: list[Callable[[str, type[ApiObject], str, str], Fault | None]] = []

    # --- Cluster: the client's side -----------------------------------------------------------------------------------

    async def watch(
        self, kinds: Collection[type[ApiObject]], offer: Callable[[Message], None], *, ended_pods: bool = False
    ) -> None:

        def visible(subject: ApiObject | None) -> ApiObject | None:
            """Return an object, None for an ended pod that counts as deleted."""
            is_over = not ended_pods and isinstance(subject, Pod) and transitions.has_ended(subject)
            return None if is_over else subject

        def receive(change: Change) -> None:
            if change.binds and change.old is not None and change.new is not None:
                offer(Bound(change.new, change.old.metadata.resource_version))
            elif (new := visible(change.new)) is not None:
                is_of_status = change.is_of_status and isinstance(new, Pod) and new.spec.node_name
                offer(StatusChanged(new) if is_of_status else Upserted(new))
            elif (old := visible(change.old)) is not None:
                offer(Deleted(old))

        ordered = sorted(kinds, key=lambda kind: _KIND_ORDER.get(kind, len(_KIND_ORDER)))
        for kind in ordered:
            await self._call("watch", kind, "", "", lambda: None)
        stop = self.subscribe(kinds, receive)
        try:
            for kind in ordered:
                for each in self.objects(kind):
                    receive(Change(0, None, each))
            offer(Synced())
            await asyncio.get_running_loop().create_future()
        finally:
            stop()

    async def follow(self, kind: type[T], name: str, namespace: str, on_change: Callable[[T | None], None]) -> None:
        await self._call("watch", kind, namespace, name, lambda: None)
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def wake(change: Change) -> None:
            loop.call_soon_threadsafe(changed.set)  # the writer may be in another thread

        stop = self.subscribe([kind], wake)
        try:
            while True:
                changed.clear()
                on_change(self.find(kind, name, namespace))
                await changed.wait()
        finally:
            stop()

    def bind(self, namespace: str, name: str, uid: str, node_name: str) -> Call[None]:
        def assign() -> None:
            self.assign(namespace, name, uid, node_name)

        return self._call("bind", Pod, namespace, name, assign)

    @property
    def can_bind_runs(self) -> bool:
        """Whether no call can fail: after a failed one, the next pods would get other nodes."""
        return not self.faults and self.admit_binding is None

    def bind_run(self, run: Run) -> dict[int, ClusterError]:
        """Bind the pods of a run at once; return the errors by position."""
        pods = zip(run.attempts, run.results, strict=True)
        return self.assign_pods((a.pod.namespace, a.pod.name, a.pod.uid, result.node) for a, result in pods)

    def record_run(self, events: RunEvents) -> bool:
        """Record that the pods of a run are bound; False if a namespace does not exist, or a call may have a fault."""
        if self.faults or any(self.find(Namespace, each) is None for each in events.namespaces):
            return False
        self.buffer_events(events)
        return True

    def patch_pod_status(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        condition: PodCondition | None = None,
        nominated_node_name: str | None = None,
    ) -> Call[None]:
        def patch() -> None:
            pod = self.read(Pod, name, namespace, uid=uid)
            status = pod.status
            if condition is not None and not _has_condition(status, condition):
                conditions = transitions.with_condition(status.conditions, condition, self.timestamp())
                status = structs.replace(status, conditions=conditions)
            if nominated_node_name is not None:
                status = structs.replace(status, nominated_node_name=nominated_node_name)
            self.set_status(pod, status)

        return self._call("patch_pod_status", Pod, namespace, name, patch)

    def record_event(self, record: EventRecord) -> Call[None]:
        namespace = record.series_key.pod.namespace
        name = record.name if self.faults else ""  # only faults need it, and it took a quarter of the call
        return self._call("record_event", Event, namespace, name, lambda: self.buffer_event(record))

    def get(self, kind: type[T], name: str, namespace: str = "") -> Call[T]:
        return self._call("get", kind, namespace, name, lambda: self.read(kind, name, namespace))

    def list(self, kind: type[T], namespace: str = "", *, labels: Mapping[str, str] = NO_LABELS) -> Call[list[T]]:
        def read() -> list[T]:
            found = self.objects(kind, namespace)
            return [each for each in found if labels.items() <= each.metadata.labels.items()] if labels else found

        return self._call("list", kind, namespace, "", read)

    def create(self, obj: T) -> Call[T]:
        metadata = obj.metadata

        def create() -> T:
            # As over the wire: a client may send, in derived structs, more than the structs of the kind read.
            return self.write(self.admit_request(decode(encode(obj), kind_of(obj))))

        return self._call("create", type(obj), metadata.namespace, metadata.name, create)

    def update(self, obj: T) -> Call[T]:
        def update() -> T:
            old = self.read(type(obj), obj.metadata.name, obj.metadata.namespace)
            admission.check_version(obj)
            return self.replace_stored(old, admission.keep_status(old, obj))

        return self._call("update", type(obj), obj.metadata.namespace, obj.metadata.name, update)

    def patch(self, kind: type[T], name: str, patch: Mapping[str, object], namespace: str = "") -> Call[T]:
        def apply() -> T:
            old = self.read(kind, name, namespace)
            new = admission.apply_patch(old, patch)
            admission.check_identity(old, new)
            return self.replace_stored(old, admission.keep_status(old, new))

        return self._call("patch", kind, namespace, name, apply)

    def patch_status(
        self,
        kind: type[T],
        name: str,
        patch: Mapping[str, object],
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
    ) -> Call[T]:
        def apply() -> T:
            admission.check_status(kind)
            old = self.read(kind, name, namespace, uid=uid)
            if resource_version not in ("", old.metadata.resource_version):
                raise api_errors.version_conflict(kind, name)
            return self.replace_stored(old, admission.apply_patch(old, {"status": patch}))

        return self._call("patch_status", kind, namespace, name, apply)

    def delete(self, kind: type[ApiObject], name: str, namespace: str = "", *, uid: str = "") -> Call[None]:
        return self._call("delete", kind, namespace, name, lambda: self.remove(kind, name, namespace, uid=uid))

    def _call(self, method: str, kind: type[ApiObject], namespace: str, name: str, work: Callable[[], A]) -> Call[A]:
        """Do the work of a call at once, or apply its fault when it is awaited."""
        fault = self._fault(method, kind, namespace, name)
        if fault is not None:
            return _apply_fault(fault, work)
        try:
            result = work()
        except ClusterError as error:
            return _raise_error(error)
        # Most calls for a pod return nothing, and their callers know the one by identity.
        return COMPLETED if result is None else Completed(result)  # type: ignore[return-value]  # None is an A, too

    def _fault(self, method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        if not self.faults:
            return None
        answers = (find_fault(method, kind, namespace, name) for find_fault in self.faults)
        return next((answer for answer in answers if answer is not None), None)


async def _apply_fault(fault: Fault, work: Callable[[], A]) -> A:
    """Do the work of a call with a fault: late, not at all, or with an error after it is done."""
    if fault.delay:
        await asyncio.sleep(fault.delay)
    if fault.error is None:
        return work()
    if fault.done:
        work()
    raise fault.error


async def _raise_error(error: ClusterError) -> NoReturn:
    raise error


def _has_condition(status: PodStatus, condition: PodCondition) -> bool:
    return any(old.type == condition.type and transitions.is_equivalent(old, condition) for old in status.conditions)
