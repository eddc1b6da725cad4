"""Node selectors and node affinity, required and preferred, as functions of a node's labels and name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from kframework.objects.label_selectors import (
    Matcher,
    Requirement,
    Selector,
    SelectorError,
    all_of,
    exact_selector,
    read_requirement,
)
from kframework.objects.node import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kframework.objects.pod import NodeAffinity, PodSpec, PreferredSchedulingTerm

#: Answers for a node's labels and name.
NodePredicate = Callable[[Mapping[str, str], str], bool]
NodeScore = Callable[[Mapping[str, str], str], int]

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def node_affinity(spec: PodSpec) -> NodeAffinity | None:
    return spec.affinity.node_affinity if spec.affinity else None


def required_node_selector(spec: PodSpec) -> NodeSelector | None:
    affinity = node_affinity(spec)
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def names_nodes(selector: NodeSelector | None) -> bool:
    """Return whether a selector is about fields, that is, names of nodes."""
    return selector is not None and any(term.match_fields for term in selector.node_selector_terms)


def required_node_affinity(spec: PodSpec) -> NodePredicate | None:
    """Compile nodeSelector AND required node affinity; None when the pod states neither.

    A term that does not parse matches no node and hides no other; a required affinity without terms matches none.
    """
    required = required_node_selector(spec)
    by_affinity = node_predicate(required) if required is not None else None
    if not spec.node_selector:
        return by_affinity
    by_labels = exact_selector(spec.node_selector).matches
    if by_affinity is None:
        return lambda labels, _: by_labels(labels)
    return lambda labels, name: by_labels(labels) and by_affinity(labels, name)


def node_predicate(selector: NodeSelector) -> NodePredicate:
    return NodeSelectorTerms(selector.node_selector_terms).matches


def pinned_nodes(spec: PodSpec) -> frozenset[str] | None:
    """Name the only nodes that the required terms' `metadata.name` fields leave, None when any node may do.

    An empty set means that the terms contradict themselves. The names are an upper bound: labels still decide.
    """
    required = required_node_selector(spec)
    if required is None or not required.node_selector_terms:
        return None
    union: set[str] = set()
    for term in required.node_selector_terms:
        named = [
            frozenset(field.values)
            for field in term.match_fields
            if field.key == "metadata.name" and field.operator == "In"
        ]
        if not named:
            return None
        union |= frozenset.intersection(*named)
    return frozenset(union)


# --- terms ------------------------------------------------------------------------------------------------------------


class NodeSelectorTerms:
    """Node selector terms; at least one must match.

    Empty terms match no node. A term that does not parse never matches and does not hide the others; its error is
    in `errors`.
    """

    __slots__ = ("_terms", "errors")

    def __init__(self, terms: Iterable[NodeSelectorTerm]) -> None:
        self._terms: list[NodePredicate] = []
        errors: list[SelectorError] = []
        for term in terms:
            if term.match_expressions or term.match_fields:
                try:
                    self._terms.append(_node_term(term))
                except SelectorError as error:
                    errors.append(error)
        self.errors: tuple[SelectorError, ...] = tuple(errors)

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        return any(term(labels, name) for term in self._terms)


def preferred_node_score(terms: Iterable[PreferredSchedulingTerm]) -> NodeScore:
    """Compile preferred terms to a function (labels, name) -> sum of the weights of those that match.

    Terms of weight 0 and empty ones are skipped without parsing; SelectorError if another does not parse.
    """
    weighted = [
        (term.weight, _node_term(term.preference))
        for term in terms
        if term.weight and (term.preference.match_expressions or term.preference.match_fields)
    ]

    def score(labels: Mapping[str, str], name: str) -> int:
        return sum(weight for weight, matches in weighted if matches(labels, name))

    return score


def _node_term(term: NodeSelectorTerm) -> NodePredicate:
    by_labels = Selector(read_requirement("node label", _OPERATORS, each) for each in term.match_expressions).matches
    if not term.match_fields:
        return lambda labels, _: by_labels(labels)
    by_fields = field_selector(map(_field_requirement, term.match_fields)).matches

    def matches(labels: Mapping[str, str], name: str) -> bool:
        return by_labels(labels) and (not name or by_fields({"metadata.name": name}))

    return matches


def _field_requirement(expression: NodeSelectorRequirement) -> Requirement:
    if expression.operator not in ("In", "NotIn"):
        raise SelectorError(
            f"node field {expression.key!r}: unknown operator {expression.operator!r} (known: In, NotIn)"
        )
    if len(expression.values) != 1:
        raise SelectorError(f"node field {expression.key!r}: exactly one value is needed")
    return Requirement(expression.key, "=" if expression.operator == "In" else "!=", expression.values)


_WORD = re.compile(r"(?:\\.|[^,])+", re.DOTALL)
_TERM = re.compile(r"((?:(?!!?=).)+)(!=|==|=)((?:\\[\\,=]|[^\\,=])*)", re.DOTALL)


def parse_field_selector(text: str) -> Selector:
    r"""Read a selector as kubectl's `--field-selector` takes it (`spec.nodeName=x,status.phase!=Failed`).

    A field that the mapping lacks counts as empty. In values `\` escapes `,`, `=` and itself. Raises SelectorError.
    """
    requirements = []
    for term in _WORD.findall(text):
        parts = _TERM.fullmatch(term)
        if parts is None:
            raise SelectorError(f"field selector {text!r}: {term!r} is not <field>=<value>, == or !=")
        key, operator, value = parts.groups()
        value = re.sub(r"\\(.)", r"\1", value)
        requirements.append(Requirement(key, "!=" if operator == "!=" else "=", (value,)))
    return field_selector(requirements)


def field_selector(requirements: Iterable[Requirement]) -> Selector:
    """Compile requirements on fields, of the operators `=` and `!=`; a field that is absent counts as empty."""
    requirements = tuple(requirements)
    return Selector(requirements, all_of(map(_matcher, requirements)))


def _matcher(requirement: Requirement) -> Matcher:
    key, operator, (value,) = requirement
    if operator == "=":
        return lambda fields: fields.get(key, "") == value
    return lambda fields: fields.get(key, "") != value
