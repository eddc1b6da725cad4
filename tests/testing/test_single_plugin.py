"""A plugin alone has a profile without other placing plugins, and a handle that shows the tables and does nothing."""

from __future__ import annotations

import pytest

from kframework import ConfigError, CycleState, NodeInfo, Plugin, Status, hookimpl
from kframework.clock import VIRTUAL_EPOCH
from kframework.plugins.default_binder import DefaultBinder
from kframework.plugins.node_resources_fit.plugin import NodeResourcesFit
from kframework.plugins.priority_sort import PrioritySort
from kframework.state.cluster import ClusterState
from kframework.state.pods import PendingPod, QueuedPod
from kframework.testing import make_node, make_pod
from kframework.testing.single_plugin import build_profile


class OldestFirst(Plugin):
    """A queue sort of its own."""

    name = "OldestFirst"

    @hookimpl
    def queue_sort(self, queued: QueuedPod) -> float:
        return queued.timestamp


@pytest.mark.parametrize(
    ("plugin", "other_plugins"),
    [
        (NodeResourcesFit, {"PrioritySort", "DefaultBinder"}),
        (OldestFirst, {"DefaultBinder"}),
        (PrioritySort, {"DefaultBinder"}),
        (DefaultBinder, {"PrioritySort"}),
    ],
)
def test_profile_has_only_the_plugin_and_the_required_ones(plugin: type[Plugin], other_plugins: set[str]) -> None:
    profile = build_profile(plugin, {}, ClusterState())
    assert profile.plugins.keys() == {plugin.name} | other_plugins
    assert type(profile.plugins[plugin.name]) is plugin


def test_args_are_checked() -> None:
    with pytest.raises(ConfigError, match="scoringStrategies"):
        build_profile(NodeResourcesFit, {"scoringStrategies": {}}, ClusterState())


def test_handle_reads_the_tables_and_ignores_requests() -> None:
    cluster = ClusterState()
    handle = build_profile(NodeResourcesFit, {}, cluster).plugins["NodeResourcesFit"].handle
    cluster.put_node(make_node("a"))
    pod = PendingPod(make_pod(), cluster.interner)
    assert [node.name for node in handle.nodes] == ["a"]
    handle.event(pod, reason="Because", action="Doing", note="something")
    handle.nominate(pod, "a")
    assert not len(cluster.nominator)

    async def never() -> None:
        raise AssertionError("nothing is spawned")

    handle.spawn(never())
    with pytest.raises(RuntimeError, match="no API here"):
        handle.api  # noqa: B018  # reading it raises


def test_clock_is_stopped() -> None:
    handle = build_profile(NodeResourcesFit, {}, ClusterState()).plugins["NodeResourcesFit"].handle
    assert handle.clock.now() == handle.clock.now() == VIRTUAL_EPOCH


class Fickle(Plugin):
    """Reports changes of its answers."""

    name = "Fickle"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return None


def test_reported_changes_of_answers_reach_the_table_at_once() -> None:
    cluster = ClusterState()
    cluster.nodes.put(make_node("a"))
    cluster.nodes.put(make_node("b"))
    profile = build_profile(Fickle, {}, cluster)
    changes = cluster.nodes.node_log.reader()
    changes.read_new()
    profile.plugins["Fickle"].handle.invalidate("b")
    assert changes.read_new() == [cluster.nodes.row("b")]
