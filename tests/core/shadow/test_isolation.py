"""What plugins of a shadow get of the scheduler: they read everything, and change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from kframework import ClusterError, CycleState, Handle, NodeInfo, PendingPod, Plugin, PluginArgs, Status, hookimpl
from kframework.core.host import Host
from kframework.core.shadow import isolation
from kframework.core.shadow.difference import AGREED
from kframework.core.shadow.isolation import ObservedStore, ReadOnlyApi, ShadowHost
from kframework.objects import Namespace, Node, ObjectMeta
from kframework.scheduler.cluster_api import ClusterApi
from kframework.state.cluster import ClusterState
from kframework.state.inbox import AnswersInvalidated
from kframework.state.objects import ObjectStore
from kframework.testing import make_node, make_pod
from tests.core.shadow.shadowed import only_shadow, shadowed

NAMESPACE = Namespace(metadata=ObjectMeta(name="n"))


class Curious(Plugin):
    """Try what a plugin can do with its handle, in Filter."""

    name = "Curious"
    act: Callable[[Handle, PendingPod, NodeInfo], object] = staticmethod(lambda handle, pod, node: None)

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        Curious.act(self.handle, pod, node)
        return None


def commit_removal(handle: Handle, pod: PendingPod, node: NodeInfo) -> None:
    statement = handle.statement()
    for other in [*node.pods]:
        statement.remove(other)
    statement.commit()


def leave_open(handle: Handle, pod: PendingPod, node: NodeInfo) -> None:
    handle.statement().remove(next(iter(node.pods)))


@pytest.mark.parametrize("act", [commit_removal, leave_open])
def test_what_ifs_of_a_shadow_are_undone(act: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Curious, "act", act)
    objects = [make_node("a"), make_pod("old", node_name="a", cpu="1"), make_pod("p", cpu="1")]
    enabled = "plugins: {filter: {enabled: [{name: Curious}]}}"
    simulation = shadowed(objects, enabled, plugins=[Curious]).run()
    assert only_shadow(simulation).counts[AGREED] == 1
    (node,) = simulation.scheduler.engine.cluster.nodes
    assert sorted(pod.name for pod in node.pods) == ["old", "p"]
    assert simulation.scheduler.engine.cluster.statements == []


@pytest.mark.parametrize("nodes", [("a",), ()])
def test_shadow_drops_its_own_cached_answers_alone(nodes: tuple[str, ...]) -> None:
    simulation = shadowed([make_node("a"), make_pod("p")]).run()
    engine, log = only_shadow(simulation).engine, simulation.scheduler.engine.cluster.nodes.node_log
    (cache,), logged = engine._plan_caches.values(), log.end
    assert len(cache) == 1
    engine.request(AnswersInvalidated(nodes))
    engine.catch_up()
    assert (len(cache), log.end) == (0, logged)


def test_coroutines_of_a_decision_do_not_run() -> None:
    ran: list[str] = []
    host = ShadowHost(ClusterState(), Host())

    def run(coroutine: Coroutine[object, object, None], by: str) -> None:
        ran.append(by)
        coroutine.close()

    async def work() -> None: ...

    host.run_in_background = run

    host.is_deciding = True
    host.spawn(work(), "plugin 'A'")
    assert ran == []
    host.is_deciding = False
    host.spawn(work(), "plugin 'A'")
    assert ran == ["plugin 'A'"]


def test_callbacks_wait_for_the_shadow_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[object] = []

    def raise_first(old: object, new: object) -> None:
        seen.append(new)
        if len(seen) == 1:
            raise ValueError("no")

    store, host = ObjectStore[Namespace](), ShadowHost(ClusterState(), Host())
    view = ObservedStore(store, host)
    view.on_change(raise_first)
    store.put(NAMESPACE.metadata, NAMESPACE)
    store.remove(NAMESPACE.metadata)
    assert seen == []
    host.call_back()
    assert seen == [NAMESPACE, None]
    assert "ValueError: no" in caplog.text
    view.stop_calling(raise_first)
    store.put(NAMESPACE.metadata, NAMESPACE)
    host.call_back()
    assert len(seen) == 2
    assert view.get("n") == store.get("n") == view.latest("n")
    assert [*view] == [NAMESPACE]
    assert len(view) == 1


def test_callbacks_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "MAX_NOTICES", 3)
    seen: list[int] = []
    host = ShadowHost(ClusterState(), Host())
    for number in range(5):
        host.note(lambda number=number: seen.append(number))  # type: ignore[misc]  # the number of this turn
    assert seen == [0, 1, 2, 3]


def test_view_has_indexes_of_its_own() -> None:
    store = ObjectStore[Namespace]()
    view = ObservedStore(store, ShadowHost(ClusterState(), Host()))
    assert store.index(lambda store: [store])[0] is store
    assert view.index(lambda store: [store])[0] is view


def test_api_reads_and_refuses_writes() -> None:
    class Reading(ClusterApi):
        def __init__(self) -> None:
            pass

        async def get(self, kind: object, name: str, namespace: str = "") -> Node:  # type: ignore[override]  # nodes only
            return make_node(name)

    async def use(api: ReadOnlyApi) -> None:
        assert (await api.get(Node, "a")).metadata.name == "a"
        for write in (api.create(make_node("b")), api.patch(Node, "a", {}), api.delete(Node, "a")):
            with pytest.raises(ClusterError, match="a shadow writes nothing"):
                await write

    asyncio.run(use(ReadOnlyApi(Reading())))
