"""Conditions on pods, evaluated together: of thousands, those that a pod meets are found in a few steps."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kframework.objects.label_selectors import NOTHING, Selector
from kframework.state.row_counts import LabelPair

#: The number of conditions that are evaluated one by one: columns take longer for so few.
FEW = 16
#: The number of namespaces for which the conditions that they meet are cached.
_MAX_NAMESPACES = 64

Positions = NDArray[np.int64]


def as_column(numbers: array[int]) -> Positions:
    """Return the numbers as a column, which must be dropped before another number is added."""
    return np.frombuffer(numbers, np.int64) if numbers else np.zeros(0, np.int64)


class SelectorColumns:
    """Selectors as columns: the number of requirements of each that some labels do not meet, for all at once.

    Without labels these are the `In` and `Exists`. Each label changes the numbers of the selectors about it.
    """

    def __init__(self) -> None:
        self._unmet_without_labels = array("q")
        #: By key, or by key and value: the positions of selectors with a requirement that such a label meets, and of
        #: those with one that it violates.
        self._met: dict[str | LabelPair, array[int]] = {}
        self._violated: dict[str | LabelPair, array[int]] = {}

    def add(self, selector: Selector) -> None:
        position, unmet = len(self._unmet_without_labels), int(selector is NOTHING)
        for key, operator, values in selector.requirements:
            is_required = operator in ("=", "==", "In", "Exists")
            unmet += is_required
            about: Iterable[str | LabelPair] = {(key, value) for value in values} or (key,)
            for label in about:
                (self._met if is_required else self._violated).setdefault(label, array("q")).append(position)
        self._unmet_without_labels.append(unmet)

    def match(self, labels: Mapping[str, str]) -> NDArray[np.bool_]:
        """Return a mask of the selectors that match."""
        unmet = as_column(self._unmet_without_labels).copy()
        about: Sequence[str | LabelPair] = (*labels, *labels.items())
        for positions in filter(None, map(self._met.get, about)):
            unmet -= np.bincount(as_column(positions), minlength=len(unmet))
        for positions in filter(None, map(self._violated.get, about)):
            unmet += np.bincount(as_column(positions), minlength=len(unmet))
        mask: NDArray[np.bool_] = unmet == 0
        return mask


class PodConditions:
    """Conditions on the labels and the namespace of a pod, by position.

    A pod is in a namespace of the list, or in one whose labels the second selector matches.
    """

    __slots__ = ("_by_namespace", "_conditions", "_namespace_selectors", "_namespaces", "_selectors", "_size")

    def __init__(self) -> None:
        self._conditions: list[tuple[Selector, Iterable[str], Selector]] = []
        #: The columns, and the number of conditions in them.
        self._size = 0
        self._selectors = SelectorColumns()
        self._namespace_selectors = SelectorColumns()
        self._by_namespace: dict[str, array[int]] = {}
        #: By namespace, its labels, and a mask of the conditions that it meets.
        self._namespaces: dict[str, tuple[Mapping[str, str], NDArray[np.bool_]]] = {}

    def add(self, selector: Selector, namespaces: Iterable[str], namespace_selector: Selector) -> None:
        self._conditions.append((selector, namespaces, namespace_selector))

    def find(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> Positions:
        """Return the positions of the conditions that a pod meets."""
        if len(self._conditions) <= FEW:
            positions = [
                position
                for position, (selector, namespaces, namespace_selector) in enumerate(self._conditions)
                if selector.matches(labels)
                and (namespace in namespaces or namespace_selector.matches(namespace_labels))
            ]
            return np.array(positions, np.int64)
        if self._size < len(self._conditions):
            self._fill()
        # An eighth of the calls of np.flatnonzero.
        return (self._in_namespace(namespace, namespace_labels) & self._selectors.match(labels)).nonzero()[0]

    def _in_namespace(self, namespace: str, labels: Mapping[str, str]) -> NDArray[np.bool_]:
        known = self._namespaces.get(namespace)
        if known is not None and known[0] == labels:
            return known[1]
        mask = self._namespace_selectors.match(labels)
        mask[as_column(self._by_namespace.get(namespace, _NO_POSITIONS))] = True
        if len(self._namespaces) == _MAX_NAMESPACES:
            self._namespaces.clear()
        self._namespaces[namespace] = labels, mask
        return mask

    def _fill(self) -> None:
        self._namespaces.clear()
        for selector, namespaces, namespace_selector in self._conditions[self._size :]:
            self._selectors.add(selector)
            self._namespace_selectors.add(namespace_selector)
            for namespace in namespaces:
                self._by_namespace.setdefault(namespace, array("q")).append(self._size)
            self._size += 1


_NO_POSITIONS: array[int] = array("q")
