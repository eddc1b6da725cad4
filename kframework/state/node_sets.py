"""Cached sets of nodes that carry some labels, match a pod's node affinity and whose taints it tolerates.

They depend on Node objects alone, so they are computed once for all pods with the same requirements.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework.objects import PodSpec, Taint
from kframework.objects.node_selectors import names_nodes, required_node_selector
from kframework.objects.taints import first_untolerated
from kframework.state import selection
from kframework.state.nodes import NodeTable
from kframework.state.pod_counts import PodCount
from kframework.state.pods import PendingPod
from kframework.state.topology import Tally, Topology

#: The maximum number of cached sets, of up to 130 KB each with 5,000 nodes.
_MAX_SETS = 256

_HARD_EFFECTS = ("NoSchedule", "NoExecute")


class NodeSet:
    """The nodes that carry all `keys` and suit the pods of a spec; current at every look."""

    def __init__(self, nodes: NodeTable, spec: PodSpec, keys: tuple[str, ...], *, affinity: bool, taints: bool) -> None:
        self._nodes = nodes
        self._spec = spec
        self._keys = keys
        self._affinity = affinity
        self._taints = taints
        self._generation = -1
        self._node_log = nodes.node_log.reader()
        self._mask: NDArray[np.bool_]
        self._rows: NDArray[np.int64]
        #: By topology the domain of each node, and all that there are.
        self._domains: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def contains(self, row: int) -> bool:
        self._refresh()
        return bool(self._mask[row])

    def rows(self) -> NDArray[np.int64]:
        self._refresh()
        return self._rows

    def domains(self, topology: Topology) -> NDArray[np.int64]:
        if self._is_all_of(topology):
            return topology.occupied
        return self._domains_of(topology)[1]

    def tally(self, count: PodCount, topology: Topology) -> Tally:
        if self._is_all_of(topology):
            return count.domains(topology)
        tally = Tally(topology.code_capacity)
        pods = count.column.values[self._rows]
        # As doubles, which are exact for any number of pods.
        tally.values[:] = np.bincount(self._domains_of(topology)[0], pods, topology.code_capacity)
        tally.values[0] = 0
        tally.total = int(tally.values.sum())
        return tally

    def _is_all_of(self, topology: Topology) -> bool:
        """Return whether the set contains all nodes of all domains."""
        self._refresh()
        return len(self._rows) == (topology.sizes.total if topology.key in self._keys else len(self._nodes))

    def _domains_of(self, topology: Topology) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        entry = self._domains.get(topology.key)
        if entry is None:
            codes = topology.values[self._rows]
            entry = self._domains[topology.key] = codes, np.flatnonzero(np.bincount(codes[codes != 0]))
        return entry

    def _refresh(self) -> None:
        """Recompute the set if a node was added, removed or changed since the last use."""
        nodes = self._nodes
        changed = self._node_log.read_new()
        if changed is not None and not changed and self._generation == nodes.generation:
            return
        self._generation = nodes.generation
        rows = nodes.order
        mask = np.ones(len(rows), dtype=np.bool_)
        for key in self._keys:
            mask &= nodes.label(key).values[rows] != 0
        if self._affinity:
            mask &= selection.match_required(nodes, self._spec, rows)
        if self._taints:
            mask &= nodes.taint_sets.map_values(rows, self._tolerates) != 0
        self._mask = np.zeros(nodes.capacity, dtype=np.bool_)
        self._mask[rows] = mask
        self._rows = np.flatnonzero(self._mask)
        self._domains.clear()

    def _tolerates(self, taints: tuple[Taint, ...]) -> bool:
        return first_untolerated(taints, self._spec.tolerations, _HARD_EFFECTS) is None


class NodeSets:
    """The recently used sets."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._sets: OrderedDict[Hashable, NodeSet] = OrderedDict()

    def for_pod(self, pod: PendingPod, keys: tuple[str, ...], *, affinity: bool, taints: bool) -> NodeSet | None:
        """Return the labelled nodes that match the pod's `affinity`, `taints`, or both; None: all with these labels."""
        nodes, required = self._nodes, node_requirements(pod)
        affinity = affinity and required.affinity is not None
        taints = taints and len(nodes.taint_sets.meanings) > 1
        if not affinity and not taints:
            if len(keys) < 2 or all(nodes.label(key).sizes.total == len(nodes) for key in keys):
                return None
        if affinity and required.pinned:  # the names of the nodes are the pod's own
            return NodeSet(nodes, pod.spec, keys, affinity=affinity, taints=taints)
        key = (keys, affinity and required.affinity, taints and required.tolerations)
        cached = self._sets.get(key)
        if cached is not None:
            self._sets.move_to_end(key)
            return cached
        if len(self._sets) == _MAX_SETS:
            self._sets.popitem(last=False)
        node_set = self._sets[key] = NodeSet(nodes, pod.template.spec, keys, affinity=affinity, taints=taints)
        return node_set


class NodeRequirements(NamedTuple):
    """The node requirements of a spec, as comparable values; `pinned`: its affinity names nodes."""

    affinity: bytes | None
    pinned: bool
    tolerations: bytes


def node_requirements(pod: PendingPod) -> NodeRequirements:
    return pod.template.cached(_requirements, _requirements)


def _requirements(spec: PodSpec) -> NodeRequirements:
    required = required_node_selector(spec)
    content = (sorted(spec.node_selector.items()), required)
    return NodeRequirements(
        msgspec.json.encode(content) if spec.node_selector or required is not None else None,
        names_nodes(required),
        msgspec.json.encode(spec.tolerations),
    )
