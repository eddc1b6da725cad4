"""Inter-pod affinity as it concerns a pod to be scheduled: what its own terms choose, and whose terms are about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

from kframework.objects.pod_affinity import AffinityTerm, PodTerms
from kframework.state.counters import Counters, HeldTerm, Role, Selection, terms_of
from kframework.state.namespaces import Namespaces
from kframework.state.pods import LabelClass, PodInfo, PodTemplate

#: The labels of whatever has none.
NO_LABELS: Mapping[str, str] = {}


class Wishes(NamedTuple):
    """The terms of a pod, with their namespace selectors resolved.

    `company` is what one and the same pod must be to satisfy the required affinity, `keys` the topologies in which such
    pods must be near. The other terms stand with their topology, preferred ones with their weight before it. `problem`
    says what could not be read.
    """

    company: tuple[Selection, ...] = ()
    keys: tuple[str, ...] = ()
    anti_affinity: tuple[tuple[str, Selection], ...] = ()
    preferred: tuple[tuple[int, str, Selection], ...] = ()
    problem: str = ""

    def met_by(self, pods: LabelClass) -> bool:
        """Tell whether such pods are the company that is wanted."""
        return bool(self.company) and all(selection.chooses(pods) for selection in self.company)


_NO_WISHES = Wishes()


class Encounters(NamedTuple):
    """The terms held by pods on nodes that are about a pod."""

    affinity: tuple[HeldTerm, ...]
    anti_affinity: tuple[HeldTerm, ...]
    preferred: tuple[HeldTerm, ...]


class Affinities:
    """What was worked out for pods, remembered until namespaces change or terms come into use that nobody held."""

    def __init__(self, namespaces: Namespaces) -> None:
        self.namespaces: Namespaces = namespaces
        self._wishes: WeakKeyDictionary[PodTemplate, dict[str, Wishes]] = WeakKeyDictionary()
        self._wishes_at = -1
        self._encounters: WeakKeyDictionary[LabelClass, Encounters] = WeakKeyDictionary()
        self._encounters_at = (-1, -1)

    def wishes(self, pod: PodInfo) -> Wishes:
        """Return what the terms of a pod choose."""
        if not pod.template.has_terms:
            return _NO_WISHES
        generation = self.namespaces.generation
        if self._wishes_at != generation:
            self._wishes.clear()
            self._wishes_at = generation
        by_namespace = self._wishes.setdefault(pod.template, {})
        wishes = by_namespace.get(pod.namespace)
        if wishes is None:
            wishes = by_namespace[pod.namespace] = self._resolved(terms_of(pod))
        return wishes

    def _resolved(self, terms: PodTerms) -> Wishes:
        return Wishes(
            tuple(self._selection(term) for term in terms.affinity),
            tuple(dict.fromkeys(term.topology_key for term in terms.affinity)),
            tuple((term.topology_key, self._selection(term)) for term in terms.anti_affinity),
            tuple((weight, term.topology_key, self._selection(term)) for weight, term in terms.preferred),
            terms.problem,
        )

    def _selection(self, term: AffinityTerm) -> Selection:
        """Say which pods a term is about.

        kube-scheduler adds the namespaces that the selector chooses to the listed ones, and then tries the selector on
        empty labels all the same: if it matches these, the term is about every namespace.
        """
        if term.namespace_selector.matches(NO_LABELS):
            return Selection(None, term.selector)
        return Selection(term.namespaces | self.namespaces.chosen(term.namespace_selector), term.selector)

    def encounters(self, pod: PodInfo, counters: Counters) -> Encounters:
        """Return which terms of others are about a pod, of those in use; some may have lost their last holder."""
        at = (counters.version, self.namespaces.generation)
        if self._encounters_at != at:
            self._encounters.clear()
            self._encounters_at = at
        encounters = self._encounters.get(pod.label_class)
        if encounters is None:
            encounters = self._encounters[pod.label_class] = self._met(pod, counters)
        return encounters

    def _met(self, pod: PodInfo, counters: Counters) -> Encounters:
        about = counters.about(pod.namespace, self.namespaces.labels(pod.namespace), pod.labels)

        def of(role: Role) -> tuple[HeldTerm, ...]:
            return tuple(held for held in about if held.role == role)

        return Encounters(of("affinity"), of("anti_affinity"), of("preferred"))

    def __repr__(self) -> str:
        return f"<Affinities of {len(self._wishes)} templates and {len(self._encounters)} label classes>"
