"""Where it is worth looking for a remedy: an estimate, for every node at once, of how much stands in a pod's way there.

An estimate may be wrong: what is found is tried anyway. It only has to put the promising nodes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.rejections import PASS
from kframework.framework.answers import Scores
from kframework.framework.status import Code
from kframework.objects import Namespace, NodeSelectorTerm
from kframework.objects.node_selectors import node_affinity
from kframework.observe.explain.full_evaluation import FullEvaluation
from kframework.observe.explain.remedies.changes import is_cordon
from kframework.observe.explain.remedies.obstacles import spreads, untolerated
from kframework.observe.explain.remedies.proposals import MOST
from kframework.plugins.inter_pod_affinity.affinity import Affinities
from kframework.state import selection
from kframework.state.namespaces import Namespaces

#: The number of changes where no change of the cluster is known to help.
HOPELESS = 1 << 20


class Estimate(NamedTuple):
    """What it takes to answer one plugin's rejections, for each row: how many changes, and how large they are."""

    changes: Scores
    size: NDArray[np.float64]


class Prospects:
    """What stands in the pod's way on the nodes that PreFilter leaves."""

    def __init__(self, evaluation: FullEvaluation) -> None:
        self.evaluation = evaluation
        among = evaluation.pre_filter_result.nodes
        rows = evaluation.nodes.order
        if among is not None:
            rows = rows[[evaluation.nodes[row].name in among for row in rows.tolist()]]
        #: The rows that are looked at; all else is aligned to them.
        self.rows: NDArray[np.int64] = rows
        #: The plugins that object somewhere, each with the rows where it does and its estimate.
        self.objecting: dict[str, tuple[NDArray[np.bool_], Estimate]] = {}
        #: How many changes of the cluster it takes.
        self.changes: Scores = np.zeros(len(rows), dtype=np.int64)
        #: The same, where the pod itself is changed if nothing else can be done.
        self.effort: Scores = np.zeros(len(rows), dtype=np.int64)
        self.size: NDArray[np.float64] = np.zeros(len(rows))
        #: Which plugins object, as one integer.
        self.pattern: Scores = np.zeros(len(rows), dtype=np.int64)

    def work(self) -> Iterator[None]:
        """Estimate, one plugin after the other."""
        deletions: Scores = np.zeros(len(self.rows), dtype=np.int64)
        for name, said in self.evaluation.said.items():
            rejections = said[self.rows]
            objects = rejections != PASS
            if not objects.any():
                continue
            estimate = _ESTIMATES.get(name, _of_unknown)(self.evaluation, self.rows, rejections)
            self.pattern += objects.astype(np.int64) << len(self.objecting)
            self.objecting[name] = (objects, estimate)
            needed = np.where(objects, estimate.changes, 0)
            self.effort += np.where(needed <= MOST, needed, 1)
            if name in _OF_THE_NODE:
                self.changes += needed
            else:
                deletions = np.maximum(deletions, needed)  # whoever is in the way of one may be in that of another
            self.size += np.where(objects, estimate.size, 0.0)
            yield
        self.changes += deletions

    def promising(self, each: int) -> list[int]:
        """List the rows where changes of the cluster may help: so many for each pattern of rejections, best first."""
        return self._best(np.flatnonzero(self.changes <= MOST), self.changes, self.size, each)

    def easiest(self, each: int) -> list[int]:
        """List the rows with the least to do, be it to the pod itself: so many for each pattern, best first."""
        return self._best(np.arange(len(self.rows)), self.effort, self.size, each)

    def alone(self, plugin: str) -> int | None:
        """Return the row where only this plugin objects, and least; None if there is none."""
        objects, estimate = self.objecting[plugin]
        place = list(self.objecting).index(plugin)
        places = np.flatnonzero(objects & (self.pattern == 1 << place))
        if not len(places):
            return None
        order = np.lexsort((estimate.changes[places], estimate.size[places]))
        return int(self.rows[places[order[0]]])

    def _best(self, places: NDArray[np.int64], first: Scores, second: NDArray[np.float64], each: int) -> list[int]:
        places = places[np.lexsort((second[places], first[places]))]
        patterns = self.pattern[places]
        best: list[int] = []
        for pattern in np.unique(patterns).tolist():
            best += places[patterns == pattern][:each].tolist()
        best.sort(key=lambda place: (int(first[place]), float(second[place])))
        return [int(self.rows[place]) for place in best]


# -- one plugin ----------------------------------------------------------------------------------------------------


def _of_taints(evaluation: FullEvaluation, rows: NDArray[np.int64], rejections: Scores) -> Estimate:
    """Count the taints; that of a cordoned node goes when it is uncordoned."""
    sets, tolerations = evaluation.nodes.taint_sets, evaluation.pod.spec.tolerations
    codes = sets.values[rows]
    counts, cordons = np.zeros((2, len(sets.meanings)), dtype=np.int64)
    for code in np.unique(codes).tolist():
        taints = untolerated(sets.meanings[code], tolerations)
        counts[code], cordons[code] = len(taints), sum(map(is_cordon, taints))
    changes = counts[codes] - np.where(evaluation.nodes.unschedulable.values[rows], cordons[codes], 0)
    return Estimate(changes, counts[codes].astype(np.float64))


def _of_labels(evaluation: FullEvaluation, rows: NDArray[np.int64], rejections: Scores) -> Estimate:
    """Count the labels that the pod's nodeSelector and the closest term of its node affinity miss."""
    nodes, spec = evaluation.nodes, evaluation.pod.spec
    missing = np.zeros(len(rows), dtype=np.int64)
    for key, value in spec.node_selector.items():
        missing += ~selection.labelled(nodes, {key: value}, rows)
    affinity = node_affinity(spec)
    selector = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if selector is not None:
        closest = np.full(len(rows), HOPELESS, dtype=np.int64)
        for term in selector.node_selector_terms:
            parts = [NodeSelectorTerm(match_expressions=(each,)) for each in term.match_expressions]
            parts += [NodeSelectorTerm(match_fields=(each,)) for each in term.match_fields]
            unmet = sum((~selection.matched(nodes, (part,), rows) for part in parts), np.zeros_like(missing))
            closest = np.minimum(closest, unmet)
        missing += closest
    return Estimate(np.maximum(missing, 1), missing.astype(np.float64))


def _of_room(evaluation: FullEvaluation, rows: NDArray[np.int64], rejections: Scores) -> Estimate:
    """Take the largest share of what the pod asks for that is missing; one pod less may be enough for all of it."""
    nodes = evaluation.nodes
    size, hopeless = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.bool_)
    short = np.zeros(len(rows), dtype=np.int64)
    for resource, amount in (*evaluation.pod.template.fit, ("pods", 1)):
        if amount:
            offered = nodes.allocatable(resource)[rows]
            missing = nodes.requested(resource)[rows] + amount - offered
            size = np.maximum(size, missing / amount)
            hopeless |= amount > offered
            short += missing > 0
    return Estimate(np.where(hopeless, HOPELESS, 1), size + np.maximum(short - 1, 0))


def _of_neighbours(evaluation: FullEvaluation, rows: NDArray[np.int64], rejections: Scores) -> Estimate:
    """Count the pods in each node's domains that are in the way; there is no making company where it is wanted."""
    nodes, pod = evaluation.nodes, evaluation.pod
    affinities = Affinities(evaluation.cluster.objects(Namespace).index(Namespaces))
    found = np.zeros(len(rows), dtype=np.int64)
    for key, wish in affinities.incoming_terms(pod).anti_affinity:
        topology = nodes.label(key)
        found += nodes.counters.count(wish).domains(topology).values[topology.values[rows]]
    for held in affinities.existing_terms(pod, nodes.counters).anti_affinity:
        found += held.domains(held.topology).values[held.topology.values[rows]]
    return Estimate(np.where(found > 0, found, HOPELESS), found.astype(np.float64))


def _of_spread(evaluation: FullEvaluation, rows: NDArray[np.int64], rejections: Scores) -> Estimate:
    """Count the pods that are too many in the node's domains; a node without the label is left alone."""
    found, unlabelled = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.bool_)
    for spread in spreads(evaluation.nodes, evaluation.pod):
        codes = evaluation.nodes.label(spread.own.topology_key).values[rows]
        found += np.where(codes > 0, spread.excess[codes], 0)
        unlabelled |= codes == 0
    return Estimate(np.where(unlabelled | (found == 0), HOPELESS, found), found.astype(np.float64))


def _of_unknown(evaluation: FullEvaluation, rows: NDArray[np.int64], rejections: Scores) -> Estimate:
    """Take the plugin at its word whether it may help that pods go away."""
    changes = np.full(len(rows), HOPELESS, dtype=np.int64)
    for rejection in np.unique(rejections[rejections != PASS]).tolist():
        if evaluation.status(rejection).code == Code.UNSCHEDULABLE:
            changes[rejections == rejection] = 1
    return Estimate(changes, np.zeros(len(rows)))


def _of_one(evaluation: FullEvaluation, rows: NDArray[np.int64], rejections: Scores) -> Estimate:
    """Expect that one change does."""
    return Estimate(np.ones(len(rows), dtype=np.int64), np.zeros(len(rows)))


#: The plugins that look at the Node object alone.
_OF_THE_NODE = frozenset({"NodeUnschedulable", "TaintToleration", "NodeAffinity"})

_Estimate = Callable[[FullEvaluation, NDArray[np.int64], Scores], Estimate]
_ESTIMATES: dict[str, _Estimate] = {
    "NodeUnschedulable": _of_one,
    "TaintToleration": _of_taints,
    "NodeAffinity": _of_labels,
    "NodePorts": _of_one,
    "NodeResourcesFit": _of_room,
    "InterPodAffinity": _of_neighbours,
    "PodTopologySpread": _of_spread,
}
