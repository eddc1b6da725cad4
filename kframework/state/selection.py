"""Which nodes a selector chooses, many rows at once: what `kframework.objects.node_selectors` says of one node.

Labels are interned, so a condition is a comparison of small integers, or is asked once for each value of the label.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from kframework.objects import NodeSelectorRequirement, NodeSelectorTerm, PodSpec, PreferredSchedulingTerm
from kframework.objects.node_selectors import NodeSelectorTerms, required_node_selector
from kframework.state.nodes import NodeTable
from kframework.values.scores import Rows

#: One truth value for each row.
Mask = NDArray[np.bool_]


def required(nodes: NodeTable, spec: PodSpec, rows: Rows) -> Mask:
    """Tell on which rows a pod's nodeSelector and required node affinity let it run."""
    chosen = labelled(nodes, spec.node_selector, rows)
    selector = required_node_selector(spec)
    return chosen if selector is None else chosen & matched(nodes, selector.node_selector_terms, rows)


def labelled(nodes: NodeTable, labels: Mapping[str, str], rows: Rows) -> Mask:
    """Tell which rows carry all of these labels."""
    chosen = _all(nodes, rows)
    for key, value in labels.items():
        chosen &= _one_of(nodes, key, (value,), rows)
    return chosen


def matched(nodes: NodeTable, terms: Iterable[NodeSelectorTerm], rows: Rows) -> Mask:
    """Tell which rows one of the terms matches; empty terms and those that do not parse match none."""
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
        case _:  # Gt and Lt need an integer, so they do not hold without the label, nor where it is empty
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
        same[:] = value == ""  # nodes have no other field
    elif (row := nodes.row(value)) is not None:
        same[row] = True
    return same[rows] if field.operator == "In" else ~same[rows]


def _all(nodes: NodeTable, rows: Rows) -> Mask:
    return np.ones(nodes.capacity, dtype=np.bool_)[rows]
