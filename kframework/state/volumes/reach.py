"""From which nodes a volume can be reached, told by their labels alone: for one node, and for many rows at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec.structs import replace

from kframework.objects import (
    LabelSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    TopologySelectorTerm,
    VolumeNodeAffinity,
)
from kframework.objects.label_selectors import SelectorError, label_selector
from kframework.objects.node_selectors import NodeSelectorTerms
from kframework.state import selection
from kframework.state.nodes import NodeTable
from kframework.state.selection import Mask
from kframework.values.scores import Rows


class Reach:
    """The nodes whose labels match one of these terms; what a term says of other fields is ignored.

    A term that says nothing at all, or that does not parse, matches no node.
    """

    __slots__ = ("_compiled", "_terms", "anywhere", "labels")

    def __init__(self, terms: Iterable[NodeSelectorTerm]) -> None:
        said = (term for term in terms if term.match_expressions or term.match_fields)
        sound = [replace(term, match_fields=()) for term in said if not NodeSelectorTerms((term,)).errors]
        #: Whether every node is among them.
        self.anywhere: bool = any(not term.match_expressions for term in sound)
        #: The labels that decide; none where every node is among them.
        self.labels: frozenset[str] = frozenset(each.key for term in sound for each in term.match_expressions)
        if self.anywhere:
            self.labels = frozenset()
        self._terms = tuple(sound)
        self._compiled = NodeSelectorTerms(sound)

    @classmethod
    def of_volume(cls, affinity: VolumeNodeAffinity | None) -> Reach:
        """Read the node affinity of a PersistentVolume."""
        required = affinity.required if affinity is not None else None
        return ANYWHERE if required is None else cls(required.node_selector_terms)

    @classmethod
    def of_class(cls, allowed: tuple[TopologySelectorTerm, ...]) -> Reach:
        """Read the allowed topologies of a StorageClass; none means that all are allowed."""
        if not allowed:
            return ANYWHERE
        return cls(
            NodeSelectorTerm(
                match_expressions=tuple(_in(each.key, each.values) for each in term.match_label_expressions)
            )
            for term in allowed
        )

    @classmethod
    def of_capacity(cls, selector: LabelSelector | None) -> Reach:
        """Read the topology of a CSIStorageCapacity; none means that nobody reaches it."""
        if selector is None or not _parses(selector):
            return cls(())
        expressions = [_in(key, (value,)) for key, value in selector.match_labels.items()]
        expressions += [
            NodeSelectorRequirement(key=each.key, operator=each.operator, values=each.values)
            for each in selector.match_expressions
        ]
        return cls((NodeSelectorTerm(match_expressions=tuple(expressions)),)) if expressions else ANYWHERE

    @property
    def label_values(self) -> tuple[str, tuple[str, ...]] | None:
        """The one label that decides and the values that it may have; None if it is not as simple as that."""
        if self.anywhere or len(self._terms) != 1 or len(self._terms[0].match_expressions) != 1:
            return None
        (expression,) = self._terms[0].match_expressions
        return (expression.key, expression.values) if expression.operator == "In" else None

    def covers(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node of these labels is among them."""
        return self.anywhere or self._compiled.matches(labels, "")

    def covered(self, nodes: NodeTable, rows: Rows) -> Mask:
        """Tell which rows are among them."""
        if self.anywhere:
            return np.ones(nodes.capacity, dtype=np.bool_)[rows]
        return selection.matched(nodes, self._terms, rows)


def _parses(selector: LabelSelector) -> bool:
    try:
        label_selector(selector)
    except SelectorError:
        return False
    return True


def _in(key: str, values: tuple[str, ...]) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator="In", values=values)


_ANY_NAME = NodeSelectorRequirement(key="metadata.name", operator="NotIn", values=("",))
#: Every node: a term that says nothing of labels.
ANYWHERE = Reach((NodeSelectorTerm(match_fields=(_ANY_NAME,)),))
