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


def match_required(nodes: NodeTable, spec: PodSpec, rows: Rows) -> Mask:
    """Return a mask of the rows that match a pod's nodeSelector and required node affinity."""
    mask = match_labels(nodes, spec.node_selector, rows)
    selector = required_node_selector(spec)
    return mask if selector is None else mask & match_terms(nodes, selector.node_selector_terms, rows)


def match_labels(nodes: NodeTable, labels: Mapping[str, str], rows: Rows) -> Mask:
    """Return a mask of the rows that carry all of these labels."""
    mask = _all_rows(nodes, rows)
    for key, value in labels.items():
        mask &= _match_values(nodes, key, (value,), rows)
    return mask


def match_terms(nodes: NodeTable, terms: Iterable[NodeSelectorTerm], rows: Rows) -> Mask:
    """Return a mask of the rows that one of the terms matches; empty and invalid terms match none."""
    mask = ~_all_rows(nodes, rows)
    for term in terms:
        if (term.match_expressions or term.match_fields) and not NodeSelectorTerms((term,)).errors:
            mask |= _match_term(nodes, term, rows)
    return mask


def score_preferred(nodes: NodeTable, terms: Iterable[PreferredSchedulingTerm], rows: Rows) -> NDArray[np.int64]:
    """Add up the weights of the terms that match, for each row."""
    score = np.zeros(nodes.capacity, dtype=np.int64)[rows]
    for term in terms:
        score += term.weight * match_terms(nodes, (term.preference,), rows)
    return score


def _match_term(nodes: NodeTable, term: NodeSelectorTerm, rows: Rows) -> Mask:
    conditions = [_match_expression(nodes, expression, rows) for expression in term.match_expressions]
    conditions += [_match_field(nodes, field, rows) for field in term.match_fields]
    return reduce(np.logical_and, conditions)


def _match_expression(nodes: NodeTable, expression: NodeSelectorRequirement, rows: Rows) -> Mask:
    column = nodes.label(expression.key)
    match expression.operator:
        case "In":
            return _match_values(nodes, expression.key, expression.values, rows)
        case "NotIn":
            return ~_match_values(nodes, expression.key, expression.values, rows)
        case "Exists":
            return np.not_equal(column.values[rows], 0)
        case "DoesNotExist":
            return np.equal(column.values[rows], 0)
        case _:  # Gt and Lt need an integer, so they fail if the label is missing or empty
            alone = NodeSelectorTerms((NodeSelectorTerm(match_expressions=(expression,)),))
            holds = [alone.matches({expression.key: value or ""}, "") for value in column.meanings]
            return np.array(holds)[column.values[rows]]


def _match_values(nodes: NodeTable, key: str, values: Iterable[str], rows: Rows) -> Mask:
    column = nodes.label(key)
    codes = column.values[rows]
    mask = ~_all_rows(nodes, rows)
    for value in values:
        code = column.find_code(value)
        if code is not None:
            mask |= codes == code
    return mask


def _match_field(nodes: NodeTable, field: NodeSelectorRequirement, rows: Rows) -> Mask:
    (value,) = field.values
    same = np.zeros(nodes.capacity, dtype=np.bool_)
    if field.key != "metadata.name":
        same[:] = value == ""  # metadata.name is the only field of nodes
    elif (row := nodes.row(value)) is not None:
        same[row] = True
    return same[rows] if field.operator == "In" else ~same[rows]


def _all_rows(nodes: NodeTable, rows: Rows) -> Mask:
    return np.ones(nodes.capacity, dtype=np.bool_)[rows]


#: The number of cached names, all selectors together; each selector counts as 64 more, as it takes a kilobyte itself.
#: The least recently used are dropped.
_MAX_NAMES, _SELECTOR_COST = 500_000, 64
#: A selector is also dropped if it is unused while this many namespaces change: where namespaces come and go, so do the
#: pods that select them.
_STALE_AFTER = 64
#: The number of logged changes; a selector unused for longer is matched against all namespaces.
_LOG_SIZE = 1_024


class Namespaces:
    """An index of the store of Namespaces: results derived from it are valid until `generation` changes."""

    def __init__(self, store: ObjectStore[Namespace]) -> None:
        self._store = store
        #: Counts the namespaces that came, went, or were given other labels.
        self.generation: int = 0
        #: The names of those that did, youngest last.
        self._changes: list[str] = []
        #: The matches of selectors with their generation, least recently used first.
        self._matches: OrderedDict[Selector, tuple[int, frozenset[str]]] = OrderedDict()
        self._names = 0
        store.on_change(self._on_change)

    def labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace; an unknown namespace has none."""
        namespace = self._store.get(name)
        return namespace.metadata.labels if namespace is not None else {}

    def matching(self, selector: Selector) -> frozenset[str]:
        """Return the names of the namespaces whose labels match; only those changed since the last call are matched."""
        generation, names = self._matches.pop(selector, (-1, None))
        if names is None or self.generation - generation > len(self._changes):
            matches = frozenset(each.metadata.name for each in self._store if selector.matches(each.metadata.labels))
        else:
            matches = self._update_matches(
                selector, names, self._changes[len(self._changes) - (self.generation - generation) :]
            )
        self._matches[selector] = (self.generation, matches)
        self._names += _cost(matches) - (_cost(names) if names is not None else 0)
        while len(self._matches) > 1:
            age = self.generation - next(iter(self._matches.values()))[0]
            if self._names <= _MAX_NAMES and age <= _STALE_AFTER:
                break
            self._names -= _cost(self._matches.popitem(last=False)[1][1])
        return matches

    def _update_matches(self, selector: Selector, names: frozenset[str], changed: list[str]) -> frozenset[str]:
        namespaces = ((name, self._store.get(name)) for name in dict.fromkeys(changed))
        matches = {name: each is not None and selector.matches(each.metadata.labels) for name, each in namespaces}
        if all(matches[name] == (name in names) for name in matches):
            return names
        return (names - matches.keys()) | {name for name in matches if matches[name]}

    def _on_change(self, old: Namespace | None, new: Namespace | None) -> None:
        if old is None or new is None or old.metadata.labels != new.metadata.labels:
            changed = new or old
            assert changed is not None
            self.generation += 1
            self._changes.append(changed.metadata.name)
            if len(self._changes) > 2 * _LOG_SIZE:
                del self._changes[:_LOG_SIZE]


def _cost(names: frozenset[str]) -> int:
    return len(names) + _SELECTOR_COST
