"""Pods that share their labels, and counts of those that selections match."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kframework.objects.label_selectors import EVERYTHING, NOTHING, Selector
from kframework.state.columns import Column
from kframework.state.pod_conditions import FEW, PodConditions, as_column
from kframework.state.row_counts import LabelPair, required_labels
from kframework.state.topology import Tally, Topology


class LabelClass:
    """A namespace and a set of labels that some pods share, with the number of such pods on each row.

    Pods that are being deleted are a class of their own.
    """

    __slots__ = ("__weakref__", "counts", "labels", "namespace", "pods", "terminating")

    def __init__(self, namespace: str, labels: Mapping[str, str], terminating: bool) -> None:
        self.namespace: str = namespace
        self.labels: Mapping[str, str] = labels
        self.terminating: bool = terminating
        self.pods: dict[int, int] = {}
        #: The dense counts that include these pods, with the weight of each; None before the first pod.
        self.counts: dict[PodCount, int] | None = None

    def add(self, row: int, number: int) -> None:
        """Add pods to a row, or remove them."""
        pods = self.pods.get(row, 0) + number
        if pods:
            self.pods[row] = pods
        else:
            del self.pods[row]


class Selection(NamedTuple):
    """Pods by namespace (None: any) and labels; those being deleted count only if `terminating`."""

    namespaces: frozenset[str] | None
    selector: Selector
    terminating: bool = True

    def matches(self, pods: LabelClass) -> bool:
        if pods.terminating and not self.terminating:
            return False
        return (self.namespaces is None or pods.namespace in self.namespaces) and self.selector.matches(pods.labels)


def _add_condition(conditions: PodConditions, selection: Selection) -> None:
    namespaces, selector, _ = selection
    conditions.add(selector, namespaces or (), EVERYTHING if namespaces is None else NOTHING)


class WeightedSelections:
    """Several selections, each with the weight of a matching pod, terminating or not: a pod's weights add up.

    Instances are compared by content, which is hashed once: there may be thousands.
    """

    __slots__ = ("_by_label", "_hash", "selections")

    def __init__(self, selections: tuple[tuple[int, Selection], ...]) -> None:
        self.selections: tuple[tuple[int, Selection], ...] = selections
        self._hash = hash(selections)
        self._by_label: dict[LabelPair | None, tuple[array[int], PodConditions]] = {}
        for weight, selection in selections:
            label = next(required_labels(selection.selector), None)
            weights, conditions = self._by_label.setdefault(label, (array("q"), PodConditions()))
            weights.append(weight)
            _add_condition(conditions, selection)

    @property
    def namespaces(self) -> frozenset[str] | None:
        """The namespaces of all pods that may match; None for any."""
        namespaces = [selection.namespaces for _, selection in self.selections]
        return None if None in namespaces else frozenset().union(*(names for names in namespaces if names is not None))

    @property
    def required_labels(self) -> tuple[LabelPair, ...]:
        """The labels that all matching pods must carry."""
        return () if len(self._by_label) > 1 else tuple(each for each in self._by_label if each is not None)

    def weight(self, pods: LabelClass) -> int:
        entries = filter(None, map(self._by_label.get, (None, *pods.labels.items())))
        weights = [
            int(as_column(weights)[conditions.find(pods.namespace, {}, pods.labels)].sum())
            for weights, conditions in entries
        ]
        return sum(weights)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, WeightedSelections) and self.selections == other.selections)

    def __hash__(self) -> int:
        return self._hash


class AllOf:
    """A conjunction of selections: a pod counts, once, if all match it."""

    __slots__ = ("_conditions", "_hash", "selections")

    def __init__(self, selections: tuple[Selection, ...]) -> None:
        self.selections: tuple[Selection, ...] = selections
        self._hash = hash(selections)
        #: The same together, if they are as many as the terms of a pod may be.
        self._conditions: PodConditions | None = None
        if len(selections) > FEW and all(selection.terminating for selection in selections):
            self._conditions = PodConditions()
            for selection in selections:
                _add_condition(self._conditions, selection)

    @property
    def namespaces(self) -> frozenset[str] | None:
        """The namespaces of all pods that may match; None for any."""
        return self.selections[0].namespaces

    @property
    def required_labels(self) -> tuple[LabelPair, ...]:
        """The labels that all matching pods must carry."""
        return tuple(required_labels(*(each.selector for each in self.selections)))

    def weight(self, pods: LabelClass) -> int:
        """Return 1 for a pod of a class that is counted, else 0."""
        if self._conditions is None:
            return int(all(selection.matches(pods) for selection in self.selections))
        return int(len(self._conditions.find(pods.namespace, {}, pods.labels)) == len(self.selections))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, AllOf) and self.selections == other.selections)

    def __hash__(self) -> int:
        return self._hash


class PodCount:
    """The weighted number of selected pods: per row (`column`) and, on demand, per domain.

    `changes_since_read` starts below 0 by the cost of rebuilding the count; `sweep` is the number of the
    sweep (`Counters`) that was next when it was last read.
    """

    __slots__ = ("__weakref__", "_tallies", "changes_since_read", "column", "rebuild_cost", "selection", "sweep")

    def __init__(self, selection: AllOf | WeightedSelections, capacity: int) -> None:
        self.selection: AllOf | WeightedSelections = selection
        self.column: Column = Column(capacity)
        self.rebuild_cost: int = 0
        self.changes_since_read: int = 0
        self.sweep: int = 0
        self._tallies: dict[str, tuple[Topology, Tally]] = {}

    def add(self, row: int, delta: int) -> None:
        self.changes_since_read += 1
        self.column.cells[row] += delta
        for topology, tally in self._tallies.values():
            tally.add(topology.cells[row], delta)

    def on_row(self, row: int) -> int:
        return self.column.cells[row]

    def domains(self, topology: Topology) -> Tally:
        entry = self._tallies.get(topology.key)
        if entry is not None:
            return entry[1]
        tally = Tally(topology.code_capacity)
        np.add.at(tally.values, topology.values, self.column.values)
        tally.values[0] = 0
        tally.total = int(tally.values.sum())
        self._tallies[topology.key] = (topology, tally)
        topology.tally_owners.add(self)
        return tally
