"""Where a pod may and would rather run: functions of a node's labels and name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kframework.objects.node import NodeSelector
from kframework.objects.pod import NodeAffinity, PodSpec
from kframework.objects.selectors import NodeSelector as CompiledNodeSelector
from kframework.objects.selectors import exact, preferred_node_score

#: Answers for a node's labels and name.
NodePredicate = Callable[[Mapping[str, str], str], bool]
NodeScore = Callable[[Mapping[str, str], str], int]


def node_affinity(spec: PodSpec) -> NodeAffinity | None:
    """Find a pod's node affinity."""
    return spec.affinity.node_affinity if spec.affinity else None


def required_node_affinity(spec: PodSpec) -> NodePredicate | None:
    """Compile nodeSelector AND required node affinity; None when the pod states neither.

    A term that does not parse matches no node and hides no other; a required affinity without terms matches none.
    """
    affinity = node_affinity(spec)
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    by_affinity = node_predicate(required) if required is not None else None
    if not spec.node_selector:
        return by_affinity
    by_labels = exact(spec.node_selector).matches
    if by_affinity is None:
        return lambda labels, _: by_labels(labels)
    return lambda labels, name: by_labels(labels) and by_affinity(labels, name)


def preferred_node_affinity(spec: PodSpec) -> NodeScore | None:
    """Compile the preferred node affinity to a sum of weights; None when the pod states none.

    Raises SelectorError when a term does not parse.
    """
    affinity = node_affinity(spec)
    preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    return preferred_node_score(preferred) if preferred else None


def node_predicate(selector: NodeSelector) -> NodePredicate:
    """Compile a node selector, as a pod's or a volume's."""
    return CompiledNodeSelector(selector.node_selector_terms).matches


def pinned_nodes(spec: PodSpec) -> frozenset[str] | None:
    """Name the only nodes that the required terms' `metadata.name` fields leave, None when any node may do.

    An empty set means that the terms contradict themselves. The names are an upper bound: labels still decide.
    """
    affinity = node_affinity(spec)
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
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
