"""The tables equal what is rebuilt from the surviving objects, whatever happened; planted faults do not pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import settings

from kframework.objects import Node
from kframework.state.cluster import ClusterState
from kframework.state.columns import Column
from kframework.state.counters import Counters
from kframework.state.existing_terms import TermOwners, TermTally
from kframework.state.log import Log
from kframework.state.node_order import NodeOrder
from kframework.state.nodes import NodeTable
from kframework.state.pod_counts import LabelClass, PodCount
from kframework.state.pods import PodInfo
from kframework.state.topology import Topology
from tests.properties.state_machine import StateMachine, fails

TestState = StateMachine.TestCase
TestState.settings = settings(stateful_step_count=50)

append, count, write, put_node = Log.append, NodeTable._count, NodeTable._write, ClusterState.put_node
grow, add, join, put = Column.grow, NodeOrder.add, Counters.register, Topology.put


def log_another_row(log: Log[int], row: int) -> None:
    append(log, row if log.end % 5 else 0)


def count_up_only(nodes: NodeTable, pod: PodInfo, row: int, sign: int) -> None:
    count(nodes, pod, row, abs(sign))


def forget_the_counts(counters: Counters, label_class: LabelClass) -> dict[PodCount, int]:
    join(counters, label_class)
    label_class.counts = {}
    return label_class.counts


def stay_in_the_domain(topology: Topology, row: int, value: str | None) -> None:
    if not topology.cells[row] or value is None:
        put(topology, row, value)


def leave_orphans_alone(state: ClusterState, node: Node) -> Node | None:
    orphans, state._orphans = state._orphans, {}
    old = put_node(state, node)
    state._orphans = orphans
    return old


def write_no_labels(nodes: NodeTable, row: int, node: Node, old_labels: Mapping[str, str]) -> None:
    write(nodes, row, node, node.metadata.labels)


def attach_to_nobody(holders: TermOwners, tally: TermTally, weight: int) -> None:
    """Leave a tally as it is made."""


def grow_without_the_last(column: Column, capacity: int) -> None:
    last = len(column.values) - 1
    grow(column, capacity)
    if last:
        column.cells[last] = 0


def keep_the_zone(order: NodeOrder, row: int, zone: tuple[str, str]) -> None:
    if row not in order._zone_of:
        add(order, row, zone)


@pytest.mark.parametrize(
    ("owner", "name", "fault"),
    [
        (Log, "append", log_another_row),
        (NodeTable, "_count", count_up_only),
        (Counters, "register", forget_the_counts),
        (Topology, "put", stay_in_the_domain),
        (ClusterState, "put_node", leave_orphans_alone),
        (NodeTable, "_write", write_no_labels),
        (TermOwners, "attach", attach_to_nobody),
        (Column, "grow", grow_without_the_last),
        (NodeOrder, "add", keep_the_zone),
    ],
)
def test_planted_fault_is_detected(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, fault: Callable[..., object]
) -> None:
    monkeypatch.setattr(owner, name, fault)
    assert fails(StateMachine)
