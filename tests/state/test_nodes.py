"""The node table: what a Node update changes, rows that are reused, columns that appear on demand."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kframework.errors import StaleNodeError
from kframework.objects import ContainerImage, Node, NodeCondition, NodeStatus
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeInfo, NodeTable, is_heartbeat
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.testing import make_node, make_pod
from tests.support.objects import node, pod, taint


def table(*nodes: Node, capacity: int = 64) -> NodeTable:
    """Make a table of these nodes."""
    made = NodeTable(capacity)
    for each in nodes:
        made.put(each)
    return made


def changed(of: Node, part: str, **fields: object) -> Node:
    """Change fields of a node's metadata, spec or status."""
    return msgspec.structs.replace(of, **{part: msgspec.structs.replace(getattr(of, part), **fields)})


def named(nodes: NodeTable, name: str) -> NodeInfo:
    """Return a node that is there."""
    info = nodes.find(name)
    assert info is not None
    return info


READY = NodeCondition(type="Ready", status="True", last_heartbeat_time="2026-01-01T00:00:00Z")
NODE = changed(node("a", zone="z", taints=(taint("spot"),)), "status", conditions=(READY,))


def test_columns_mirror_the_node() -> None:
    nodes = table(node("a", {"cpu": "1500m", "memory": "1Gi", "pods": "9"}, unschedulable=True))
    row = nodes.row("a")
    assert row is not None
    info = nodes[row]
    assert (info.allocatable("cpu"), info.allocatable("memory"), info.allocatable("pods")) == (1500, 2**30, 9)
    assert nodes.allocatable("cpu")[row] == 1500
    assert nodes.unschedulable.cells[row] == 1
    assert info.unschedulable
    assert info.table is nodes


def test_absent_things_are_none_or_zero_or_raise() -> None:
    nodes = table(node("a"))
    assert nodes.row("b") is None
    assert nodes.find("b") is None
    assert "b" not in nodes
    assert named(nodes, "a").allocatable("example.com/gpu") == 0
    assert named(nodes, "a").requested("example.com/gpu") == 0
    nodes.remove("a")
    with pytest.raises(IndexError, match="row 0 holds no node"):
        nodes[0]
    assert nodes.remove("a") is None


def test_order_is_rebuilt_only_when_the_set_of_nodes_changes() -> None:
    nodes = table(node("a", zone="x"), node("b", zone="x"), node("c", zone="y"))
    assert [info.name for info in nodes] == ["a", "c", "b"]
    nodes.put(node("b", zone="y"))
    assert [info.name for info in nodes] == ["a", "c", "b"]
    nodes.put(node("d", zone="x"))
    assert [info.name for info in nodes] == ["a", "c", "d", "b"]


def test_row_has_the_zone_of_its_node() -> None:
    nodes = table(node("a", zone="x"), node("b", zone="x"))
    nodes.put(node("b", zone="y"))
    assert [nodes.zone(row) for row in range(2)] == [("r", "x"), ("r", "y")]


#: Another value for every field of a node's status: all that is read of it is scheduled by, so none is a heartbeat.
OTHER_STATUS: dict[str, object] = {
    "capacity": {"cpu": "1"},
    "allocatable": {"cpu": "1"},
    "conditions": (NodeCondition(type="Ready", status="Unknown"),),
    "images": (ContainerImage(names=("nginx",), size_bytes=1),),
    "declared_features": ("GuaranteedQoSPodCPUResize",),
}


def test_every_field_of_a_status_is_known_to_be_a_change() -> None:
    assert set(OTHER_STATUS) == set(NodeStatus.__struct_fields__), (
        "say in state/nodes.py, and here, what a change of it is"
    )


@pytest.mark.parametrize(
    "newer",
    [
        NODE,
        changed(NODE, "metadata", resource_version="2"),
        changed(NODE, "metadata", generation=3),
        changed(
            NODE, "status", conditions=(msgspec.structs.replace(READY, last_heartbeat_time="2027-01-01T00:00:00Z"),)
        ),
        changed(NODE, "status", conditions=(msgspec.structs.replace(READY, message="still posting"),)),
    ],
)
def test_heartbeat_is_no_change_but_the_object_is_kept(newer: Node) -> None:
    nodes = table(NODE)
    ends = nodes.node_log.end, nodes.pod_log.end
    assert is_heartbeat(NODE, newer)
    assert nodes.put(newer) is NODE
    assert (nodes.node_log.end, nodes.pod_log.end) == ends
    assert named(nodes, "a").object is newer


@pytest.mark.parametrize(
    "newer",
    [
        changed(NODE, "metadata", labels={"x": "y"}),
        changed(NODE, "metadata", annotations={"x": "y"}),
        changed(NODE, "metadata", uid="another"),
        changed(NODE, "metadata", deletion_timestamp="2026-01-01T00:00:00Z"),
        changed(NODE, "spec", unschedulable=True),
        changed(NODE, "spec", taints=()),
        changed(NODE, "spec", taints=(taint("spot", time_added="2026-01-01T00:00:00Z"),)),
        *(changed(NODE, "status", **{field: other}) for field, other in OTHER_STATUS.items()),
        changed(NODE, "status", conditions=(msgspec.structs.replace(READY, status="False"),)),
        changed(NODE, "status", conditions=()),
    ],
)
def test_change_is_noted_in_both_logs(newer: Node) -> None:
    nodes = table(NODE)
    ends = nodes.node_log.end, nodes.pod_log.end
    assert not is_heartbeat(NODE, newer)
    nodes.put(newer)
    row = nodes.row("a")
    assert (nodes.node_log.since(ends[0]), nodes.pod_log.since(ends[1])) == ([row], [row])


def test_pod_is_noted_in_the_pod_log_only() -> None:
    nodes = table(node("a"), node("b"))
    info = PodInfo(pod("p", {"cpu": "1"}), TemplateInterner())
    ends = nodes.node_log.end, nodes.pod_log.end
    nodes.add_pod(info, 1)
    nodes.remove_pod(info)
    assert (nodes.node_log.since(ends[0]), nodes.pod_log.since(ends[1])) == ([], [1, 1])


def test_touch_is_noted_in_both_logs() -> None:
    nodes = table(node("a"))
    ends = nodes.node_log.end, nodes.pod_log.end
    nodes.mark_changed(0)
    assert (nodes.node_log.since(ends[0]), nodes.pod_log.since(ends[1])) == ([0], [0])


def test_freed_row_is_reused_and_holds_nothing_of_its_past() -> None:
    nodes = table(node("a", {"cpu": "8", "example.com/gpu": "4"}, labels={"disk": "ssd"}, taints=(taint("spot"),)))
    nodes.label("disk")
    nodes.add_pod(PodInfo(pod("p", {"cpu": "1", "example.com/gpu": "2"}), TemplateInterner()), 0)
    generation = nodes.generation
    removed = nodes.remove("a")
    assert removed is not None
    assert [(left.uid, left.row) for left in removed[1]] == [("p", -1)]
    nodes.put(node("b", {"cpu": "2"}))
    assert (nodes.row("b"), nodes.size, nodes.generation) == (0, 1, generation + 2)
    info = nodes[0]
    assert (info.allocatable("cpu"), info.allocatable("example.com/gpu")) == (2000, 0)
    assert (info.requested("cpu"), info.requested("example.com/gpu"), info.requested("pods")) == (0, 0, 0)
    assert nodes.label("disk").cells[0] == 0
    assert nodes.taint_sets.meanings[nodes.taint_sets.cells[0]] == ()
    assert list(info.pods) == []


@pytest.mark.parametrize(
    "use",
    [
        lambda info: info.row,
        lambda info: info.object,
        lambda info: info.table,
        lambda info: info.labels,
        lambda info: info.annotations,
        lambda info: info.taints,
        lambda info: info.unschedulable,
        lambda info: info.pods,
        lambda info: info.allocatable("cpu"),
        lambda info: info.requested("cpu"),
    ],
)
def test_stale_node_answers_nothing(use: Callable[[NodeInfo], object]) -> None:
    nodes = table(node("a"))
    info = nodes[0]
    use(info)
    nodes.remove("a")
    nodes.put(node("b"))
    with pytest.raises(StaleNodeError, match="node 'a' was removed"):
        use(info)


def test_every_public_attribute_of_a_node_is_tried_above() -> None:
    public = {name for name in dir(NodeInfo) if not name.startswith("_")}
    tried = {
        "row",
        "object",
        "table",
        "labels",
        "annotations",
        "taints",
        "unschedulable",
        "pods",
        "allocatable",
        "requested",
    }
    assert public - tried == {"name"}


def test_stale_node_knows_its_name() -> None:
    nodes = table(node("a"))
    info = nodes[0]
    nodes.remove("a")
    assert info.name == "a"
    assert repr(info) == "<NodeInfo a removed>"
    assert isinstance(info, NodeInfo)


def test_node_that_comes_back_is_another() -> None:
    nodes = table(node("a"))
    info = nodes[0]
    nodes.remove("a")
    nodes.put(node("a"))
    with pytest.raises(StaleNodeError):
        info.labels  # noqa: B018  # reading it raises
    assert nodes[0].labels == {}


def test_table_grows_with_all_its_columns() -> None:
    nodes = table(node("a", labels={"disk": "ssd"}), capacity=1)
    own, label = nodes.column("own"), nodes.label("disk")
    own.cells[0] = 7
    for n in range(4):
        nodes.put(node(f"b{n}", labels={"disk": "hdd"}))
    assert nodes.capacity == 8
    assert nodes.node_log.limit == nodes.pod_log.limit == 8
    assert {len(column.values) for column in nodes._columns()} == {8}
    assert own.cells[0] == 7
    assert [label.meanings[code] for code in label.cells[:5]] == ["ssd", "hdd", "hdd", "hdd", "hdd"]


def test_label_column_is_made_on_demand_and_kept_current() -> None:
    nodes = table(node("a", labels={"disk": "ssd"}), node("b"))
    disk = nodes.label("disk")
    assert [disk.meanings[code] for code in disk.cells[:2]] == ["ssd", None]
    nodes.put(node("a"))
    nodes.put(node("b", labels={"disk": "hdd"}))
    nodes.put(node("c", labels={"disk": "ssd"}))
    assert [disk.meanings[code] for code in disk.cells[:3]] == [None, "hdd", "ssd"]
    assert nodes.label("disk") is disk


def test_empty_label_value_is_not_an_absent_label() -> None:
    nodes = table(node("a", labels={"gpu": ""}), node("b"))
    gpu = nodes.label("gpu")
    assert gpu.cells[0] != gpu.cells[1] == 0


def test_equal_taints_share_a_set_whenever_they_were_added() -> None:
    early, late = (taint("spot", time_added=f"202{n}-01-01T00:00:00Z") for n in (1, 2))
    nodes = table(
        node("a", taints=(early,)),
        node("b", taints=(late,)),
        node("c"),
        node("d", taints=(taint("spot", "NoExecute"),)),
    )
    codes = nodes.taint_sets.cells[:4].tolist()
    assert codes == [1, 1, 0, 2]
    assert nodes.taint_sets.meanings == [(), (taint("spot"),), (taint("spot", "NoExecute"),)]
    assert nodes[0].taints == (early,)


def test_scalar_resource_may_appear_later_on_a_node_or_a_pod() -> None:
    nodes = table(node("a"))
    nodes.put(node("b", {"cpu": "4", "example.com/gpu": "2"}))
    assert nodes.allocatable("example.com/gpu")[:2].tolist() == [0, 2]
    nodes.add_pod(PodInfo(pod("p", {"example.com/nic": "3"}), TemplateInterner()), 0)
    assert nodes.requested("example.com/nic")[:2].tolist() == [3, 0]
    assert nodes[0].allocatable("example.com/nic") == 0


def test_resource_that_a_node_stops_offering_is_zero() -> None:
    nodes = table(node("a", {"cpu": "4", "example.com/gpu": "2"}))
    nodes.put(node("a", {"cpu": "4"}))
    assert nodes[0].allocatable("example.com/gpu") == 0


def test_requests_are_counted_up_and_down() -> None:
    nodes = table(node("a"))
    one, two = (PodInfo(pod(uid, {"cpu": "1"}), TemplateInterner()) for uid in ("p", "q"))
    nodes.add_pod(one, 0)
    nodes.add_pod(two, 0)
    nodes.remove_pod(one)
    info = nodes[0]
    assert (info.requested("cpu"), info.requested("memory"), info.requested("pods")) == (1000, 0, 1)
    assert (nodes.non_zero_cpu.cells[0], nodes.non_zero_memory.cells[0]) == (1000, 200 * 2**20)
    assert [on.uid for on in info.pods] == ["q"]
    assert repr(info) == "<NodeInfo a 1 pods, 1000m of 4000m cpu>"


def test_replaced_node_keeps_its_place_until_it_is_settled() -> None:
    nodes = table(node("a", zone="x"), node("b", zone="x"), node("c", zone="y"))
    nodes.replace(0, node("a", zone="y"))
    nodes.put(node("d", zone="x"))
    assert [info.name for info in nodes] == ["a", "c", "b", "d"]
    nodes.update_order(0)
    nodes.put(node("e", zone="y"))
    assert [info.name for info in nodes] == ["b", "c", "d", "a", "e"]


def test_resources_and_labels_without_a_node_are_dropped() -> None:
    state = ClusterState()
    nodes = state.nodes
    stays, zone = make_node("stays", zone="a", allocatable={"example.com/old": 1}), "topology.kubernetes.io/zone"
    state.put_node(stays)
    nodes.label(zone)
    for n in range(3000):
        changing = make_node(
            "changes", zone=f"z{n}", taints=[f"dedicated=t{n}:NoSchedule"], allocatable={f"example.com/r{n}": 2}
        )
        state.put_node(msgspec.structs.replace(changing, status=_declaring(changing, f"feature-{n}")))
        nodes.allocatable(f"example.com/wanted-{n}")
        row = nodes.row("changes")
        assert row is not None
        assert nodes.label(zone).meanings[nodes.label(zone).cells[row]] == f"z{n}"
        assert [taint.value for taint in nodes.taint_sets.meanings[nodes.taint_sets.cells[row]]] == [f"t{n}"]
        assert nodes.feature_sets.meanings[nodes.feature_sets.cells[row]] == {f"feature-{n}"}
        assert nodes[row].allocatable(f"example.com/r{n}") == 2
    for column in (nodes.label(zone), nodes.taint_sets, nodes.feature_sets):
        assert len(column.meanings) < 1100
    assert len(nodes.allocatables) == len(nodes.requesteds) < 100
    first = nodes.row("stays")
    assert first is not None
    assert (nodes[first].allocatable("example.com/old"), nodes.label(zone).cells[first] > 0) == (1, True)


def test_resource_requested_by_pods_only_stays() -> None:
    state = ClusterState()
    state.put_node(make_node("a"))
    state.put_pod(make_pod("p", node_name="a", requests={"example.com/taken": 3}))
    for n in range(200):
        state.put_node(make_node("b", allocatable={f"example.com/r{n}": 2}))
    assert len(state.nodes.allocatables) < 100
    assert state.nodes[0].requested("example.com/taken") == 3
    state.remove_pod(make_pod("p").metadata.uid)
    assert state.nodes[0].requested("example.com/taken") == 0


def test_caches_do_not_outlive_a_compaction() -> None:
    state = ClusterState()
    state.put_node(make_node("a"))
    generation = state.nodes.generation
    for n in range(200):
        state.put_node(make_node("a", allocatable={f"example.com/r{n}": 2}))
    assert state.nodes.generation > generation


def _declaring(node: Node, *features: str) -> NodeStatus:
    return msgspec.structs.replace(node.status, declared_features=features)
