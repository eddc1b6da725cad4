"""What plugins of a shadow see of the shared tables: all of it, and a write to it is their fault."""

from __future__ import annotations

from collections.abc import Callable, Collection
from copy import copy

import pytest

from kframework import (
    CycleState,
    Diagnosis,
    NodeInfo,
    PendingPod,
    Plugin,
    Status,
    VictimRules,
    Watch,
    hookimpl,
    unschedulable,
)
from kframework.core.shadow.difference import AGREED, FAILED
from kframework.core.shadow.read_only import GUARD, ReadOnlyTables, origin
from kframework.objects import Namespace, ObjectMeta
from kframework.state.cluster import ClusterState
from kframework.state.pods import PodInfo
from kframework.testing import make_node, make_pod, pending_pod
from tests.core.shadow.shadowed import only_shadow, shadowed

OBJECTS = [
    make_node("a", labels={"zone": "z"}),
    make_pod("old", node_name="a", cpu="1", labels={"app": "old"}, node_selector={"zone": "z"}),
    make_pod("p", cpu="1", labels={"app": "p"}, node_selector={"zone": "z"}),
    Namespace(metadata=ObjectMeta(name="default", labels={"team": "t"})),
]


class Writing(Plugin):
    """Write to what it is given, in Filter."""

    name = "Writing"
    watches = (Watch(Namespace),)
    write: Callable[[Writing, PendingPod, NodeInfo], object] = staticmethod(lambda plugin, pod, node: None)

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        Writing.write(self, pod, node)
        return None


def other(node: NodeInfo) -> PodInfo:
    return next(iter(node.pods))


WRITES: dict[str, Callable[[Writing, PendingPod, NodeInfo], object]] = {
    "label of the node": lambda plugin, pod, node: node.labels.update(zone="y"),  # type: ignore[attr-defined]  # read-only types
    "object of the node": lambda plugin, pod, node: node.object.metadata.labels.pop("zone"),
    "name of the node": lambda plugin, pod, node: setattr(node, "name", "b"),
    "pods of the node": lambda plugin, pod, node: node._pods.clear(),
    "the table": lambda plugin, pod, node: node.table.remove("a"),
    "attribute of the table": lambda plugin, pod, node: setattr(plugin.handle.nodes, "generation", 0),
    "column of amounts": lambda plugin, pod, node: node.table.requesteds["cpu"].cells.__setitem__(0, 7),
    "values of a column": lambda plugin, pod, node: plugin.handle.nodes.non_zero_cpu.values.fill(7),
    "array of amounts": lambda plugin, pod, node: plugin.handle.nodes.requested("cpu").fill(7),
    "column of an extension": lambda plugin, pod, node: plugin.handle.nodes.column("mine").cells.__setitem__(0, 7),
    "codes of a label": lambda plugin, pod, node: plugin.handle.nodes.label("zone").code("new"),
    "array of codes": lambda plugin, pod, node: plugin.handle.nodes.label("zone").values.fill(7),
    "order": lambda plugin, pod, node: plugin.handle.nodes.order.fill(7),
    "positions": lambda plugin, pod, node: plugin.handle.nodes.positions.fill(7),
    "label of another pod": lambda plugin, pod, node: other(node).labels.update(app="x"),  # type: ignore[attr-defined]  # read-only types
    "priority of another pod": lambda plugin, pod, node: setattr(other(node), "priority", 9),
    "row of a pod by uid": lambda plugin, pod, node: setattr(plugin.handle.pods[other(node).uid], "row", 7),
    "spec of another pod": lambda plugin, pod, node: other(node).spec.node_selector.clear(),
    "pending pod": lambda plugin, pod, node: setattr(next(iter(plugin.handle.pending.values())), "priority", 9),
    "own pod": lambda plugin, pod, node: setattr(pod, "priority", 9),
    "own label": lambda plugin, pod, node: pod.labels.update(app="x"),  # type: ignore[attr-defined]  # read-only types
    "own object": lambda plugin, pod, node: pod.object.metadata.labels.update(app="x"),
    "own annotation": lambda plugin, pod, node: pod.annotations.update(a="x"),  # type: ignore[attr-defined]  # read-only types
    "own spec": lambda plugin, pod, node: pod.spec.node_selector.clear(),
    "object in a store": lambda plugin, pod, node: next(iter(plugin.handle.objects(Namespace))).metadata.labels.clear(),
}


@pytest.mark.parametrize("what", WRITES)
def test_write_is_the_fault_of_the_plugin_and_changes_nothing(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writing, "write", staticmethod(WRITES[what]))
    simulation = shadowed(OBJECTS, "plugins: {filter: {enabled: [{name: Writing}]}}", plugins=[Writing])
    cluster = simulation.scheduler.engine.cluster
    simulation.run()
    shadow = only_shadow(simulation)
    assert (shadow.counts[FAILED], shadow.counts[AGREED]) == (1, 0)
    assert "plugin 'Writing', hook filter: " in shadow.differences[0].reason
    (node,) = cluster.nodes
    assert node.labels["zone"] == "z" and node.requested("cpu") == 2000 and node.row == 0
    assert sorted((pod.name, pod.labels["app"], pod.priority) for pod in node.pods) == [
        ("old", "old", 0),
        ("p", "p", 0),
    ]
    namespace = cluster.objects(Namespace).get("default")
    assert namespace is not None and namespace.metadata.labels["team"] == "t"


class WritingNodeName(Writing):
    """Take the place of a built-in plugin."""

    name = "NodeName"


def test_plugin_in_place_of_a_built_in_one_sees_read_only_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writing, "write", staticmethod(WRITES["column of an extension"]))
    shadow = only_shadow(shadowed(OBJECTS, plugins=[WritingNodeName]).run())
    assert shadow.counts[FAILED] == 1


def test_views_read_as_what_they_show() -> None:
    cluster, tables = ClusterState(), ReadOnlyTables()
    for each in ("a", "b"):
        cluster.put_node(make_node(each, cpu=4, labels={"zone": each}))
    cluster.put_pod(make_pod("p", node_name="a", cpu="1"))
    nodes = tables.show(cluster.nodes)
    assert tables.show(nodes) is nodes is tables.show(cluster.nodes)
    assert [node.name for node in nodes] == ["a", "b"] and len(nodes) == 2 and "a" in nodes
    node = nodes.find("a")
    assert node is not None and node is nodes[0] is nodes.by_row[0] and isinstance(node, NodeInfo)
    assert (node.labels["zone"], node.requested("cpu"), len(node.pods)) == ("a", 1000, 1)
    assert nodes.requested("cpu")[:2].tolist() == [1000, 0]
    zones = nodes.label("zone")
    assert [zones.meanings[code] for code in zones.values[:2].tolist()] == ["a", "b"]
    assert zones.positions(1, nodes.order).tolist() == [0]
    column = nodes.column("mine")
    assert origin(column) is cluster.nodes.column("mine") is origin(cluster.nodes.column("mine"))


def test_pods_may_be_written_to_when_no_shadow_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ClusterState()
    cluster.put_node(make_node("a"))
    cluster.put_pod(make_pod("p", node_name="a"))
    (pod,) = cluster.pods.values()
    assert ReadOnlyTables().show(pod) is pod
    pod.priority = 7
    monkeypatch.setattr(GUARD, "is_shut", True)
    cluster.nodes.remove_pod(pod)  # on behalf of a statement
    assert (pod.priority, pod.row) == (7, -1)
    assert type(copy(pod)) is PodInfo
    waiting = ReadOnlyTables().show(pending_pod(make_pod("q")))
    assert type(copy(waiting)) is PendingPod and copy(waiting).object == waiting.object


class Evicting(Plugin):
    """Write to what preemption gives to rules and returns."""

    name = "Evicting"
    written: str = ""

    @hookimpl
    def post_filter(self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> Status | None:
        def may_evict(other: PodInfo, removed: Collection[PodInfo]) -> bool:
            if Evicting.written == "in a rule":
                other.priority = 9
            return True

        rules = VictimRules(may_evict, lambda removed: None)
        found = self.handle.preemption.candidates(state, pod, diagnosis, rules=rules)
        assert [victim.name for victim in found.candidates[0].victims] == ["old"]
        if Evicting.written == "in the result":
            found.candidates[0].victims[0].priority = 9
        return unschedulable("nothing is evicted")


@pytest.mark.parametrize("written", ["", "in a rule", "in the result"])
def test_victims_of_dry_runs_are_read_only(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Evicting, "written", written)
    objects = [make_node("a", cpu=1), make_pod("old", node_name="a", cpu="1"), make_pod("p", cpu="1", priority=5)]
    candidate = "plugins: {postFilter: {disabled: [{name: '*'}], enabled: [{name: Evicting}]}}"
    simulation = shadowed(objects, candidate, plugins=[Evicting]).run(1)
    shadow = only_shadow(simulation)
    assert bool(shadow.counts[FAILED]) is bool(written)
