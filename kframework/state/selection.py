"""Node selectors on many rows at once; `kframework.objects.node_selectors` matches one node.

Labels are interned, so a condition is a comparison of small integers, or is evaluated once per value of the label.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from kframework.objects import Namespace, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, PreferredSchedulingTerm
from kframework.objects.label_selectors import Selector
from kframework.objects.node_selectors import NodeSelectorTerms, required_node_selector
from kframework.state.nodes import NodeTable
from kframework.state.objects import ObjectStore
from kframework.values.scores import Rows

#: One truth value for each row.
Mask = NDArray[np.bool_]


def required(nodes: NodeTable, spec: PodSpec, rows: Rows) -> Mask:
    """Return a mask of the rows that match a pod's nodeSelector and required node affinity."""
    chosen = labelled(nodes, spec.node_selector, rows)
    selector = required_node_selector(spec)
    return chosen if selector is None else chosen & matched(nodes, selector.node_selector_terms, rows)


def labelled(nodes: NodeTable, labels: Mapping[str, str], rows: Rows) -> Mask:
    """Return a mask of the rows that carry all of these labels."""
    chosen = _all(nodes, rows)
    for key, value in labels.items():
        chosen &= _one_of(nodes, key, (value,), rows)
    return chosen


def matched(nodes: NodeTable, terms: Iterable[NodeSelectorTerm], rows: Rows) -> Mask:
    """Return a mask of the rows that one of the terms matches; empty and invalid terms match none."""
    chosen = ~_all(nodes, rows)
    for term in terms:
        if (term.match_expressions or term.match_fields) and not NodeSelectorTerms((term,)).errors:
            chosen |= _term(nodes, term, rows)
    return chosen


def preferred(nodes: NodeTable, terms: Iterable[PreferredSchedulingTerm], rows: Rows) -> NDArray[np.int64]:
    """Add up the weights of the terms that match, for each row."""
    score = np.zeros(nodes.capacity, dtype=np.int64)[rows]
    for term in terms:
        score += term.weight * matched(nodes, (term.preference,), rows)
    return score


def _term(nodes: NodeTable, term: NodeSelectorTerm, rows: Rows) -> Mask:
    conditions = [_expression(nodes, expression, rows) for expression in term.match_expressions]
    conditions += [_field(nodes, field, rows) for field in term.match_fields]
    return reduce(np.logical_and, conditions)


def _expression(nodes: NodeTable, expression: NodeSelectorRequirement, rows: Rows) -> Mask:
    column = nodes.label(expression.key)
    match expression.operator:
        case "In":
            return _one_of(nodes, expression.key, expression.values, rows)
        case "NotIn":
            return ~_one_of(nodes, expression.key, expression.values, rows)
        case "Exists":
            return np.not_equal(column.values[rows], 0)
        case "DoesNotExist":
            return np.equal(column.values[rows], 0)
        case _:  # Gt and Lt need an integer, so they fail if the label is missing or empty
            alone = NodeSelectorTerms((NodeSelectorTerm(match_expressions=(expression,)),))
            holds = [alone.matches({expression.key: value or ""}, "") for value in column.meanings]
            return np.array(holds)[column.values[rows]]


def _one_of(nodes: NodeTable, key: str, values: Iterable[str], rows: Rows) -> Mask:
    column = nodes.label(key)
    codes = column.values[rows]
    chosen = ~_all(nodes, rows)
    for value in values:
        code = column.known(value)
        if code is not None:
            chosen |= codes == code
    return chosen


def _field(nodes: NodeTable, field: NodeSelectorRequirement, rows: Rows) -> Mask:
    (value,) = field.values
    same = np.zeros(nodes.capacity, dtype=np.bool_)
    if field.key != "metadata.name":
        same[:] = value == ""  # metadata.name is the only field of nodes
    elif (row := nodes.row(value)) is not None:
        same[row] = True
    return same[rows] if field.operator == "In" else ~same[rows]


def _all(nodes: NodeTable, rows: Rows) -> Mask:
    return np.ones(nodes.capacity, dtype=np.bool_)[rows]


#: The number of cached names, all selectors together; each selector counts as 64 more, as it takes a kilobyte itself.
#: The least recently used are dropped.
_NAMES, _SELECTOR = 500_000, 64
#: A selector is also dropped if it is unused while this many namespaces change: where namespaces come and go, so do the
#: pods that select them.
_UNASKED = 64
#: The number of logged changes; a selector unused for longer is matched against all namespaces.
_CHANGES = 1_024


class Namespaces:
    """An index of the store of Namespaces: results derived from it are valid until `generation` changes."""

    def __init__(self, store: ObjectStore[Namespace]) -> None:
        self._store = store
        #: Counts the namespaces that came, went, or were given other labels.
        self.generation: int = 0
        #: The names of those that did, youngest last.
        self._changes: list[str] = []
        #: The matches of selectors with their generation, least recently used first.
        self._chosen: OrderedDict[Selector, tuple[int, frozenset[str]]] = OrderedDict()
        self._names = 0
        store.on_change(self._changed)

    def labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace; an unknown namespace has none."""
        namespace = self._store.get(name)
        return namespace.metadata.labels if namespace is not None else {}

    def chosen(self, selector: Selector) -> frozenset[str]:
        """Return the names of the namespaces whose labels match; only those changed since the last call are matched."""
        at, names = self._chosen.pop(selector, (-1, None))
        if names is None or self.generation - at > len(self._changes):
            now = frozenset(each.metadata.name for each in self._store if selector.matches(each.metadata.labels))
        else:
            now = self._caught_up(selector, names, self._changes[len(self._changes) - (self.generation - at) :])
        self._chosen[selector] = (self.generation, now)
        self._names += _room(now) - (_room(names) if names is not None else 0)
        while len(self._chosen) > 1:
            unasked = self.generation - next(iter(self._chosen.values()))[0]
            if self._names <= _NAMES and unasked <= _UNASKED:
                break
            self._names -= _room(self._chosen.popitem(last=False)[1][1])
        return now

    def _caught_up(self, selector: Selector, names: frozenset[str], changed: list[str]) -> frozenset[str]:
        found = ((name, self._store.get(name)) for name in dict.fromkeys(changed))
        matches = {name: each is not None and selector.matches(each.metadata.labels) for name, each in found}
        if all(matches[name] == (name in names) for name in matches):
            return names
        return (names - matches.keys()) | {name for name in matches if matches[name]}

    def _changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if old is None or new is None or old.metadata.labels != new.metadata.labels:
            changed = new or old
            assert changed is not None
            self.generation += 1
            self._changes.append(changed.metadata.name)
            if len(self._changes) > 2 * _CHANGES:
                del self._changes[:_CHANGES]


def _room(names: frozenset[str]) -> int:
    return len(names) + _SELECTOR
