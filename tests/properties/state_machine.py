"""Random histories of the cluster's tables, checked after every step against what is rebuilt from scratch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from kframework.errors import StaleNodeError
from kframework.objects import Affinity, LabelSelector, Node, Pod, PodAffinityTerm, PodAntiAffinity
from kframework.objects.label_selectors import EVERYTHING, exact_selector
from kframework.state.cluster import AssumeError, ClusterState
from kframework.state.log import Log, LogReader
from kframework.state.node_order import zone_of
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pod_counts import PodCount, Selection
from kframework.state.pods import PendingPod
from tests.properties.expected_tables import (
    ClusterObjects,
    Facts,
    NodeTree,
    actual_facts,
    expected_facts,
    node_facts,
    pod_facts,
    stale_cells,
)
from tests.support.objects import ZONE, node, pod, selection, taint

__all__ = [
    "NODES",
    "Action",
    "Reader",
    "StateMachine",
    "changes",
    "fails",
    "looks",
    "nodes_made",
    "pods_made",
    "start_of_history",
]


def anti_affinity(term: PodAffinityTerm) -> Affinity:
    """Make an affinity that keeps away from what one term is about."""
    return Affinity(pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,)))


def terminating(made: Pod, leaves: bool) -> Pod:
    """Let a pod be on its way out, or not."""
    since = "2026-01-01T00:00:00Z" if leaves else None
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, deletion_timestamp=since))


Action = tuple[str, *tuple[object, ...]]

NODES = [f"node-{n}" for n in range(4)]
UIDS = [f"pod-{n}" for n in range(4)]
LABEL_KEYS = ["disk", ZONE]
SELECTIONS: dict[str, tuple[Selection, ...]] = {
    "web": (selection("default", app="web"),),
    "all of default": (selection("default"),),
    "other web": (selection("other", app="web"),),
    "web that stays": (selection("default", terminating=False, app="web"),),
    "web of tier x": (selection("default", app="web"), Selection(None, exact_selector({"tier": "x"}))),
    "every pod": (Selection(None, EVERYTHING),),
}
#: Terms that pods hold: one that others share, one about another namespace, one in a topology of its own.
AFFINITIES = [
    None,
    anti_affinity(PodAffinityTerm(topology_key="disk", label_selector=LabelSelector(match_labels={"app": "web"}))),
    anti_affinity(PodAffinityTerm(topology_key=ZONE, label_selector=LabelSelector(), namespaces=("other",))),
]

POSSIBLE_NODES = [
    node(name, allocatable, zone=zone, labels=labels, taints=taints, unschedulable=unschedulable)
    for name in NODES
    for allocatable in (
        {"cpu": "4", "memory": "8Gi", "pods": "110"},
        {"cpu": "3900m", "memory": "8Gi", "pods": "10"},
        {"cpu": "8", "memory": "16Gi", "pods": "110", "example.com/gpu": "2"},
    )
    for zone in (None, "a", "b")
    for labels in ({}, {"disk": "ssd"}, {"disk": "hdd"})
    for taints in ((), (taint("spot"),), (taint("spot", time_added="2026-01-01T00:00:00Z"), taint("arm")))
    for unschedulable in (False, True)
]
POSSIBLE_PODS = [
    terminating(pod(uid, requests, namespace=namespace, labels=labels, affinity=affinity), leaves)
    for uid in UIDS
    for requests in ({}, {"cpu": "1", "memory": "1Gi"}, {"cpu": "1500m"}, {"example.com/gpu": "1", "memory": "1"})
    for namespace in ("default", "other")
    for labels in ({}, {"app": "web"}, {"app": "web", "tier": "x"}, {"app": "db"})
    for affinity in AFFINITIES
    for leaves in (False, True)
]
# One draw for a whole object: a history is made of many.
nodes_made = st.integers(0, len(POSSIBLE_NODES) - 1).map(lambda n: POSSIBLE_NODES[n])
pods_made = st.integers(0, len(POSSIBLE_PODS) - 1).map(lambda n: POSSIBLE_PODS[n])
names = st.sampled_from(NODES)
uids = st.sampled_from(UIDS)
looks = st.tuples(st.just("look"), st.sampled_from([*LABEL_KEYS, *SELECTIONS]))
#: Names of methods of the machine, with arguments.
changes = st.one_of(
    st.tuples(st.just("put_node"), nodes_made),
    st.tuples(st.just("beat"), names),
    st.tuples(st.just("remove_node"), names),
    st.tuples(st.just("put_pod"), pods_made, names),
    st.tuples(st.just("put_pod"), pods_made, names),
    st.tuples(st.just("tell_again"), uids, st.sampled_from([None, "2026-01-01T00:00:00Z"])),
    st.tuples(st.just("remove_pod"), uids),
    st.tuples(st.just("assume"), pods_made, names),
    st.tuples(st.just("forget"), uids),
    looks,
)
start_of_history = initialize(
    nodes=st.lists(nodes_made, min_size=3, max_size=6),
    pods=st.lists(st.tuples(pods_made, names), max_size=5),
)


@dataclass
class Reader:
    """Keeps a copy of what the rows of the table say, and reads again only the rows that a log names."""

    log: Log[int]
    reads_pods: bool
    #: So many steps lie between two readings.
    every: int
    reader: LogReader[int] = field(init=False)
    copies: dict[int, Facts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reader = self.log.reader()

    def catch_up(self, nodes: NodeTable) -> None:
        """Read again what the log says has changed; then the copies are the truth."""
        rows = self.reader.read_new()
        truth = {info.row: self._facts(info) for info in nodes}
        for row in truth if rows is None else rows:
            if row in truth:
                self.copies[row] = truth[row]
        assert {row: self.copies.get(row) for row in truth} == truth

    def _facts(self, info: NodeInfo) -> Facts:
        facts = node_facts(info, LABEL_KEYS) | {"name": info.name}
        return facts | pod_facts(info, {}) if self.reads_pods else facts


def fails(machine: type[RuleBasedStateMachine]) -> bool:
    """Return whether a short, repeatable run of the machine finds a fault."""
    short = settings(derandomize=True, database=None, phases=[Phase.generate], max_examples=300, stateful_step_count=50)
    try:
        run_state_machine_as_test(machine, settings=short)
    except (AssertionError, LookupError, ValueError):
        return True
    return False


class StateMachine(RuleBasedStateMachine):
    """Nodes and pods come, change and go, and pods are assumed, confirmed and forgotten."""

    @start_of_history
    def start(self, nodes: list[Node], pods: list[tuple[Pod, str]]) -> None:
        with patch("kframework.state.cluster.NodeTable", partial(NodeTable, capacity=1)):
            self.state = ClusterState()
        self.counts: dict[str, PodCount] = {}
        self.label_keys: set[str] = set()
        node_log, pod_log = self.state.nodes.node_log, self.state.nodes.pod_log
        self.readers = [Reader(log, log is pod_log, every) for log in (node_log, pod_log) for every in (3, 7)]
        self.steps = 0
        self.truth = ClusterObjects()
        self.tree: NodeTree[str] = NodeTree()
        self.order: list[str] | None = []
        for new in nodes:
            self.put_node(new)
        for made, node_name in pods:
            self.put_pod(made, node_name)

    def possible(self) -> st.SearchStrategy[Action]:
        """Tell what can be done now."""
        return changes

    # One rule for all: the machine leaves some rules out of each history, and most deeds need others.
    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        name, *arguments = data.draw(self.possible())
        getattr(self, name)(*arguments)

    def now(self) -> ClusterObjects:
        """Tell what is true at this moment, what-ifs included."""
        return self.truth

    def put_node(self, new: Node) -> None:
        name = new.metadata.name
        assert self.state.put_node(new) == self.truth.nodes.get(name)
        if name not in self.truth.nodes:
            self.order = None
        self.truth.nodes[name] = new
        self.tree.put(name, zone_of(new.metadata.labels))

    def beat(self, name: str) -> None:
        """A heartbeat is no change, but the newer object is kept."""
        if name in self.truth.nodes:
            ends = [reader.log.end for reader in self.readers]
            old = self.truth.nodes[name]
            metadata = msgspec.structs.replace(old.metadata, resource_version=old.metadata.resource_version + "1")
            self.put_node(msgspec.structs.replace(old, metadata=metadata))
            assert [reader.log.end for reader in self.readers] == ends

    def remove_node(self, name: str) -> None:
        info = self.state.nodes.find(name)
        assert self.state.remove_node(name) == self.truth.nodes.pop(name, None)
        if info is not None:
            with pytest.raises(StaleNodeError):
                info.row  # noqa: B018  # reading it raises
            self.truth.extra.pop(name, None)
            self.tree.remove(name)
            self.order = None

    def put_pod(self, new: Pod, node_name: str) -> None:
        uid = new.metadata.uid
        spec = msgspec.structs.replace(new.spec, node_name=node_name)
        old = self.state.put_pod(msgspec.structs.replace(new, spec=spec))
        assert (old is None) == (uid not in self.truth.pods)
        on = self.state.nodes.find(node_name)
        assert on is None or self.state.pods[uid] in on.pods
        self.truth.pods[uid] = self.truth.placed[uid] = (new, node_name)
        self.truth.assumed.discard(uid)

    def tell_again(self, uid: str, start_time: str | None) -> None:
        """The same pod in the same place, perhaps with another status: only that is new."""
        if uid in self.truth.pods:
            made, node_name = self.truth.pods[uid]
            status = msgspec.structs.replace(made.status, start_time=start_time)
            self.put_pod(msgspec.structs.replace(made, status=status), node_name)
            assert self.state.pods[uid].start_time == start_time

    def remove_pod(self, uid: str) -> None:
        removed = self.state.remove_pod(uid)
        assert (removed is not None) == (uid in self.truth.pods)
        if removed is not None:
            self._lose(uid)

    def assume(self, new: Pod, node_name: str) -> None:
        uid = new.metadata.uid
        try:
            self.state.assume(PendingPod(new, self.state.interner), node_name)
        except AssumeError:
            assert uid in self.truth.pods
        else:
            assert uid not in self.truth.pods
            self.truth.pods[uid] = self.truth.placed[uid] = (new, node_name)
            self.truth.assumed.add(uid)

    def forget(self, uid: str) -> None:
        forgotten = self.state.forget(uid)
        assert (forgotten is not None) == (uid in self.truth.assumed)
        if forgotten is not None:
            assert (forgotten.node_name, forgotten.row) == (self.truth.pods[uid][1], -1)
            self._lose(uid)

    def _lose(self, uid: str) -> None:
        self.truth.assumed.discard(uid)
        del self.truth.pods[uid]
        self.truth.placed.pop(uid, None)

    def look(self, at: str) -> None:
        """Ask for the column of a label, or start counting some pods."""
        if at in LABEL_KEYS:
            self.state.nodes.label(at)
            self.label_keys.add(at)
        else:
            self.counts[at] = self.state.nodes.counters.count(*SELECTIONS[at])

    @invariant()
    def readers_miss_nothing(self) -> None:
        self.steps += 1
        for reader in self.readers:
            if self.steps % reader.every == 0:
                reader.catch_up(self.state.nodes)

    @invariant()
    def tables_are_the_objects(self) -> None:
        truth, selections = self.now(), {name: SELECTIONS[name] for name in self.counts}
        assert actual_facts(self.state, self.label_keys, self.counts) == expected_facts(
            truth, self.label_keys, selections
        )
        assert self.state.pods.keys() == truth.pods.keys()
        assert self.state.priorities == Counter(pod.priority for pod in self.state.pods.values())
        assert self.state.assumed == truth.assumed
        assert {info.name: info.object for info in self.state.nodes} == truth.nodes

    @invariant()
    def orphans_are_the_pods_without_a_node(self) -> None:
        assert {name: set(pods) for name, pods in self.state._orphans.items()} == self.truth.orphans()

    @invariant()
    def rows_are_consistent(self) -> None:
        assert stale_cells(self.state.nodes) == []
        for info in self.state.nodes:
            assert self.state.nodes.row(info.name) == info.row
            assert all(pod.row == info.row for pod in info.pods)

    @invariant()
    def nodes_are_listed_zone_by_zone(self) -> None:
        assert [self.state.nodes[row].name for row in self.state.nodes._order.rows().tolist()] == self.tree.listed()
        if self.order is None:
            self.order = self.tree.listed()
        assert [info.name for info in self.state.nodes] == self.order
