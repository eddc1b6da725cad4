"""Counts of pods of a kind by row and domain, updated on every change, never computed by a loop over pods.

The source is sparse: each label class knows its pods per row. A selection gets a dense count per row and per domain of
a topology on first use, summed from its classes once and kept current from then on. The reverse, terms of existing pods
about other pods, is in `existing_terms`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kframework.objects import ContainerImage
from kframework.state.pod_counts import AllOf, LabelClass, PodCount, Selection, WeightedSelections
from kframework.state.row_counts import LabelPair, lookup

#: The memory for dense counts, in bytes; the least recently used are dropped and rebuilt on demand.
_BUDGET = 64 << 20
#: The size of a count per row: a cell of its column, and one of the tally on a topology of single nodes.
_PER_ROW = 16
#: Its fixed size, in bytes: its objects (2,100 measured), those of its tallies, its entries in classes.
_PER_COUNT = 3072
#: The maximum number of dense counts, however small the cluster: pods with unique labels, which need new ones all the
#: time, would otherwise use the whole budget.
_MAX_COUNTS = 2048
#: The minimum number of dense counts: one cycle uses several at once.
_MIN_COUNTS = 64
#: A class with more counts drops those not read for `_STALE_AFTER` changes plus the changes that building them took:
#: each count costs 0.2 us whenever another pod is added or removed.
_MAX_PER_CLASS = 8
_STALE_AFTER = 256


class Counters:
    """The counts in use."""

    def __init__(self, capacity: int) -> None:
        self._set_capacity(capacity)
        self._counts: OrderedDict[AllOf | WeightedSelections, PodCount] = OrderedDict()
        self._counts_by_label: dict[LabelPair | None, list[PodCount]] = {}
        #: The classes that have or recently had pods on nodes, by namespace.
        self._classes: dict[str, dict[LabelClass, None]] = {}
        #: The same by namespace and value of a label, for each label used in a lookup since the last sweep.
        self._classes_by_label: dict[str, dict[tuple[str, str], list[LabelClass]]] = {}
        self._registered = 0
        self._sweep_at = 1024
        self._sweeps = 0
        #: Whether the classes without pods should be dropped, as there are too many.
        self.sweep_is_due: bool = False
        #: Counts the counts that were dropped: who holds one looks here whether it may be out of date.
        self.dropped: int = 0

    def _set_capacity(self, capacity: int) -> None:
        self._capacity = capacity
        self._limit = max(_MIN_COUNTS, min(_MAX_COUNTS, _BUDGET // (_PER_COUNT + _PER_ROW * capacity)))

    def count(self, *selections: Selection) -> PodCount:
        """Return the count of the pods that match all of these selections; it stays current while in use."""
        return self.count_for(AllOf(selections))

    def count_for(self, selection: AllOf | WeightedSelections) -> PodCount:
        """Return the count of the selected pods; it stays current while in use."""
        count = self._counts.get(selection)
        if count is not None:
            count.changes_since_read, count.sweep = -count.rebuild_cost, self._sweeps
            self._counts.move_to_end(selection)
            return count
        count = self._counts[selection] = PodCount(selection, self._capacity)
        self._counts_by_label.setdefault(next(iter(selection.required_labels), None), []).append(count)
        for pods in self._candidates(selection):
            weight = selection.weight(pods)
            if weight:
                assert pods.counts is not None
                pods.counts[count] = weight
                for row, number in pods.pods.items():
                    count.add(row, weight * number)
        count.rebuild_cost, count.changes_since_read, count.sweep = (
            count.changes_since_read,
            -count.changes_since_read,
            self._sweeps,
        )
        if len(self._counts) > 2 * self._limit:  # more than the limit no cycle uses
            self._drop(next(iter(self._counts.values())))
        return count

    def register(self, pods: LabelClass) -> dict[PodCount, int]:
        """Add a class that gets its first pod on a node; return the counts it belongs to."""
        self._registered += 1
        self.sweep_is_due = self._registered > self._sweep_at
        self._classes.setdefault(pods.namespace, {})[pods] = None
        for key in pods.labels.keys() & self._classes_by_label.keys():
            _add_by_label(self._classes_by_label[key], key, pods)
        weights = ((count, count.selection.weight(pods)) for count in lookup(self._counts_by_label, pods.labels))
        pods.counts = {count: weight for count, weight in weights if weight}
        return pods.counts

    def drop_stale(self, pods: LabelClass) -> None:
        """Drop the counts of a class that cost more to update than to rebuild on demand, and what is too much.

        Call it only when no cycle uses counts; the most recently used ones stay for readers outside of cycles.
        """
        if self.sweep_is_due:
            self._sweep()
        while len(self._counts) > self._limit:
            self._drop(next(iter(self._counts.values())))
        counts = pods.counts or {}
        if len(counts) > _MAX_PER_CLASS:
            stale = [count for count in counts if count.changes_since_read > _STALE_AFTER]
            last = list(islice(reversed(self._counts.values()), _MAX_PER_CLASS)) if stale else ()
            for count in stale:
                if count not in last:
                    self._drop(count)

    def grow(self, capacity: int) -> None:
        self._set_capacity(capacity)
        for count in self._counts.values():
            count.column.grow(capacity)

    def _candidates(self, selection: AllOf | WeightedSelections) -> Iterator[LabelClass]:
        """Yield the classes that may match: in each namespace those with the rarest of the required labels."""
        namespaces, labels = selection.namespaces, selection.required_labels
        for namespace in self._classes if namespaces is None else namespaces & self._classes.keys():
            groups = (self._classes_with_label(key).get((namespace, value), ()) for key, value in labels)
            yield from min(groups, key=len, default=self._classes[namespace])

    def _classes_with_label(self, key: str) -> Mapping[tuple[str, str], Collection[LabelClass]]:
        classes = self._classes_by_label.get(key)
        if classes is None:
            classes = self._classes_by_label[key] = {}
            for pods in chain.from_iterable(self._classes.values()):
                _add_by_label(classes, key, pods)
        return classes

    def _drop(self, count: PodCount) -> None:
        self._remove(count)
        for pods in self._candidates(count.selection):
            if pods.counts is not None:
                pods.counts.pop(count, None)

    def _remove(self, count: PodCount) -> None:
        self.dropped += 1
        del self._counts[count.selection]
        label = next(iter(count.selection.required_labels), None)
        self._counts_by_label[label].remove(count)
        if not self._counts_by_label[label]:
            del self._counts_by_label[label]

    def _sweep(self) -> None:
        """Drop classes without pods on nodes, and counts that are empty and unused since the last sweep.

        Rebuilding an empty count is free, and counts that a cycle uses were requested just now.
        """
        for namespace, classes in list(self._classes.items()):
            for pods in [pods for pods in classes if not pods.pods]:
                del classes[pods]
                pods.counts = None
                self._registered -= 1
            if not classes:
                del self._classes[namespace]
        self._classes_by_label.clear()
        self._sweep_at, self.sweep_is_due = 2 * self._registered + 1024, False
        stale = (count for count in self._counts.values() if count.sweep < self._sweeps)
        empty = {count for count in stale if not count.column.values.any()}
        for count in empty:
            self._remove(count)
        for pods in chain.from_iterable(self._classes.values()) if empty else ():
            for count in empty.intersection(pods.counts or ()):
                assert pods.counts is not None
                del pods.counts[count]
        self._sweeps += 1


def _add_by_label(classes: dict[tuple[str, str], list[LabelClass]], key: str, pods: LabelClass) -> None:
    """Index a class by its namespace and its value of a label, if it has that label."""
    value = pods.labels.get(key)
    if value is not None:
        classes.setdefault((pods.namespace, value), []).append(pods)


class ImageState(NamedTuple):
    """An image under one of its names: its size in bytes, and a bit set of the rows of its nodes."""

    size: int
    rows: int

    @property
    def node_count(self) -> int:
        return self.rows.bit_count()

    def is_on(self, row: int) -> bool:
        return bool(self.rows >> row & 1)

    def column(self, capacity: int) -> NDArray[np.int64]:
        """Return 1 for every row that has the image, as a column of the node table."""
        return _unpack_bits(self.rows, capacity).astype(np.int64)


class ImageStates:
    """The images on all nodes, by the names that the nodes report.

    The size is the one that the first node reported; it stays until no node has the image any more.
    """

    def __init__(self) -> None:
        self._states: dict[str, ImageState] = {}

    def get(self, name: str) -> ImageState | None:
        return self._states.get(name)

    def add(self, row: int, images: Iterable[ContainerImage]) -> None:
        for name, size in _names_with_sizes(images):
            first, rows = self._states.get(name) or (size, 0)
            self._states[name] = ImageState(first, rows | 1 << row)

    def remove(self, row: int, images: Iterable[ContainerImage]) -> None:
        for name in dict(_names_with_sizes(images)):
            size, rows = self._states.pop(name)
            rows &= ~(1 << row)
            if rows:
                self._states[name] = ImageState(size, rows)

    def replace(self, row: int, old: Iterable[ContainerImage], new: Iterable[ContainerImage]) -> list[int]:
        """Update the images of a node; list the rows of other nodes with an image whose state changed."""
        before = {name: self.get(name) for name, _ in (*_names_with_sizes(old), *_names_with_sizes(new))}
        self.remove(row, old)
        self.add(row, new)
        changed = 0
        for name, state in before.items():
            after = self.get(name)
            if after != state:
                changed |= (state.rows if state else 0) | (after.rows if after else 0)
        changed &= ~(1 << row)
        rows: list[int] = np.flatnonzero(_unpack_bits(changed, changed.bit_length())).tolist()
        return rows


def _names_with_sizes(images: Iterable[ContainerImage]) -> Iterator[tuple[str, int]]:
    return ((name, image.size_bytes) for image in images for name in image.names)


def _unpack_bits(rows: int, length: int) -> NDArray[np.uint8]:
    packed = np.frombuffer(rows.to_bytes((length + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(packed, count=length, bitorder="little")
