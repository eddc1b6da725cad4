"""What the plugins of a shadow get of the scheduler: they read the live tables, and can change none of them.

Built-in plugins keep indexes that all profiles share, as the devices in flight, so they get tables and stores
themselves; others get [read-only ones](read_only.py).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Never, TypeVar, cast

from kframework.core.engine import Engine
from kframework.core.host import Host
from kframework.core.plugin_handle import PluginHandle
from kframework.core.shadow.read_only import ReadOnlyTables, ShownPreemption, origin
from kframework.errors import FAULTS, ClusterError, format_error
from kframework.framework.cycle_state import CycleState
from kframework.framework.handle import Api, Preemption
from kframework.objects import ApiObject
from kframework.state.cluster import ClusterState
from kframework.state.columns import Column
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.objects import ObjectStore
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.statement import Statement
from kframework.state.waiting import WaitingPod
from kframework.values.status import Status

T = TypeVar("T", bound=ApiObject)
P = TypeVar("P", bound=PodInfo)
S = TypeVar("S")

_log = logging.getLogger(__name__)

#: How many notices of changed objects wait for the next decision of the shadow, at most.
MAX_NOTICES = 4096


class ShadowHost(Host):
    """The host of a shadow's plugins: it reads the API, and runs coroutines that plugins start between decisions.

    Plugins' callbacks on changes of objects wait for the next decision, as they may fail or take long.
    """

    def __init__(self, cluster: ClusterState, host: Host) -> None:
        self._cluster = cluster
        self._host = host
        #: Runs a coroutine of a plugin, given with its author, in the background.
        self.run_in_background: Callable[[Coroutine[object, object, None], str], None] = lambda work, by: work.close()
        self.is_deciding: bool = False
        #: What plugins that are not built in see of the tables.
        self.tables: ReadOnlyTables = ReadOnlyTables()
        self._notices: deque[Callable[[], None]] = deque()
        self._statement: Statement | None = None

    @property
    def api(self) -> Api:
        return ReadOnlyApi(self._host.api)

    def spawn(self, coroutine: Coroutine[object, object, None], by: str) -> None:
        if self.is_deciding:
            coroutine.close()
        else:
            self.run_in_background(coroutine, by)

    def note(self, callback: Callable[[], None]) -> None:
        """Call back before the next decision; now if too many calls wait."""
        self._notices.append(callback)
        if len(self._notices) > MAX_NOTICES:
            self.call_back()

    def call_back(self) -> None:
        """Make the calls that wait; what one raises is logged."""
        while self._notices:
            try:
                self._notices.popleft()()
            except FAULTS as error:
                _log.warning("the callback of a shadow's plugin on changed objects failed: %s", format_error(error))

    def statement(self) -> Statement:
        """Open a what-if; during a decision it is within one that is rolled back."""
        if not self.is_deciding:
            return ShadowStatement(self._cluster)
        if self._statement is None:
            self._statement = ShadowStatement(self._cluster)
            self._statement.is_held = True
        return self._statement.statement()

    def roll_back(self) -> None:
        """Roll back all what-ifs that plugins have opened in this decision, even if they committed them."""
        outer, self._statement = self._statement, None
        if outer is not None:
            while self._cluster.statements[-1] is not outer:
                self._cluster.statements[-1].rollback()
            outer.rollback()


class ShadowHandle(PluginHandle):
    """The handle of a shadow's plugin."""

    def __init__(self, engine: Engine, host: Host, profile: str, plugin: str) -> None:
        super().__init__(engine, host, profile, plugin)
        self._stores: dict[type, object] = {}

    def objects(self, kind: type[T]) -> ObjectStore[T]:
        store = super().objects(kind)
        if self._is_built_in:
            return store
        if kind not in self._stores:
            self._stores[kind] = ObservedStore(store, self._shadow_host)
        return cast("ObjectStore[T]", self._stores[kind])

    @property
    def nodes(self) -> NodeTable:
        return self._show(super().nodes)

    @property
    def pods(self) -> Mapping[str, PodInfo]:
        return self._show(super().pods)

    @property
    def pending(self) -> Mapping[str, PendingPod]:
        return self._show(super().pending)

    def nominated_pods(self, pod: PodInfo, node_name: str) -> Sequence[PodInfo]:
        return [*map(self._show, super().nominated_pods(pod, node_name))]

    def on_pod_change(self, callback: Callable[[PodInfo | None, PodInfo | None], None]) -> None:
        super().on_pod_change(self._deferred(callback))

    def on_pending_change(self, callback: Callable[[PendingPod | None, PendingPod | None], None]) -> None:
        super().on_pending_change(self._deferred(callback))

    def fits(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return super().fits(state, pod, super().nodes[node.row])

    @property
    def preemption(self) -> Preemption:
        evaluator = super().preemption
        shown = ShownPreemption(evaluator, self._shadow_host.tables)
        return evaluator if self._is_built_in else cast("Preemption", shown)

    def statement(self) -> Statement:
        return self._shadow_host.statement()

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        waiting = super().waiting_pod(uid)
        return None if waiting is None else ObservedWait(waiting)

    def waiting_pods(self) -> Iterator[WaitingPod]:
        return map(ObservedWait, super().waiting_pods())

    @property
    def _shadow_host(self) -> ShadowHost:
        return cast("ShadowHost", self._host)

    @property
    def _is_built_in(self) -> bool:
        return self._plugin not in self._shadow_host.tables.readers

    def _show(self, value: S) -> S:
        return value if self._is_built_in else self._shadow_host.tables.show(value)

    def _deferred(self, callback: Callable[[P | None, P | None], None]) -> Callable[[P | None, P | None], None]:
        if self._is_built_in:
            return callback
        return lambda old, new: self._shadow_host.note(lambda: callback(self._show(old), self._show(new)))


class ShadowStatement(Statement):
    """A what-if of a shadow's plugin, which has views of the columns that it writes to."""

    def write(self, column: Column, row: int, value: int) -> None:
        super().write(origin(column), row, value)

    def statement(self) -> Statement:
        self._check_open()
        return ShadowStatement(self._state, self)


class ObservedWait(WaitingPod):
    """A pod that waits on Permit, whose wait a shadow cannot end."""

    def __init__(self, waiting: WaitingPod) -> None:
        self._waiting = waiting

    @property
    def pod(self) -> PendingPod:
        return self._waiting.pod

    @property
    def node_name(self) -> str:
        return self._waiting.node_name

    @property
    def pending_plugins(self) -> Sequence[str]:
        return self._waiting.pending_plugins

    def allow(self, plugin: str) -> bool:
        return False

    def reject(self, plugin: str, message: str) -> bool:
        return False


class ObservedStore(ObjectStore[T]):
    """A view of a store, with indexes of its own and read-only objects; it calls back when the shadow's turn comes."""

    def __init__(self, store: ObjectStore[T], host: ShadowHost) -> None:
        super().__init__()
        self._store = store
        self._host = host
        #: The callbacks, each with the one that notes its calls.
        self._noting: list[tuple[Callable[[T | None, T | None], None], Callable[[T | None, T | None], None]]] = []

    def get(self, name: str, namespace: str = "") -> T | None:
        return self._host.tables.show(self._store.get(name, namespace))

    def latest(self, name: str, namespace: str = "") -> T | None:
        return self._host.tables.show(self._store.latest(name, namespace))

    def __iter__(self) -> Iterator[T]:
        return map(self._host.tables.show, self._store)

    def __len__(self) -> int:
        return len(self._store)

    def on_change(self, callback: Callable[[T | None, T | None], None]) -> None:
        def note(old: T | None, new: T | None) -> None:
            self._host.note(lambda: callback(self._host.tables.show(old), self._host.tables.show(new)))

        self._noting.append((callback, note))
        self._store.on_change(note)

    def stop_calling(self, callback: Callable[[T | None, T | None], None]) -> None:
        index = next(index for index, (known, _) in enumerate(self._noting) if known == callback)
        self._store.stop_calling(self._noting.pop(index)[1])


class ReadOnlyApi(Api):
    """The cluster's API without writes."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        return await self._api.get(kind, name, namespace)

    async def list(self, kind: type[T], namespace: str = "", *, labels: Mapping[str, str]) -> Sequence[T]:
        return await self._api.list(kind, namespace, labels=labels)

    def bind(self, pod: PendingPod, node_name: str) -> Awaitable[None]:
        return self._refuse()

    async def create(self, obj: T) -> T:
        return await self._refuse()

    async def patch(self, kind: type[T], name: str, patch: Mapping[str, object], namespace: str = "") -> T:
        return await self._refuse()

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
        return await self._refuse()

    async def delete(self, kind: type[ApiObject], name: str, namespace: str = "", *, uid: str = "") -> None:
        await self._refuse()

    async def _refuse(self) -> Never:
        raise ClusterError("a shadow writes nothing", status=403, reason="Forbidden")
