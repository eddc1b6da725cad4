"""SelectorSpread: prefer nodes and zones that run few pods of the same service or controller.

kube-scheduler had this plugin up to 1.22; the rules are its own, to the last rounding.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kframework import (
    MAX_SCORE,
    CycleState,
    Handle,
    NodeInfo,
    NodeTable,
    PendingPod,
    Plugin,
    PluginArgs,
    Rows,
    Scores,
    Skip,
    StateKey,
    Status,
    Watch,
    hookimpl,
)
from kframework.objects import ReplicaSet, ReplicationController, Service, StatefulSet
from kframework_selector_spread.rows import RowNumbers
from kframework_selector_spread.selector import Selector, Selectors, matches

#: What the zones count for where there are any; the rest is left to the nodes.
_ZONE_WEIGHT = 2.0 / 3.0
#: The number of selectors whose counts are kept, 8 bytes a node each.
_MAX_SELECTORS = 256

_ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION_LABELS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


class _Spread(NamedTuple):
    """What a cycle needs: the matching pods by row, None for no pods anywhere; and the zone of each candidate."""

    counts: RowNumbers | None
    zones: Scores


_PRE_SCORED = StateKey[_Spread]("SelectorSpread")
#: The same for the rows that were scored up to now, if the configuration enables the plugin at Score alone.
_SCORED = StateKey[_Spread]("SelectorSpread/scored")


class SelectorSpread(Plugin):
    """Score nodes by how few pods of the pod's services and controller they and their zones run."""

    name: ClassVar[str] = "SelectorSpread"
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(Service),
        Watch(ReplicationController),
        Watch(ReplicaSet),
        Watch(StatefulSet),
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._selectors = Selectors(handle)
        self._counts: OrderedDict[tuple[str, Selector], RowNumbers] = OrderedDict()
        #: Numbers for the zones, from 1; 0 is no zone.
        self._known_zones: dict[tuple[str, str], int] = {("", ""): 0}
        self._zones = RowNumbers(handle.nodes, handle.nodes.node_log.reader().read_new, self._zone)

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable | None:
        # Only for a pod that brings its own constraints the answer is always the same. All others depend on services
        # that may come while the pod waits, and on which nodes are feasible.
        return () if pod.spec.topology_spread_constraints else None

    @hookimpl
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Status | None:
        if pod.spec.topology_spread_constraints:
            return Skip
        state[_PRE_SCORED] = _Spread(self._counts_for(pod), self._zones.for_rows(rows))
        return None

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        counts = self._counts_in_cycle(state, pod, np.array([node.row]))
        return counts.for_node(node) if counts is not None else 0

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores | int:
        counts = self._counts_in_cycle(state, pod, rows)
        return counts.for_rows(rows) if counts is not None else 0

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores | int:
        if pod.spec.topology_spread_constraints:
            return 0
        # The scores are those of the rows that `pre_score` was given, or that were scored, in the same order.
        zones = (state.get(_PRE_SCORED) or state[_SCORED]).zones
        by_node = _invert_counts(scores)
        in_zone = zones > 0
        # Number 0 gathers the nodes without a zone: its sum is ignored, and no zone is measured against it.
        sums = np.bincount(zones, weights=np.where(in_zone, scores, 0)).astype(np.int64)
        by_zone = _invert_counts(sums)[zones]
        both = by_node * (1.0 - _ZONE_WEIGHT) + _ZONE_WEIGHT * by_zone
        return np.where(in_zone, both, by_node).astype(np.int64)

    def _counts_in_cycle(self, state: CycleState, pod: PendingPod, rows: Rows) -> RowNumbers | None:
        """Return the counts of a pod that is scored; without PreScore the rows that are scored are the candidates."""
        if pod.spec.topology_spread_constraints:
            return None
        spread = state.get(_PRE_SCORED)
        if spread is None:
            zones, scored = self._zones.for_rows(rows), state.get(_SCORED)
            if scored is None:
                spread = _Spread(self._counts_for(pod), zones)
            else:
                spread = scored._replace(zones=np.append(scored.zones, zones))
            state[_SCORED] = spread
        return spread.counts

    def _counts_for(self, pod: PendingPod) -> RowNumbers | None:
        """Return the pods that belong together with this one, by row; None if none do."""
        namespace, selector = pod.namespace, self._selectors.for_pod(pod)
        if not selector:
            return None
        key = (namespace, selector)
        counts = self._counts.get(key)
        if counts is None:
            nodes = self.handle.nodes
            counts = RowNumbers(
                nodes, nodes.pod_log.reader().read_new, lambda node: _matching_pods(node, namespace, selector)
            )
            self._counts[key] = counts
            if len(self._counts) > _MAX_SELECTORS:
                self._counts.popitem(last=False)
        else:
            self._counts.move_to_end(key)
        return counts

    def _zone(self, node: NodeInfo) -> int:
        region, zone = (_first_label(node, labels) for labels in (_REGION_LABELS, _ZONE_LABELS))
        return self._known_zones.setdefault((region, zone), len(self._known_zones))


def _matching_pods(node: NodeInfo, namespace: str, selector: Selector) -> int:
    return sum(
        pod.namespace == namespace and not pod.terminating and matches(selector, pod.labels) for pod in node.pods
    )


def _first_label(node: NodeInfo, labels: tuple[str, ...]) -> str:
    return next((node.labels[label] for label in labels if label in node.labels), "")


def _invert_counts(counts: Scores) -> NDArray[np.float64]:
    """Return 100 for a count of 0, and 0 for the largest one; 100 for all if that is 0."""
    most = max(int(counts.max()), 1)
    shares: NDArray[np.float64] = np.divide(most - counts, most, dtype=np.float64)
    return MAX_SCORE * shares
