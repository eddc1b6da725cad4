"""Inter-pod affinity of a pod to be scheduled: its own terms, and those of existing pods that match it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

from kframework.state.existing_terms import AffinityTerm, MatchingTerms, PodTerms, terms_of
from kframework.state.nodes import NodeTable
from kframework.state.pod_counts import AllOf, LabelClass, Selection, WeightedSelections
from kframework.state.pod_templates import PodTemplate
from kframework.state.pods import PodInfo
from kframework.state.selection import Namespaces

NO_LABELS: Mapping[str, str] = {}


#: A factor, a topology, and the pods to count in its domains.
Sum = tuple[int, str, AllOf | WeightedSelections]


class IncomingTerms(NamedTuple):
    """The terms of a pod, with their namespace selectors resolved.

    `affinity` are the conditions that one pod must meet to satisfy the required affinity, `keys` the topologies whose
    domains must have such a pod. The other terms are combined by topology, preferred ones by sign too;
    `single_anti_affinity` are uncombined. `problem` is the parse error, if any.
    """

    affinity: AllOf | None = None
    keys: tuple[str, ...] = ()
    single_anti_affinity: tuple[tuple[str, Selection], ...] = ()
    anti_affinity: tuple[Sum, ...] = ()
    preferred: tuple[Sum, ...] = ()
    problem: str = ""

    def is_met_by(self, pods: LabelClass) -> bool:
        return self.affinity is not None and self.affinity.weight(pods) > 0


_NO_TERMS = IncomingTerms()
_UNRESOLVED: tuple[int | None, IncomingTerms] = (-1, _NO_TERMS)


class Affinities:
    """Cached data about the terms of pods, valid until a relevant namespace changes."""

    def __init__(self, namespaces: Namespaces) -> None:
        self.namespaces: Namespaces = namespaces
        #: By template and namespace, with the generation of namespaces; None if it depends on none.
        self._incoming_terms: WeakKeyDictionary[PodTemplate, dict[str, tuple[int | None, IncomingTerms]]] = (
            WeakKeyDictionary()
        )

    def incoming_terms(self, pod: PodInfo) -> IncomingTerms:
        if not pod.template.has_terms:
            return _NO_TERMS
        by_namespace = self._incoming_terms.setdefault(pod.template, {})
        generation, incoming_terms = by_namespace.get(pod.namespace, _UNRESOLVED)
        if generation is not None and generation != self.namespaces.generation:
            terms = terms_of(pod)
            every = (*terms.affinity, *terms.anti_affinity, *(term for _, term in terms.preferred))
            choose_namespaces = any(term.namespace_selector.requirements for term in every)
            generation = self.namespaces.generation if choose_namespaces else None
            incoming_terms = self._resolve(terms)
            by_namespace[pod.namespace] = (generation, incoming_terms)
        return incoming_terms

    def _resolve(self, terms: PodTerms) -> IncomingTerms:
        anti_affinity = tuple((term.topology_key, self._selection(term)) for term in terms.anti_affinity)
        return IncomingTerms(
            AllOf(tuple(self._selection(term) for term in terms.affinity)) if terms.affinity else None,
            tuple(dict.fromkeys(term.topology_key for term in terms.affinity)),
            anti_affinity,
            _combine((1, key, selection) for key, selection in anti_affinity),
            _combine((weight, term.topology_key, self._selection(term)) for weight, term in terms.preferred),
            terms.problem,
        )

    def _selection(self, term: AffinityTerm) -> Selection:
        """Return the pods that a term matches.

        kube-scheduler adds the namespaces that the selector matches to the listed ones, and then still matches the
        selector against empty labels: if it matches these, the term applies to every namespace.
        """
        if term.namespace_selector.matches(NO_LABELS):
            return Selection(None, term.selector)
        if not term.namespace_selector.requirements:
            return Selection(term.namespaces, term.selector)
        return Selection(term.namespaces | self.namespaces.matching(term.namespace_selector), term.selector)

    def existing_terms(self, pod: PodInfo, nodes: NodeTable) -> MatchingTerms:
        """Return the terms in use that match a pod; some may have lost their last pod."""
        return nodes.existing_terms.terms_matching(pod.label_class, self.namespaces.labels(pod.namespace))


def _combine(terms: Iterable[tuple[int, str, Selection]]) -> tuple[Sum, ...]:
    """Join terms of one topology and sign; a single one shares its count with others for the same pods."""
    by_key: dict[tuple[str, int], list[tuple[int, Selection]]] = {}
    for weight, key, selection in terms:
        sign = (weight > 0) - (weight < 0)
        by_key.setdefault((key, sign), []).append((weight, selection))
    return tuple(
        (weighted[0][0], key, AllOf((weighted[0][1],)))
        if len(weighted) == 1
        else (sign, key, WeightedSelections(tuple((abs(weight) or 1, selection) for weight, selection in weighted)))
        for (key, sign), weighted in by_key.items()
    )
