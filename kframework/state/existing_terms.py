"""The affinity terms of existing pods, summed per domain for each incoming pod, however many they are.

Pods with the same terms are counted together, per row. For one label class only the sum matters: each role and topology
has one tally of the weighted sum, built on first use and kept current, shared by all label classes for which the same
owners have the same weights. So the cost of a cycle depends on roles and topologies.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary, ref

from kframework.objects.label_selectors import Selector, SelectorError, label_selector
from kframework.objects.pod import PodAffinity, PodAffinityTerm, PodAntiAffinity, PodSpec
from kframework.state.pod_counts import LabelClass
from kframework.state.pods import PodInfo
from kframework.state.row_counts import LabelPair, add_to_row, lookup, required_labels
from kframework.state.topology import LabelKeys, Tally, Topology

#: The role of an existing term: required affinity or anti-affinity, or a preference.
Role = Literal["affinity", "anti_affinity", "preferred"]

#: A label class looks up its owners again after this many new ones, plus as many as have weight: most may be gone.
_MAX_NEW_OWNERS = 64
#: The memory for the tallies of label classes, in bytes; the oldest are dropped and rebuilt on demand, but never below
#: `_MIN_CACHED`.
_BUDGET = 64 << 20
_MIN_CACHED = 64


class TallyKey(NamedTuple):
    """The key of a sum of terms: a role, the sign of a preference (else 1), and a topology."""

    role: Role
    sign: int
    topology_key: str


class TermOwners:
    """The pods on nodes that have the same terms, counted per row, and the tallies that include them."""

    __slots__ = ("__weakref__", "_attached", "by_label", "rows", "serial")

    def __init__(self, terms: PodTerms, serial: int) -> None:
        self.serial: int = serial
        self.rows: dict[int, int] = {}
        #: Terms by a label that a pod must carry to match; None for terms that require no label.
        self.by_label: dict[LabelPair | None, list[tuple[TallyKey, int, AffinityTerm]]] = {}
        self._attached: list[tuple[ref[TermTally], int]] = []
        for key, weight, term in _keyed_terms(terms):
            self.by_label.setdefault(next(required_labels(term.selector), None), []).append((key, weight, term))

    def weights(self, pods: LabelClass, namespace_labels: Mapping[str, str]) -> dict[TallyKey, int]:
        namespace, labels = pods.namespace, pods.labels
        weights: dict[TallyKey, int] = {}
        for key, weight, term in lookup(self.by_label, labels):
            if term.matches(namespace, namespace_labels, labels):
                weights[key] = weights.get(key, 0) + weight
        return weights

    def add(self, row: int, delta: int) -> None:
        add_to_row(self.rows, row, delta)
        for tally_ref, weight in self._attached:
            tally = tally_ref()
            if tally is not None:
                tally.count(row, weight * delta)

    def attach(self, tally: TermTally, weight: int) -> None:
        """Count the owners in a tally, and keep it current as long as it is referenced."""
        for row, number in self.rows.items():
            tally.count(row, weight * number)
        attached = self._attached
        # When full, dead entries are removed first: a list grows by doubling, so this is rare.
        if len(attached) & (len(attached) - 1) == 0:
            self._attached = attached = [entry for entry in attached if entry[0]() is not None]
        attached.append((ref(tally), weight))


#: The serial numbers of owners, each followed by the weight of its terms: flat, as it may be long, and is hashed and
#: compared (1,000 owners: 40 us, 83 us as pairs).
Sources = tuple[int, ...]


class TermTally(Tally):
    """The total weight of some owners' terms, per domain of a topology."""

    __slots__ = ("_rows", "sources", "topology")

    def __init__(self, topology: Topology, sources: Sources) -> None:
        super().__init__(topology.code_capacity)
        self.topology: Topology = topology
        self.sources: Sources = sources
        self._rows: dict[int, int] = {}
        topology.tally_owners.add(self)

    def count(self, row: int, delta: int) -> None:
        add_to_row(self._rows, row, delta)
        self.add(self.topology.cells[row], delta)

    def on_row(self, row: int) -> int:
        return self._rows.get(row, 0)

    def domains(self, topology: Topology) -> Tally:
        """Return the tally itself."""
        return self

    def rows_in_domain_of(self, row: int) -> Iterator[int]:
        """Yield the rows with owners that share the domain of this row."""
        cells = self.topology.cells
        domain = cells[row]
        yield from (other for other in self._rows if domain and cells[other] == domain)


class MatchingTerms:
    """The existing terms that match the pods of a label class.

    `affinity`, `anti_affinity` and `preferred` (preceded by the sign) are the sums in the topologies that nodes have;
    `anti_affinity_keys` are the keys of all topologies of anti-affinity. A tally changes, these tuples never do.
    """

    __slots__ = (
        "_tallies",
        "affinity",
        "anti_affinity",
        "anti_affinity_keys",
        "namespace_labels",
        "nbytes",
        "preferred",
        "room_for_new",
        "sources",
        "versions",
    )

    def __init__(self, namespace_labels: Mapping[str, str]) -> None:
        self.namespace_labels: Mapping[str, str] = namespace_labels
        self.sources: dict[TallyKey, Sources] = {}
        #: The number of new owners after which the sources are looked up again, without dead ones.
        self.room_for_new: int = 0
        #: The versions of terms and of the nodes' labels from which the rest was computed.
        self.versions: tuple[int, int] = (-1, -1)
        self._tallies: dict[TallyKey, TermTally] = {}
        self.affinity: tuple[tuple[Topology, TermTally], ...] = ()
        self.anti_affinity: tuple[tuple[Topology, TermTally], ...] = ()
        self.preferred: tuple[tuple[int, Topology, TermTally], ...] = ()
        self.anti_affinity_keys: frozenset[str] = frozenset()
        self.nbytes: int = 0

    def update_tallies(self, tally_of: Callable[[str, Sources], TermTally], topology_keys: Container[str]) -> None:
        previous, self._tallies = self._tallies, {}
        for key, sources in self.sources.items():
            if key.topology_key in topology_keys:
                tally = previous.get(key)
                if tally is None or tally.sources is not sources:
                    tally = tally_of(key.topology_key, sources)
                    self.sources[key] = tally.sources
                self._tallies[key] = tally
        tallied = [(key.role, key.sign, tally.topology, tally) for key, tally in self._tallies.items()]
        self.affinity = tuple((topology, tally) for role, _, topology, tally in tallied if role == "affinity")
        self.anti_affinity = tuple((topology, tally) for role, _, topology, tally in tallied if role == "anti_affinity")
        self.preferred = tuple(
            (sign, topology, tally) for role, sign, topology, tally in tallied if role == "preferred"
        )
        self.anti_affinity_keys = frozenset(key.topology_key for key in self.sources if key.role == "anti_affinity")
        self.nbytes = sum(tally.values.nbytes + 16 * len(tally.sources) for tally in self._tallies.values())


class ExistingTerms:
    """The terms of the pods on nodes, indexed by the pods that they match.

    `version` counts the sets of terms that came into use.
    """

    def __init__(self, topology_of: Callable[[str], Topology], label_keys: LabelKeys) -> None:
        self._topology_of = topology_of
        self._label_keys = label_keys
        self._owners: WeakValueDictionary[PodTerms, TermOwners] = WeakValueDictionary()
        self._by_serial: WeakValueDictionary[int, TermOwners] = WeakValueDictionary()
        self._by_label: dict[LabelPair | None, WeakSet[TermOwners]] = {}
        self._sweep_at = 1024
        self._by_class: WeakKeyDictionary[LabelClass, MatchingTerms] = WeakKeyDictionary()
        self._tallies: WeakValueDictionary[tuple[str, Sources], TermTally] = WeakValueDictionary()
        self.version: int = 0

    # -- pods that have terms ------------------------------------------------------------------------------------------

    def owners(self, pod: PodInfo) -> TermOwners:
        return pod.template.cached((self, pod.namespace), lambda _: self._owners_of(terms_of(pod)))

    def _owners_of(self, terms: PodTerms) -> TermOwners:
        owners = self._owners.get(terms)
        if owners is None:
            self.version += 1
            owners = self._owners[terms] = self._by_serial[self.version] = TermOwners(terms, self.version)
            by_label = self._by_label
            for label in owners.by_label:
                by_label.setdefault(label, WeakSet()).add(owners)
            if len(by_label) > self._sweep_at:
                for empty in [label for label, entries in by_label.items() if not entries]:
                    del by_label[empty]
                self._sweep_at = 2 * len(by_label) + 1024
        return owners

    # -- pods that the terms match -------------------------------------------------------------------------------------

    def terms_matching(self, pods: LabelClass, namespace_labels: Mapping[str, str]) -> MatchingTerms:
        terms = self._by_class.get(pods)
        if terms is not None and terms.namespace_labels == namespace_labels:
            if terms.versions == (self.version, self._label_keys.version):
                return terms
            new = self.version - terms.versions[0]
            if new < terms.room_for_new:
                terms.room_for_new -= new
                new_owners = map(self._by_serial.get, range(terms.versions[0] + 1, self.version + 1))
                return self._add_sources(terms, [each for each in new_owners if each is not None], pods)
        owners = sorted(set(lookup(self._by_label, pods.labels)), key=lambda owner: owner.serial)
        terms = self._add_sources(MatchingTerms(namespace_labels), owners, pods)
        terms.room_for_new = _MAX_NEW_OWNERS + sum(map(len, terms.sources.values())) // 2
        self._by_class.pop(pods, None)
        self._by_class[pods] = terms
        while len(self._by_class) > max(_MIN_CACHED, _BUDGET // max(1, terms.nbytes)):
            del self._by_class[next(iter(self._by_class))]
        return terms

    def _add_sources(self, terms: MatchingTerms, owners: Iterable[TermOwners], pods: LabelClass) -> MatchingTerms:
        """Add the weights of these owners' terms, and look up the tallies of the topologies that nodes have."""
        more: dict[TallyKey, list[int]] = {}
        for each in owners:
            for key, weight in each.weights(pods, terms.namespace_labels).items():
                more.setdefault(key, []).extend((each.serial, weight))
        for key, sources in more.items():
            terms.sources[key] = (*terms.sources.get(key, ()), *sources)
        versions = (self.version, self._label_keys.version)
        if more or terms.versions[1] != versions[1]:
            terms.update_tallies(self._tally_for, self._label_keys)
        terms.versions = versions
        return terms

    def _tally_for(self, topology_key: str, sources: Sources) -> TermTally:
        tally = self._tallies.get((topology_key, sources))
        if tally is None:
            tally = self._tallies[topology_key, sources] = TermTally(self._topology_of(topology_key), sources)
            for serial, weight in zip(sources[::2], sources[1::2], strict=True):
                owners = self._by_serial.get(serial)
                if owners is not None:
                    owners.attach(tally, weight)
        return tally


def terms_of(pod: PodInfo) -> PodTerms:
    """Return a pod's affinity terms, compiled once for its template and namespace."""
    namespace = pod.namespace
    return pod.template.cached((terms_of, namespace), lambda spec: pod_terms(namespace, spec))


def _keyed_terms(terms: PodTerms) -> Iterator[tuple[TallyKey, int, AffinityTerm]]:
    """Yield the terms with the key of their sum and their weight there, at least 1."""
    yield from ((TallyKey("affinity", 1, term.topology_key), 1, term) for term in terms.affinity)
    yield from ((TallyKey("anti_affinity", 1, term.topology_key), 1, term) for term in terms.anti_affinity)
    for weight, term in terms.preferred:
        sign = (weight > 0) - (weight < 0)
        yield TallyKey("preferred", sign, term.topology_key), abs(weight) or 1, term


class AffinityTerm(NamedTuple):
    """A term as its owner means it: without namespaces and namespaceSelector it is about the owner's own namespace.

    `matchLabelKeys` and `mismatchLabelKeys` are merged into the selector by the API server (KEP-3633).
    """

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector

    def matches(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        of_namespace = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return of_namespace and self.selector.matches(labels)


class PodTerms(NamedTuple):
    """All terms of a pod: required ones, and preferred ones with their weight, negative to keep away.

    `problem` is the parse error, if any; no term of the affected list counts.
    """

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[tuple[int, AffinityTerm], ...] = ()
    problem: str = ""


def pod_terms(namespace: str, spec: PodSpec) -> PodTerms:
    affinity = spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return PodTerms()
    near = affinity.pod_affinity or PodAffinity()
    away = affinity.pod_anti_affinity or PodAntiAffinity()
    problems: list[str] = []

    def compile_terms(title: str, terms: Iterable[PodAffinityTerm]) -> tuple[AffinityTerm, ...]:
        """Compile a whole list; on an error compile none of it and record the problem."""
        try:
            return tuple(_compile_term(namespace, term) for term in terms)
        except SelectorError as error:
            problems.append(f"{title}: {error}")
            return ()

    required = compile_terms("requiredAffinityTerms", near.required_during_scheduling_ignored_during_execution)
    required_anti = compile_terms("requiredAntiAffinityTerms", away.required_during_scheduling_ignored_during_execution)
    preferred: list[tuple[int, AffinityTerm]] = []
    for title, sign, weighted in (
        ("preferredAffinityTerms", 1, near.preferred_during_scheduling_ignored_during_execution),
        ("preferredAntiAffinityTerms", -1, away.preferred_during_scheduling_ignored_during_execution),
    ):
        terms = compile_terms(title, [each.pod_affinity_term for each in weighted])
        preferred += ((sign * each.weight, term) for each, term in zip(weighted, terms, strict=False))
    problem = ", ".join(problems)
    return PodTerms(required, required_anti, tuple(preferred), f"[{problem}]" if len(problems) > 1 else problem)


def _compile_term(namespace: str, term: PodAffinityTerm) -> AffinityTerm:
    own = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        term.topology_key,
        label_selector(term.label_selector),
        frozenset((namespace,)) if own else frozenset(term.namespaces),
        label_selector(term.namespace_selector),
    )
