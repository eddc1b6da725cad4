"""A cluster at the other end of a network: requests reach it, answers and watches come back when the schedule says so.

A request may be lost before it is done, or its answer afterwards; both raise a ClusterError that says so. One that its
sender gives up before it arrives is never done, unless `late`: then it arrives all the same.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Generic, TypeVar

from kframework.client.cluster import NO_LABELS, Cluster
from kframework.client.event_record import EventRecord
from kframework.errors import ClusterError
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, PodCondition
from kframework.state.inbox import Deleted, Message, Synced, Upserted
from tests.interleavings.loop import ExploringLoop

__all__ = ["REQUEST_TIMEOUT", "DelayedCluster"]

T = TypeVar("T", bound=ApiObject)
A = TypeVar("A")

#: How long a request waits for its answer, in seconds.
REQUEST_TIMEOUT = 30.0


class DelayedCluster(Cluster):
    """What one client sees of a cluster in memory.

    `at_once` names methods whose requests are done and answered at once, so that less is to be explored.
    """

    def __init__(
        self, store: MemoryCluster, name: str = "", *, at_once: Collection[str] = ("record_event",), late: bool = False
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ExploringLoop)
        self._loop = loop
        self._store = store
        self._name = f"{name}: " if name else ""
        self._at_once = frozenset(at_once)
        self._late = late
        self._numbers: Counter[str] = Counter()
        #: The requests that were sent.
        self.sent: list[str] = []

    async def watch(
        self, kinds: Collection[type[ApiObject]], offer: Callable[[Message], None], *, ended_pods: bool = False
    ) -> None:
        synced = False

        def come(message: Message) -> None:
            nonlocal synced
            if not synced:
                offer(message)
                synced = isinstance(message, Synced)
                return
            assert isinstance(message, Upserted | Deleted)
            kind = type(message.obj).__name__
            label = f"{self._name}watch tells {message.obj.metadata.name} {type(message).__name__.lower()}"
            self._loop.offer(f"{self._name}watch {kind}", (self._numbered(label), lambda: offer(message)))

        await self._store.watch(kinds, come, ended_pods=ended_pods)

    async def follow(self, kind: type[T], name: str, namespace: str, tell: Callable[[T | None], None]) -> None:
        def come(found: T | None) -> None:
            label = f"{self._name}watch tells {name} as it is"
            self._loop.offer(f"{self._name}watch {kind.__name__}", (self._numbered(label), lambda: tell(found)))

        await self._store.follow(kind, name, namespace, come)

    async def bind(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        async def work() -> None:
            await self._store.bind(namespace, name, uid, node_name)

        await self._call("bind", f"{name} to {node_name}", work())

    async def patch_pod_status(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        condition: PodCondition | None = None,
        nominated_node_name: str | None = None,
    ) -> None:
        async def work() -> None:
            await self._store.patch_pod_status(
                namespace, name, uid, condition=condition, nominated_node_name=nominated_node_name
            )

        await self._call("patch_pod_status", name, work())

    async def record_event(self, record: EventRecord) -> None:
        async def work() -> None:
            await self._store.record_event(record)

        await self._call("record_event", record.name, work())

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        return await self._call("get", name, self._store.get(kind, name, namespace))

    async def list(self, kind: type[T], namespace: str = "", *, labels: Mapping[str, str] = NO_LABELS) -> list[T]:
        return await self._call("list", kind.__name__, self._store.list(kind, namespace, labels=labels))

    async def create(self, obj: T) -> T:
        return await self._call("create", obj.metadata.name, self._store.create(obj))

    async def update(self, obj: T) -> T:
        return await self._call("update", obj.metadata.name, self._store.update(obj))

    async def patch(self, kind: type[T], name: str, patch: Mapping[str, object], namespace: str = "") -> T:
        return await self._call("patch", name, self._store.patch(kind, name, patch, namespace))

    async def patch_status(
        self,
        kind: type[T],
        name: str,
        patch: Mapping[str, object],
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
    ) -> T:
        work = self._store.patch_status(kind, name, patch, namespace, uid=uid, resource_version=resource_version)
        return await self._call("patch_status", name, work)

    async def delete(self, kind: type[ApiObject], name: str, namespace: str = "", *, uid: str = "") -> None:
        await self._call("delete", name, self._store.delete(kind, name, namespace, uid=uid))

    async def _call(self, method: str, subject: str, work: Coroutine[object, object, A]) -> A:
        if method in self._at_once:
            return await work
        what = self._numbered(f"{self._name}{method} {subject}")
        self.sent.append(what)
        request = _Request(self._loop, what, work)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                return await request.answer
        except TimeoutError:
            raise _no_answer() from None
        finally:
            if not self._late:
                request.give_up()

    def _numbered(self, label: str) -> str:
        """Tell what is the same in words apart by a number."""
        self._numbers[label] += 1
        return label if self._numbers[label] == 1 else f"{label} ({self._numbers[label]})"


class _Request(Generic[A]):
    """A request on its way."""

    def __init__(self, loop: ExploringLoop, what: str, work: Coroutine[object, object, A]) -> None:
        self.answer: asyncio.Future[A] = loop.create_future()
        self._loop = loop
        self._what = what
        self._work = work
        self._on_its_way = loop.offer(what, (f"{what} arrives", self._arrive), (f"{what} is lost", self._lose))

    def give_up(self) -> None:
        """Let it not go on."""
        self._on_its_way.withdraw()
        self._work.close()

    def _arrive(self) -> None:
        """Do what is asked for: in memory that takes one step."""
        answer: A | ClusterError
        try:
            self._work.send(None)
        except StopIteration as returned:
            answer = returned.value
        except ClusterError as error:
            answer = error
        else:
            raise AssertionError(f"{self._what} waits for something")
        ways = (
            (f"{self._what} is answered", lambda: self._end(answer)),
            (f"the answer to {self._what} is lost", self._lose),
        )
        self._on_its_way = self._loop.offer(self._what, *ways)

    def _lose(self) -> None:
        self._work.close()
        self._end(_no_answer())

    def _end(self, answer: A | ClusterError) -> None:
        if self.answer.done():
            return
        if isinstance(answer, ClusterError):
            self.answer.set_exception(answer)
        else:
            self.answer.set_result(answer)


def _no_answer() -> ClusterError:
    return ClusterError("no answer", status=0, retryable=True)
