"""Nodes as columns: one NumPy column per resource and fact, one row per node, and a log of the rows that changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, cast
from weakref import WeakValueDictionary

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework.errors import StaleNodeError
from kframework.objects import Node, Taint
from kframework.objects.label_selectors import exact_selector
from kframework.objects.requests import allocatable as allocatable_of
from kframework.state.columns import CodeColumn, Column
from kframework.state.counters import Counters, ImageStates
from kframework.state.existing_terms import ExistingTerms
from kframework.state.host_ports import HostPorts
from kframework.state.log import Log
from kframework.state.node_order import NodeOrder, zone_of
from kframework.state.pod_counts import LabelClass, PodCount, Selection
from kframework.state.pods import PodInfo
from kframework.state.row_counts import RowCounts
from kframework.state.topology import LabelKeys, Tally, Topology

#: The table is compacted after this many node writes (or twice its capacity, if that is more), and when there are this
#: many resources more than twice those in use at the last time. Counts by domain have room for as many domains as
#: occurred in between.
_WRITES, _RESOURCES = 128, 64

#: The resources that every node has.
_NATIVE = ("cpu", "memory", "ephemeral-storage", "pods")


class NodeInfo:
    """One row of the table, for code that thinks node by node.

    Always current while its node exists. Reading it after the node has left raises StaleNodeError.
    """

    __slots__ = ("_pods", "name", "object", "pods", "row", "table")

    def __init__(self, table: NodeTable, row: int, node: Node) -> None:
        self.name: str = node.metadata.name
        self.row: int = row
        self.object: Node = node
        #: The table that this is a row of.
        self.table: NodeTable = table
        self._pods: dict[str, PodInfo] = {}
        #: The pods on the node, assumed ones included.
        self.pods: Collection[PodInfo] = self._pods.values()

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels."""
        return self.object.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """The node's annotations."""
        return self.object.metadata.annotations

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The node's taints, in the order of its spec."""
        return self.object.spec.taints

    @property
    def unschedulable(self) -> bool:
        """Whether the node is cordoned."""
        return self.object.spec.unschedulable

    def allocatable(self, resource: str) -> int:
        """Return the node's allocatable amount of a resource: milli-CPU for `cpu`, whole units (bytes) for others."""
        column = self.table.allocatables.get(resource)
        return column.cells[self.row] if column is not None else 0

    def requested(self, resource: str) -> int:
        """Return the amount of a resource that the node's pods request, in the same units; `pods` is their number."""
        column = self.table.requesteds.get(resource)
        return column.cells[self.row] if column is not None else 0

    def __repr__(self) -> str:
        return (
            f"<NodeInfo {self.name} {len(self._pods)} pods, {self.requested('cpu')}m of {self.allocatable('cpu')}m cpu>"
        )


class _RemovedNode(NodeInfo):
    """The class of a NodeInfo whose node was removed: only its name can be read."""

    __slots__ = ()

    def __getattribute__(self, attribute: str) -> object:
        if attribute == "name" or attribute.startswith("__"):
            return super().__getattribute__(attribute)
        raise StaleNodeError(self.name)

    def __repr__(self) -> str:
        return f"<NodeInfo {self.name} removed>"


class NodeTable:
    """The nodes of the cluster as the scheduler sees them now, assumed pods included.

    Columns are int64 arrays indexed by row; they are as long as the table's capacity, so index them with the rows a
    hook was given, or with `order`. Rows of departed nodes hold zeros and are never in `order`. The arrays from
    `allocatable`, `requested` and `order` are read-only.
    """

    def __init__(self, capacity: int = 64) -> None:
        #: The length of the columns.
        self.capacity: int = capacity
        #: The nodes by row, for loops over rows known to have a node; elsewhere index the table itself.
        self.by_row: list[NodeInfo] = []
        self._row_of: dict[str, int] = {}
        self._free: list[int] = []
        self._order = NodeOrder()
        self._rows_in_order: NDArray[np.int64] | None = None
        self._positions: NDArray[np.int64] | None = None
        #: Columns by resource name; `pods` is the number of pods. Prefer the methods of the same name.
        self.allocatables: dict[str, Column] = {}
        self.requesteds: dict[str, Column] = {}
        for resource in _NATIVE:
            self._resource(resource)
        #: The pods' requests, with defaults for containers without any (scoring only).
        self.non_zero_cpu: Column = Column(capacity)
        self.non_zero_memory: Column = Column(capacity)
        #: 1 if the node is cordoned.
        self.unschedulable: Column = Column(capacity)
        #: The node's taints, interned as one value per distinct set.
        self.taint_sets: CodeColumn[tuple[Taint, ...]] = CodeColumn(capacity, ())
        #: The features that the node declares, interned as one value per distinct set.
        self.feature_sets: CodeColumn[frozenset[str]] = CodeColumn(capacity, frozenset())
        self.images: ImageStates = ImageStates()
        self.host_ports: HostPorts = HostPorts()
        #: The number of pods that use a claim, by its namespace and name, without ephemeral claims (PVCRefCounts).
        self.claims: RowCounts[tuple[str, str]] = RowCounts()
        self.counters: Counters = Counters(capacity)
        #: The labels that any node has.
        self.label_keys: LabelKeys = LabelKeys()
        #: The terms of the pods that have inter-pod affinity or anti-affinity.
        self.existing_terms: ExistingTerms = ExistingTerms(self.label, self.label_keys)
        #: The topologies in use: those of labels that some node has, and those of labels that no node has.
        self._labels: dict[str, Topology] = {}
        self._absent: WeakValueDictionary[str, Topology] = WeakValueDictionary()
        self._empty_column = Column(capacity)
        self._extra: dict[str, Column] = {}
        #: Rows whose Node object changed.
        self.node_log: Log[int] = Log(capacity)
        #: Rows whose Node object or pods changed.
        self.pod_log: Log[int] = Log(capacity)
        #: Counters of changes of the set of nodes, and of pods on them with inter-pod terms.
        self.generation: int = 0
        self.term_changes: int = 0
        #: The number of node writes since the table was compacted, and of resources above which it is compacted again.
        self._writes = 0
        self._resource_limit = _RESOURCES

    # -- reading -------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._row_of)

    def __iter__(self) -> Iterator[NodeInfo]:
        return (self[int(row)] for row in self.order)

    def __contains__(self, name: str) -> bool:
        return name in self._row_of

    def __getitem__(self, row: int) -> NodeInfo:
        info = self.by_row[row]
        if info is _NO_NODE:
            raise IndexError(f"row {row} holds no node")
        return info

    def row(self, name: str) -> int | None:
        """Return the row of a node, or None if there is no such node."""
        return self._row_of.get(name)

    def position_in(self, rows: NDArray[np.int64], name: str) -> int | None:
        """Return the position of a node in an array of rows, or None if it is not in there."""
        found = (rows == self._row_of.get(name, -1)).nonzero()[0]
        return found.item(0) if len(found) else None

    def find(self, name: str) -> NodeInfo | None:
        """Return the node of this name, or None."""
        row = self._row_of.get(name)
        return None if row is None else self.by_row[row]

    @property
    def size(self) -> int:
        """The number of rows in use or once used; every row is smaller."""
        return len(self.by_row)

    @property
    def order(self) -> NDArray[np.int64]:
        """The rows of all nodes (int64), zones in turn; rebuilt if the set of nodes changes, like kube-scheduler's."""
        if self._rows_in_order is None:
            self._rows_in_order = self._order.rows()
            self._rows_in_order.flags.writeable = False
        return self._rows_in_order

    def zone(self, row: int) -> tuple[str, str]:
        """Return the (region, zone) of a row's node, both empty if it has none."""
        return self._order.zone(row)

    @property
    def positions(self) -> NDArray[np.int64]:
        """The position of each row in `order`, by row."""
        if self._positions is None:
            self._positions = np.zeros(self.capacity, dtype=np.int64)
            self._positions[self.order] = np.arange(len(self))
        return self._positions

    def allocatable(self, resource: str) -> NDArray[np.int64]:
        """Return the column of allocatable amounts: milli-CPU for `cpu`, whole units (bytes) for others."""
        return self._resource(resource)[0].view

    def requested(self, resource: str) -> NDArray[np.int64]:
        """Return the column of amounts that the nodes' pods request, in the same units; `pods` is their number."""
        return self._resource(resource)[1].view

    def label(self, key: str) -> Topology:
        """Return the column of a label's values, interned; code 0 (None) if a node lacks the label."""
        topology = self._topology(key)
        if topology is None:
            topology = Topology(key, self._empty_column)
            if key in self.label_keys:
                self._labels[key] = topology
                for row in self._row_of.values():
                    topology.put(row, self[row].labels.get(key))
            else:
                self._absent[key] = topology
        return topology

    def _topology(self, key: str) -> Topology | None:
        return self._labels.get(key) or self._absent.get(key)

    def pods_by_domain(self, key: str, namespace: str, labels: Mapping[str, str]) -> tuple[Topology, Tally]:
        """Return the topology of a node label, and the pods of a namespace with these labels in each of its domains.

        Ask again in each cycle: the numbers stay current only while they are asked for.
        """
        topology, pods = self.label(key), Selection(frozenset((namespace,)), exact_selector(labels))
        return topology, self.counters.count(pods).domains(topology)

    @property
    def count_changes(self) -> int:
        """A counter of the changes after which counts and terms that were looked up before may be others."""
        return self.counters.dropped + self.existing_terms.version + self.label_keys.version

    def column(self, name: str) -> Column:
        """Return a column of an extension's own, made of zeros on first use; written through a Statement."""
        if name not in self._extra:
            self._extra[name] = Column(self.capacity)
        return self._extra[name]

    # -- changing: only the inbox and the cycle do ---------------------------------------------------------------------

    def put(self, node: Node) -> Node | None:
        """Add a node or replace its object; return the object before, None if it is new."""
        row = self._row_of.get(node.metadata.name)
        if row is None:
            old = None
            if self._free:
                row = self._free.pop()
                self.by_row[row] = NodeInfo(self, row, node)
            else:
                row = len(self.by_row)
                if row == self.capacity:
                    self._grow()
                self.by_row.append(NodeInfo(self, row, node))
            self._row_of[node.metadata.name] = row
            self._set_changed()
            self._write(row, node, {})
            self.images.add(row, node.status.images)
        else:
            old = self.replace(row, node)
        self.update_order(row)
        if self._writes > max(_WRITES, 2 * self.capacity) or len(self.allocatables) > self._resource_limit:
            self._compact()
        return old

    def replace(self, row: int, node: Node) -> Node:
        """Replace the object of a row's node and return the one before; call `update_order` afterwards."""
        info = self[row]
        old, info.object = info.object, node
        if not is_heartbeat(old, node):
            self._write(row, node, old.metadata.labels)
            # An image's score grows with the number of nodes that have it, so other nodes with it change too.
            for other in self.images.replace(row, old.status.images, node.status.images):
                self.mark_changed(other)
        return old

    def update_order(self, row: int) -> None:
        """Set a row's position in the order, if its node is new or changed its zone."""
        self._order.add(row, zone_of(self[row].labels))

    def remove(self, name: str) -> tuple[Node, list[PodInfo]] | None:
        """Take a node out; return its object and the pods that were on it, None if it is unknown."""
        row = self._row_of.pop(name, None)
        if row is None:
            return None
        info = self[row]
        node, pods = info.object, list(info._pods.values())
        for pod in pods:
            self.remove_pod(pod)
        info.__class__ = _RemovedNode
        self.images.remove(row, node.status.images)
        self._relabel(row, node.metadata.labels, {})
        for column in self._columns():
            column.cells[row] = 0
        self.by_row[row] = _NO_NODE
        self._free.append(row)
        self._order.remove(row)
        self._set_changed()
        return node, pods

    def add_pod(self, pod: PodInfo, row: int) -> None:
        """Put a pod on a row and count its requests."""
        pod.row = row
        self.by_row[row]._pods[pod.uid] = pod
        self._count(pod, row, 1)

    def remove_pod(self, pod: PodInfo) -> None:
        """Remove a pod from its row and subtract its requests."""
        row = pod.row
        del self.by_row[row]._pods[pod.uid]
        pod.row = -1
        self._count(pod, row, -1)

    def replace_pod(self, old: PodInfo, new: PodInfo) -> None:
        """Replace a pod by one with the same requests; it is last on the row, as after removing and adding."""
        row, is_same = old.row, old.is_equivalent(new)
        self.confirm_pod(old, new)
        if not is_same:
            self.pod_log.append(row)

    def confirm_pod(self, old: PodInfo, new: PodInfo) -> None:
        """Replace a pod as `replace_pod` does, without a note in the log."""
        row = old.row
        pods = self.by_row[row]._pods
        old.row, new.row = -1, row
        del pods[old.uid]
        pods[new.uid] = new
        before, after = old.label_class, new.label_class
        if before is not after:
            before.add(row, -1)
            after.add(row, 1)
            counted, counts = self._counts_of(before), self._counts_of(after)
            if counted != counts:  # a zone that the binding adds seldom matters
                for count, weight in counted.items():
                    count.add(row, -weight)
                for count, weight in counts.items():
                    count.add(row, weight)

    def _count(self, pod: PodInfo, row: int, sign: int) -> None:
        requesteds = self.requesteds
        for resource, amount in pod.on_node:
            column = requesteds.get(resource) or self._resource(resource)[1]
            column.cells[row] += sign * amount
        requesteds["pods"].cells[row] += sign
        cpu, memory = pod.non_zero
        self.non_zero_cpu.cells[row] += sign * cpu
        self.non_zero_memory.cells[row] += sign * memory
        for port in pod.template.host_ports:
            self.host_ports.count(port, row, sign)
        for claim in pod.claims:
            self.claims.add((pod.namespace, claim), row, sign)
        if pod.template.has_terms:
            self.term_changes += 1
            self.existing_terms.owners(pod).add(row, sign)
        labels = pod.label_class
        labels.add(row, sign)
        for count, weight in (labels.counts or self._counts_of(labels)).items():
            count.add(row, sign * weight)
        self.pod_log.append(row)

    def _counts_of(self, pods: LabelClass) -> dict[PodCount, int]:
        counts = pods.counts
        return self.counters.register(pods) if counts is None else counts

    def mark_changed(self, row: int) -> None:
        """Log a row as changed, so that cached answers about it are recomputed."""
        self.node_log.append(row)
        self.pod_log.append(row)

    def mark_named_changed(self, names: Sequence[str]) -> None:
        """Log the nodes of these names as changed, all if none is named."""
        rows = [self.row(name) for name in names] if names else self.order.tolist()
        for row in rows:
            if row is not None:
                self.mark_changed(row)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _compact(self) -> None:
        """Drop values that no node has any more: of labels, taint and feature sets, resources.

        Only between two cycles, because a cycle refers to codes and columns. Longer-lived caches are dropped as if the
        set of nodes had changed.
        """
        self.taint_sets.compact()
        self.feature_sets.compact()
        for topology in self._labels.values():
            topology.compact()
        for resource in self.allocatables.keys() - _NATIVE:
            if not self.allocatables[resource].values.any() and not self.requesteds[resource].values.any():
                del self.allocatables[resource], self.requesteds[resource]
        self._writes, self._resource_limit = 0, 2 * len(self.allocatables) + _RESOURCES
        self._set_changed()

    def _set_changed(self) -> None:
        self._rows_in_order = self._positions = None
        self.generation += 1

    def _grow(self) -> None:
        self.capacity *= 2
        self._empty_column.grow(self.capacity)
        for column in (*self._columns(), *self._labels.values(), *self._absent.values()):
            column.grow(self.capacity)
        self.counters.grow(self.capacity)
        self.node_log.limit = self.pod_log.limit = self.capacity

    def _columns(self) -> Iterator[Column]:
        yield from self.allocatables.values()
        yield from self.requesteds.values()
        yield from (self.non_zero_cpu, self.non_zero_memory)
        yield from (self.unschedulable, self.taint_sets, self.feature_sets)
        yield from self._extra.values()

    def _resource(self, resource: str) -> tuple[Column, Column]:
        if resource not in self.allocatables:
            self.allocatables[resource] = Column(self.capacity)
            self.requesteds[resource] = Column(self.capacity)
        return self.allocatables[resource], self.requesteds[resource]

    def _write(self, row: int, node: Node, old_labels: Mapping[str, str]) -> None:
        """Bring every column that mirrors the Node object up to date."""
        self._writes += 1
        offered = allocatable_of(node)
        for resource in offered:
            if resource not in self.allocatables:
                self._resource(resource)
        for resource, column in self.allocatables.items():
            column.cells[row] = offered.get(resource, 0)
        self.unschedulable.cells[row] = int(node.spec.unschedulable)
        self.taint_sets.cells[row] = self.taint_sets.code(tuple(map(_without_time, node.spec.taints)))
        self.feature_sets.cells[row] = self.feature_sets.code(frozenset(node.status.declared_features))
        self._relabel(row, old_labels, node.metadata.labels)
        self.mark_changed(row)

    def _relabel(self, row: int, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        if old == new:
            return
        self.label_keys.replace(old.keys() - new.keys(), new.keys() - old.keys())
        if not (self._labels or self._absent):
            return  # no label is in use yet, as while the first nodes are listed: that saves 1.6 of the 11 µs for each
        for key in {key for key, _ in old.items() ^ new.items()}:
            topology = self._topology(key)
            if topology is not None:
                topology.put(row, new.get(key))
                here, there = (self._labels, self._absent) if key in self.label_keys else (self._absent, self._labels)
                here[key] = topology
                there.pop(key, None)


#: The entry of rows without a node.
_NO_NODE: Final = cast("NodeInfo", None)


def is_heartbeat(old: Node, new: Node) -> bool:
    """Return whether a Node update is a heartbeat: only resourceVersion, managedFields or condition times changed."""
    before, after = ([(each.type, each.status) for each in node.status.conditions] for node in (old, new))
    return bool(_durable_fields(old) == _durable_fields(new) and before == after)


_durable_fields = attrgetter(
    *("spec", "metadata.labels", "metadata.annotations", "metadata.uid", "metadata.deletion_timestamp"),
    *("status.capacity", "status.allocatable", "status.images", "status.declared_features"),
)


def _without_time(taint: Taint) -> Taint:
    return taint if taint.time_added is None else msgspec.structs.replace(taint, time_added=None)
