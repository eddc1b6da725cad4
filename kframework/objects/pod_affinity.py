"""Inter-pod affinity terms, compiled: which pods a term is about, in which topology."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kframework.objects.label_selectors import Selector, SelectorError, label_selector
from kframework.objects.pod import PodAffinity, PodAffinityTerm, PodAntiAffinity, PodSpec, WeightedPodAffinityTerm


class AffinityTerm(NamedTuple):
    """A term as its holder means it: without namespaces and namespaceSelector it is about the holder's own namespace.

    `matchLabelKeys` and `mismatchLabelKeys` are merged into the selector by the API server (KEP-3633).
    """

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector

    def matches(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        """Return whether the term is about pods with these labels in this namespace, which has those labels."""
        of_namespace = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return of_namespace and self.selector.matches(labels)


class PodTerms(NamedTuple):
    """All terms of a pod: required ones, and preferred ones with their weight, negative to keep away.

    `problem` says what could not be read; of the list that it stands in no term counts.
    """

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[tuple[int, AffinityTerm], ...] = ()
    problem: str = ""


def pod_terms(namespace: str, spec: PodSpec) -> PodTerms:
    """Compile the terms of a pod of this namespace."""
    affinity = spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return PodTerms()
    near, away = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAntiAffinity()
    lists = _Lists(namespace)
    required = lists.required("requiredAffinityTerms", near.required_during_scheduling_ignored_during_execution)
    refused = lists.required("requiredAntiAffinityTerms", away.required_during_scheduling_ignored_during_execution)
    preferred = near.preferred_during_scheduling_ignored_during_execution
    avoided = away.preferred_during_scheduling_ignored_during_execution
    weighted = lists.preferred("preferredAffinityTerms", 1, preferred)
    weighted += lists.preferred("preferredAntiAffinityTerms", -1, avoided)
    return PodTerms(required, refused, weighted, lists.problem())


class _Lists:
    """Compiles the lists of one pod, each as a whole or not at all, and gathers what is wrong with them."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._problems: list[str] = []

    def required(self, title: str, terms: Sequence[PodAffinityTerm]) -> tuple[AffinityTerm, ...]:
        try:
            return tuple(_compiled(self._namespace, term) for term in terms)
        except SelectorError as error:
            self._problems.append(f"{title}: {error}")
            return ()

    def preferred(
        self, title: str, sign: int, terms: Sequence[WeightedPodAffinityTerm]
    ) -> tuple[tuple[int, AffinityTerm], ...]:
        compiled = self.required(title, [term.pod_affinity_term for term in terms])
        return tuple((sign * term.weight, each) for term, each in zip(terms, compiled, strict=False))

    def problem(self) -> str:
        """Say what is wrong, several things in brackets."""
        problems = ", ".join(self._problems)
        return f"[{problems}]" if len(self._problems) > 1 else problems


def _compiled(namespace: str, term: PodAffinityTerm) -> AffinityTerm:
    own = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        term.topology_key,
        label_selector(term.label_selector),
        frozenset((namespace,)) if own else frozenset(term.namespaces),
        label_selector(term.namespace_selector),
    )
