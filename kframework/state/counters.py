"""How many pods of a kind run where: counts that are kept current on every change, never made by a loop over pods.

The truth is sparse: each label class counts its pods per row. A *term* (namespaces and a selector) is a dense column
over the rows, summed from its classes when first asked for and kept current from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kframework.state.columns import Column
from kframework.state.nodes import NodeTable
from kframework.state.pods import Interned, LabelClass

__all__ = ["Counters", "Selects"]

#: Tells whether a term selects pods of this namespace with these labels.
Selects = Callable[[str, Mapping[str, str]], bool]


class Counters:
    """The terms in use, by a key that equal terms share."""

    def __init__(self, nodes: NodeTable, interned: Interned) -> None:
        self._nodes = nodes
        self._interned = interned
        self._terms: dict[object, tuple[Selects, Column]] = {}
        interned.on_new_class(self._join)

    def term(self, key: object, selects: Selects) -> Column:
        """Return the number of selected pods per row, as a column that stays current until the term is dropped."""
        if key in self._terms:
            return self._terms[key][1]
        column = Column(self._nodes.capacity)
        self._nodes.keep(column)
        self._terms[key] = (selects, column)
        for label_class in self._interned.classes():
            if selects(label_class.namespace, label_class.labels):
                label_class.terms.append(column)
                for row, pods in label_class.pods.items():
                    column.cells[row] += pods
        return column

    def drop(self, key: object) -> None:
        """Stop counting a term."""
        _, column = self._terms.pop(key)
        self._nodes.release(column)
        for label_class in self._interned.classes():
            label_class.terms = [term for term in label_class.terms if term is not column]

    def _join(self, label_class: LabelClass) -> None:
        for selects, column in self._terms.values():
            if selects(label_class.namespace, label_class.labels):
                label_class.terms.append(column)

    def __len__(self) -> int:
        return len(self._terms)
