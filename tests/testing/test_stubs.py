"""One hook is tested in two lines, with a handle that remembers what it was asked for."""

from __future__ import annotations

import gc
from typing import cast

import pytest

from kframework import (
    CycleState,
    Handle,
    NodeInfo,
    PendingPod,
    Plugin,
    PluginArgs,
    StateKey,
    Status,
    hookimpl,
    unresolvable,
    unschedulable,
)
from kframework.clock import VIRTUAL_EPOCH
from kframework.framework.handle import Api
from kframework.objects import Service
from kframework.objects.meta import ObjectMeta
from kframework.testing import make_node, make_pod, node_info, pending_pod, stub_handle

ROOM = StateKey[int]("Full")


class FullArgs(PluginArgs):
    most: int = 1


class Full(Plugin[FullArgs]):
    """Run at most this number of pods on a node, more if `pre_filter` said so."""

    name = "Full"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return unschedulable("full") if len(node.pods) >= self.args.most + (state.get(ROOM) or 0) else None

    @hookimpl
    def post_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self.handle.activate(self.handle.pending.values())
        self.handle.nominate(pod, node_name)
        self.handle.invalidate(node_name)
        self.handle.invalidate()
        self.handle.event(pod, reason="Bound", action="Binding", note="done")


def test_hook_is_called_in_two_lines() -> None:
    full = Full(FullArgs(), stub_handle())
    assert full.filter(CycleState(), pending_pod(make_pod()), node_info(make_node(), pods=[make_pod()])) is not None
    assert full.filter(CycleState(), pending_pod(make_pod()), node_info(make_node())) is None
    state = CycleState()
    state[ROOM] = 1
    assert full.filter(state, pending_pod(make_pod()), node_info(make_node(), pods=[make_pod()])) is None


def test_calls_of_the_handle_are_recorded() -> None:
    handle = stub_handle(pods=[make_pod("held")])
    pod = pending_pod(make_pod("bound"))
    Full(FullArgs(), handle).post_bind(CycleState(), pod, "a")
    assert [each.name for each in handle.activated] == ["held"]
    assert handle.nominated == [(pod, "a")]
    assert handle.invalidated == [("a",), ()]
    (event,) = handle.events
    assert (event.pod, event.reason, event.note, event.warning) == (pod, "Bound", "done", False)


@pytest.mark.slow
async def test_spawned_coroutines_may_be_awaited() -> None:
    handle, done = stub_handle(), []

    async def work() -> None:
        done.append("work")

    handle.spawn(work())
    handle.spawn(work())
    assert not done
    await handle.spawned[0]
    assert done == ["work"]
    del handle
    gc.collect()  # the other one is closed, without a warning


def test_handle_has_the_given_objects() -> None:
    service = Service(metadata=ObjectMeta(name="web", namespace="default"))
    handle = stub_handle(
        nodes=[make_node("a"), make_node("b")],
        pods=[make_pod("on", node_name="a"), make_pod("off")],
        objects=[service],
        waiting={"Gang": [make_pod("first", node_name="b")], "Other": [make_pod("second", node_name="b")]},
    )
    assert [node.name for node in handle.nodes] == ["a", "b"]
    assert {pod.name for pod in handle.pods.values()} == {"on", "first", "second"}
    assert [pod.name for pod in handle.pending.values()] == ["off"]
    assert handle.objects(Service).get("web", "default") == service
    first, second = handle.waiting_pods()
    assert (first.pod.name, first.node_name, first.pending_plugins) == ("first", "b", ("Gang",))
    assert first.allow("Gang") and second.reject("Other", "no")
    assert list(handle.waiting_pods()) == []


def test_statements_and_filters_of_a_stub_handle_are_real() -> None:
    handle = stub_handle(nodes=[make_node("a", cpu=1)])
    (node,) = handle.nodes
    large = pending_pod(make_pod(cpu=2))
    assert handle.fits(CycleState(), large, node) == unresolvable("Insufficient cpu").with_plugin("NodeResourcesFit")
    small = pending_pod(make_pod(cpu="600m"))
    assert handle.fits(CycleState(), small, node) is None
    statement = handle.statement()
    statement.add(pending_pod(make_pod("other", cpu="600m")), "a")
    assert handle.fits(CycleState(), small, node) is not None
    statement.rollback()
    assert handle.fits(CycleState(), small, node) is None


def test_clock_advances_on_demand_and_random_is_seeded() -> None:
    handle = stub_handle()
    assert handle.clock.now() == VIRTUAL_EPOCH
    handle.clock.advance(5)
    assert handle.clock.now() == VIRTUAL_EPOCH + 5
    assert handle.random.random() == stub_handle().random.random()


def test_api_exists_if_it_is_given() -> None:
    api = cast("Api", object())
    assert stub_handle(api=api).api is api
    with pytest.raises(RuntimeError, match="there is no API"):
        # To look at the attribute is what raises.
        stub_handle().api  # noqa: B018


def test_stub_implements_the_handle() -> None:
    handle: Handle = stub_handle()
    assert handle.profile_name == "default-scheduler"


def test_cluster_tables_are_read_only_for_plugins() -> None:
    handle = stub_handle(nodes=[make_node("a")], pods=[make_pod("on", node_name="a"), make_pod("off")])
    for pods in (handle.pods, handle.pending):
        with pytest.raises(AttributeError):
            pods.clear()  # type: ignore[attr-defined]  # a Mapping has none
    with pytest.raises(ValueError, match="read-only"):
        handle.nodes.allocatable("cpu")[0] = 0
    with pytest.raises(ValueError, match="read-only"):
        handle.nodes.order[0] = 0
