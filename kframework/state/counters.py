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
from kframework.state.row_counts import Pair, found

#: The memory for dense counts, in bytes; the least recently used are dropped and rebuilt on demand.
_BUDGET = 64 << 20
#: The size of a count per row: a cell of its column, and one of the tally on a topology of single nodes.
_PER_ROW = 16
#: Its fixed size, in bytes: its objects (2,100 measured), those of its tallies, its entries in classes.
_PER_COUNT = 3072
#: The maximum number of dense counts, however small the cluster: pods with unique labels, which need new ones all the
#: time, would otherwise use the whole budget.
_MOST = 2048
#: The minimum number of dense counts: one cycle uses several at once.
_FEWEST = 64
#: The number of counts of a pod class above which those unused for `_UNASKED` changes, plus the changes that building
#: them took, are dropped: each count costs other pods 0.2 us whenever one is added or removed.
_MANY = 8
_UNASKED = 256


class Counters:
    """The counts in use."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._counts: OrderedDict[AllOf | WeightedSelections, PodCount] = OrderedDict()
        self._counts_by_pair: dict[Pair | None, list[PodCount]] = {}
        #: The classes that have or recently had pods on nodes, by namespace.
        self._classes: dict[str, dict[LabelClass, None]] = {}
        #: The same by namespace and value of a label, for each label used in a lookup since the last sweep.
        self._classes_by_label: dict[str, dict[tuple[str, str], list[LabelClass]]] = {}
        self._joined = 0
        self._sweep_at = 1024
        self._sweeps = 0

    def count(self, *selections: Selection) -> PodCount:
        """Return the count of the pods that match all of these selections; it stays current while in use."""
        return self.of(AllOf(selections))

    def of(self, chosen: AllOf | WeightedSelections) -> PodCount:
        """Return the count of the selected pods; it stays current while in use."""
        count = self._counts.get(chosen)
        if count is not None:
            count.unasked, count.sweep = -count.made_of, self._sweeps
            self._counts.move_to_end(chosen)
            return count
        count = self._counts[chosen] = PodCount(chosen, self._capacity)
        self._counts_by_pair.setdefault(next(iter(chosen.pairs), None), []).append(count)
        for pods in self._candidates(chosen):
            weight = chosen.weight(pods)
            if weight:
                assert pods.counts is not None
                pods.counts[count] = weight
                for row, number in pods.pods.items():
                    count.add(row, weight * number)
        count.made_of, count.unasked, count.sweep = count.unasked, -count.unasked, self._sweeps
        most = min(_MOST, _BUDGET // (_PER_COUNT + _PER_ROW * self._capacity))
        while len(self._counts) > max(_FEWEST, most):
            self._drop(next(iter(self._counts.values())))
        return count

    def join(self, pods: LabelClass) -> dict[PodCount, int]:
        """Add a class that gets its first pod on a node; return the counts it belongs to."""
        if self._joined >= self._sweep_at:
            self._sweep()
        self._joined += 1
        self._classes.setdefault(pods.namespace, {})[pods] = None
        for key in pods.labels.keys() & self._classes_by_label.keys():
            _file_by_label(self._classes_by_label[key], key, pods)
        weights = ((count, count.chosen.weight(pods)) for count in found(self._counts_by_pair, pods.labels))
        pods.counts = {count: weight for count, weight in weights if weight}
        return pods.counts

    def drop_stale(self, pods: LabelClass) -> None:
        """Drop the counts of a class that cost more to update than to rebuild on demand.

        Call it only when no cycle uses counts; the most recently used ones stay for readers outside of cycles.
        """
        counts = pods.counts or {}
        if len(counts) > _MANY:
            stale = [count for count in counts if count.unasked > _UNASKED]
            last = list(islice(reversed(self._counts.values()), _MANY)) if stale else ()
            for count in stale:
                if count not in last:
                    self._drop(count)

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        self._capacity = capacity
        for count in self._counts.values():
            count.column.grow(capacity)

    def _candidates(self, chosen: AllOf | WeightedSelections) -> Iterator[LabelClass]:
        """Yield the classes that may match: in each namespace those with the rarest of the required labels."""
        wanted, carried = chosen.namespaces, chosen.pairs
        for namespace in self._classes if wanted is None else wanted & self._classes.keys():
            labelled = (self._labelled(key).get((namespace, value), ()) for key, value in carried)
            yield from min(labelled, key=len, default=self._classes[namespace])

    def _labelled(self, key: str) -> Mapping[tuple[str, str], Collection[LabelClass]]:
        """Return the classes with this label, by namespace and value."""
        labelled = self._classes_by_label.get(key)
        if labelled is None:
            labelled = self._classes_by_label[key] = {}
            for pods in chain.from_iterable(self._classes.values()):
                _file_by_label(labelled, key, pods)
        return labelled

    def _drop(self, count: PodCount) -> None:
        self._remove(count)
        for pods in self._candidates(count.chosen):
            if pods.counts is not None:
                pods.counts.pop(count, None)

    def _remove(self, count: PodCount) -> None:
        del self._counts[count.chosen]
        filed_under = next(iter(count.chosen.pairs), None)
        self._counts_by_pair[filed_under].remove(count)
        if not self._counts_by_pair[filed_under]:
            del self._counts_by_pair[filed_under]

    def _sweep(self) -> None:
        """Drop classes without pods on nodes, and counts that are empty and unused since the last sweep.

        Rebuilding an empty count is free, and counts that a cycle uses were requested just now.
        """
        for namespace, classes in list(self._classes.items()):
            for pods in [pods for pods in classes if not pods.pods]:
                del classes[pods]
                pods.counts = None
                self._joined -= 1
            if not classes:
                del self._classes[namespace]
        self._classes_by_label.clear()
        self._sweep_at = 2 * self._joined + 1024
        stale = (count for count in self._counts.values() if count.sweep < self._sweeps)
        empty = {count for count in stale if not count.column.values.any()}
        for count in empty:
            self._remove(count)
        for pods in chain.from_iterable(self._classes.values()) if empty else ():
            for count in empty.intersection(pods.counts or ()):
                assert pods.counts is not None
                del pods.counts[count]
        self._sweeps += 1


def _file_by_label(labelled: dict[tuple[str, str], list[LabelClass]], key: str, pods: LabelClass) -> None:
    """File a class under its namespace and its value of a label, if it has that label."""
    value = pods.labels.get(key)
    if value is not None:
        labelled.setdefault((pods.namespace, value), []).append(pods)


class ImageState(NamedTuple):
    """An image under one of its names: its size in bytes, and a bit set of the rows of its nodes."""

    size: int
    rows: int

    @property
    def nodes(self) -> int:
        """The number of nodes that have the image."""
        return self.rows.bit_count()

    def on(self, row: int) -> bool:
        """Return whether the node of this row has the image."""
        return bool(self.rows >> row & 1)

    def column(self, capacity: int) -> NDArray[np.int64]:
        """Return 1 for every row that has the image, as a column of the node table."""
        return _bits(self.rows, capacity).astype(np.int64)


class ImageStates:
    """The images on all nodes, by the names that the nodes report.

    The size is the one that the first node reported; it stays until no node has the image any more.
    """

    def __init__(self) -> None:
        self._states: dict[str, ImageState] = {}

    def get(self, name: str) -> ImageState | None:
        """Return the state of an image, None if no node has it."""
        return self._states.get(name)

    def add(self, row: int, images: Iterable[ContainerImage]) -> None:
        """Add the images of a new node."""
        for name, size in _named(images):
            first, rows = self._states.get(name) or (size, 0)
            self._states[name] = ImageState(first, rows | 1 << row)

    def remove(self, row: int, images: Iterable[ContainerImage]) -> None:
        """Remove the images of a node."""
        for name in dict(_named(images)):
            size, rows = self._states.pop(name)
            rows &= ~(1 << row)
            if rows:
                self._states[name] = ImageState(size, rows)

    def replace(self, row: int, old: Iterable[ContainerImage], new: Iterable[ContainerImage]) -> list[int]:
        """Update the images of a node; list the rows of other nodes with an image whose state changed."""
        before = {name: self.get(name) for name, _ in (*_named(old), *_named(new))}
        self.remove(row, old)
        self.add(row, new)
        changed = 0
        for name, state in before.items():
            after = self.get(name)
            if after != state:
                changed |= (state.rows if state else 0) | (after.rows if after else 0)
        changed &= ~(1 << row)
        rows: list[int] = np.flatnonzero(_bits(changed, changed.bit_length())).tolist()
        return rows


def _named(images: Iterable[ContainerImage]) -> Iterator[tuple[str, int]]:
    return ((name, image.size_bytes) for image in images for name in image.names)


def _bits(rows: int, length: int) -> NDArray[np.uint8]:
    packed = np.frombuffer(rows.to_bytes((length + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(packed, count=length, bitorder="little")
