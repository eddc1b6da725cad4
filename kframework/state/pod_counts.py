"""Pods that share their labels, and counts of those that selections choose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kframework.objects.label_selectors import Selector
from kframework.state.columns import Column
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
        #: The dense counts that these pods are part of; None before the first of them.
        self.counts: list[PodCount] | None = None

    def __repr__(self) -> str:
        labels = ",".join(f"{key}={value}" for key, value in sorted(self.labels.items()))
        state = ", terminating" if self.terminating else ""
        return f"<LabelClass {self.namespace}/{labels} on {len(self.pods)} nodes{state}>"


class Selection(NamedTuple):
    """Pods by namespace (None: any) and labels; those being deleted count only if `terminating`."""

    namespaces: frozenset[str] | None
    selector: Selector
    terminating: bool = True

    def chooses(self, pods: LabelClass) -> bool:
        """Return whether the pods of a class are meant."""
        if pods.terminating and not self.terminating:
            return False
        return (self.namespaces is None or pods.namespace in self.namespaces) and self.selector.matches(pods.labels)


class PodCount:
    """The pods that all of some selections choose, counted per row (`column`) and, on demand, per domain."""

    __slots__ = ("__weakref__", "_tallies", "column", "selections")

    def __init__(self, selections: tuple[Selection, ...], capacity: int) -> None:
        self.selections: tuple[Selection, ...] = selections
        self.column: Column = Column(capacity)
        self._tallies: dict[str, tuple[Topology, Tally]] = {}

    def chooses(self, pods: LabelClass) -> bool:
        """Return whether the pods of a class are counted."""
        return all(selection.chooses(pods) for selection in self.selections)

    def add(self, row: int, more: int) -> None:
        """Count so many pods more on a row."""
        self.column.cells[row] += more
        for topology, tally in self._tallies.values():
            tally.add(topology.cells[row], more)

    def on_row(self, row: int) -> int:
        """Return how many of the pods are on a row."""
        return self.column.cells[row]

    def domains(self, topology: Topology) -> Tally:
        """Return how many of the pods are in each domain."""
        known = self._tallies.get(topology.key)
        if known is not None:
            return known[1]
        tally = Tally(topology.room)
        np.add.at(tally.values, topology.values, self.column.values)
        tally.values[0] = 0
        tally.total = int(tally.values.sum())
        self._tallies[topology.key] = (topology, tally)
        topology.follow(self)
        return tally

    def __repr__(self) -> str:
        return f"<PodCount of {int(self.column.values.sum())} pods>"
