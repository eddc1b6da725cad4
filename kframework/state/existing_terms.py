"""The affinity terms of existing pods, summed per domain for each incoming pod, however many they are.

Pods with the same terms are counted together, per row. For one label class only the sum matters: each role and topology
has one tally of the weighted sum, built on first use and kept current, shared by all label classes for which the same
holders have the same weights. So the cost of a cycle depends on roles and topologies.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary, ref

from kframework.objects.label_selectors import Selector, SelectorError, label_selector
from kframework.objects.pod import PodAffinity, PodAffinityTerm, PodAntiAffinity, PodSpec
from kframework.state.pod_counts import LabelClass
from kframework.state.pods import PodInfo
from kframework.state.row_counts import Pair, count, found, pairs
from kframework.state.topology import LabelKeys, Tally, Topology

#: The role of an existing term: required affinity or anti-affinity, or a preference.
Role = Literal["affinity", "anti_affinity", "preferred"]

#: A label class looks up its holders again after this many new ones, plus as many as have weight: most may be gone.
_SPARE = 64
#: The memory for the tallies of label classes, in bytes; the oldest are dropped and rebuilt on demand, but never below
#: `_FEWEST`.
_BUDGET = 64 << 20
_FEWEST = 64


class Place(NamedTuple):
    """The key of a sum of terms: a role, the sign of a preference (else 1), and a topology."""

    role: Role
    sign: int
    topology_key: str


class TermOwners:
    """The pods on nodes that have the same terms, counted per row, and the tallies that include them."""

    __slots__ = ("__weakref__", "_attached", "by_pair", "rows", "serial")

    def __init__(self, terms: PodTerms, serial: int) -> None:
        self.serial: int = serial
        self.rows: dict[int, int] = {}
        #: Terms by a label that a pod must carry to match; None for terms that require no label.
        self.by_pair: dict[Pair | None, list[tuple[Place, int, AffinityTerm]]] = {}
        self._attached: list[tuple[ref[TermTally], int]] = []
        for place, weight, term in _placed(terms):
            self.by_pair.setdefault(next(pairs(term.selector), None), []).append((place, weight, term))

    def weights(self, pods: LabelClass, namespace_labels: Mapping[str, str]) -> dict[Place, int]:
        """Return the total weight of the terms that match such pods."""
        namespace, labels = pods.namespace, pods.labels
        weights: dict[Place, int] = {}
        for place, weight, term in found(self.by_pair, labels):
            if term.matches(namespace, namespace_labels, labels):
                weights[place] = weights.get(place, 0) + weight
        return weights

    def add(self, row: int, more: int) -> None:
        """Add to the number of pods on a row."""
        count(self.rows, row, more)
        for tally_ref, weight in self._attached:
            tally = tally_ref()
            if tally is not None:
                tally.count(row, weight * more)

    def attach(self, tally: TermTally, weight: int) -> None:
        """Count the holders in a tally, and keep it current as long as it is referenced."""
        for row, number in self.rows.items():
            tally.count(row, weight * number)
        attached = self._attached
        # When full, dead entries are removed first: a list grows by doubling, so this is rare.
        if len(attached) & (len(attached) - 1) == 0:
            self._attached = attached = [entry for entry in attached if entry[0]() is not None]
        attached.append((ref(tally), weight))


#: The serial numbers of holders, each followed by the weight of its terms: flat, as it may be long, and is hashed and
#: compared (1,000 holders: 40 us, 83 us as pairs).
Sources = tuple[int, ...]


class TermTally(Tally):
    """The total weight of some holders' terms, per domain of a topology."""

    __slots__ = ("_rows", "sources", "topology")

    def __init__(self, topology: Topology, sources: Sources) -> None:
        super().__init__(topology.room)
        self.topology: Topology = topology
        self.sources: Sources = sources
        self._rows: dict[int, int] = {}
        topology.tallied.add(self)

    def count(self, row: int, more: int) -> None:
        """Add to a row, and to its domain."""
        count(self._rows, row, more)
        self.add(self.topology.cells[row], more)

    def on_row(self, row: int) -> int:
        """Return the value of a row."""
        return self._rows.get(row, 0)

    def domains(self, topology: Topology) -> Tally:
        """Return the tally itself."""
        return self

    def rows_beside(self, row: int) -> Iterator[int]:
        """Yield the rows with holders that share the domain of this row."""
        cells = self.topology.cells
        domain = cells[row]
        yield from (other for other in self._rows if domain and cells[other] == domain)


class MatchingTerms:
    """The existing terms that match the pods of a label class.

    `affinity`, `anti_affinity` and `preferred` (preceded by the sign) are the sums in the topologies that nodes have;
    `refused_by` are the keys of all topologies of anti-affinity. A tally changes, these tuples never do.
    """

    __slots__ = (
        "_tallies",
        "affinity",
        "anti_affinity",
        "at",
        "namespace_labels",
        "nbytes",
        "preferred",
        "refused_by",
        "sources",
        "spare",
    )

    def __init__(self, namespace_labels: Mapping[str, str]) -> None:
        self.namespace_labels: Mapping[str, str] = namespace_labels
        self.sources: dict[Place, Sources] = {}
        #: The number of new holders after which the sources are looked up again, without dead ones.
        self.spare: int = 0
        #: The versions of terms and of the nodes' labels from which the rest was computed.
        self.at: tuple[int, int] = (-1, -1)
        self._tallies: dict[Place, TermTally] = {}
        self.affinity: tuple[tuple[Topology, TermTally], ...] = ()
        self.anti_affinity: tuple[tuple[Topology, TermTally], ...] = ()
        self.preferred: tuple[tuple[int, Topology, TermTally], ...] = ()
        self.refused_by: frozenset[str] = frozenset()
        self.nbytes: int = 0

    def look_up(self, tally_of: Callable[[str, Sources], TermTally], topology_keys: Container[str]) -> None:
        """Set the tallies of these topologies to those of the sources."""
        known, self._tallies = self._tallies, {}
        for place, sources in self.sources.items():
            if place.topology_key in topology_keys:
                tally = known.get(place)
                if tally is None or tally.sources is not sources:
                    tally = tally_of(place.topology_key, sources)
                    self.sources[place] = tally.sources
                self._tallies[place] = tally
        tallied = [(place.role, place.sign, tally.topology, tally) for place, tally in self._tallies.items()]
        self.affinity = tuple((topology, tally) for role, _, topology, tally in tallied if role == "affinity")
        self.anti_affinity = tuple((topology, tally) for role, _, topology, tally in tallied if role == "anti_affinity")
        self.preferred = tuple(
            (sign, topology, tally) for role, sign, topology, tally in tallied if role == "preferred"
        )
        self.refused_by = frozenset(place.topology_key for place in self.sources if place.role == "anti_affinity")
        self.nbytes = sum(tally.values.nbytes + 16 * len(tally.sources) for tally in self._tallies.values())


class ExistingTerms:
    """The terms of the pods on nodes, indexed by the pods that they match.

    `version` counts the sets of terms that came into use.
    """

    def __init__(self, topology_of: Callable[[str], Topology], label_keys: LabelKeys) -> None:
        self._topology_of = topology_of
        self._label_keys = label_keys
        self._holders: WeakValueDictionary[PodTerms, TermOwners] = WeakValueDictionary()
        self._by_serial: WeakValueDictionary[int, TermOwners] = WeakValueDictionary()
        self._by_pair: dict[Pair | None, WeakSet[TermOwners]] = {}
        self._sweep_at = 1024
        self._about: WeakKeyDictionary[LabelClass, MatchingTerms] = WeakKeyDictionary()
        self._tallies: WeakValueDictionary[tuple[str, Sources], TermTally] = WeakValueDictionary()
        self.version: int = 0

    # -- pods that have terms --------------------------------------------------------------------------------------

    def holders(self, pod: PodInfo) -> TermOwners:
        """Return those that a pod with terms is counted among."""
        return pod.template.once((self, pod.namespace), lambda _: self._holders_of(terms_of(pod)))

    def _holders_of(self, terms: PodTerms) -> TermOwners:
        holders = self._holders.get(terms)
        if holders is None:
            self.version += 1
            holders = self._holders[terms] = self._by_serial[self.version] = TermOwners(terms, self.version)
            by_pair = self._by_pair
            for filed_under in holders.by_pair:
                by_pair.setdefault(filed_under, WeakSet()).add(holders)
            if len(by_pair) > self._sweep_at:
                for empty in [filed_under for filed_under, filed in by_pair.items() if not filed]:
                    del by_pair[empty]
                self._sweep_at = 2 * len(by_pair) + 1024
        return holders

    # -- pods that the terms are about -----------------------------------------------------------------------------

    def about(self, pods: LabelClass, namespace_labels: Mapping[str, str]) -> MatchingTerms:
        """Return the terms that are about the pods of a class, in a namespace with these labels."""
        known = self._about.get(pods)
        if known is not None and known.namespace_labels == namespace_labels:
            if known.at == (self.version, self._label_keys.version):
                return known
            missed = self.version - known.at[0]
            if missed < known.spare:
                known.spare -= missed
                youngest = map(self._by_serial.get, range(known.at[0] + 1, self.version + 1))
                return self._summed_up(known, [each for each in youngest if each is not None], pods)
        asked = sorted(set(found(self._by_pair, pods.labels)), key=lambda holders: holders.serial)
        about = self._summed_up(MatchingTerms(namespace_labels), asked, pods)
        about.spare = _SPARE + sum(map(len, about.sources.values())) // 2
        self._about.pop(pods, None)
        self._about[pods] = about
        while len(self._about) > max(_FEWEST, _BUDGET // max(1, about.nbytes)):
            del self._about[next(iter(self._about))]
        return about

    def _summed_up(self, about: MatchingTerms, asked: Iterable[TermOwners], pods: LabelClass) -> MatchingTerms:
        """Add the weights of these holders' terms, and look up the tallies of the topologies that nodes have."""
        more: dict[Place, list[int]] = {}
        for holders in asked:
            for place, weight in holders.weights(pods, about.namespace_labels).items():
                more.setdefault(place, []).extend((holders.serial, weight))
        for place, sources in more.items():
            about.sources[place] = (*about.sources.get(place, ()), *sources)
        at = (self.version, self._label_keys.version)
        if more or about.at[1] != at[1]:
            about.look_up(self._tally, self._label_keys)
        about.at = at
        return about

    def _tally(self, topology_key: str, sources: Sources) -> TermTally:
        tally = self._tallies.get((topology_key, sources))
        if tally is None:
            tally = self._tallies[topology_key, sources] = TermTally(self._topology_of(topology_key), sources)
            for serial, weight in zip(sources[::2], sources[1::2], strict=True):
                holders = self._by_serial.get(serial)
                if holders is not None:
                    holders.attach(tally, weight)
        return tally


def terms_of(pod: PodInfo) -> PodTerms:
    """Return a pod's affinity terms, compiled once for its template and namespace."""
    namespace = pod.namespace
    return pod.template.once((terms_of, namespace), lambda spec: pod_terms(namespace, spec))


def _placed(terms: PodTerms) -> Iterator[tuple[Place, int, AffinityTerm]]:
    """Yield the terms with the key of their sum and their weight there, at least 1."""
    yield from ((Place("affinity", 1, term.topology_key), 1, term) for term in terms.affinity)
    yield from ((Place("anti_affinity", 1, term.topology_key), 1, term) for term in terms.anti_affinity)
    for weight, term in terms.preferred:
        sign = (weight > 0) - (weight < 0)
        yield Place("preferred", sign, term.topology_key), abs(weight) or 1, term


class AffinityTerm(NamedTuple):
    """A term as its holder means it: without namespaces and namespaceSelector it is about the holder's own namespace.

    `matchLabelKeys` and `mismatchLabelKeys` are merged into the selector by the API server (KEP-3633).
    """

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector

    def matches(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        """Return whether the term matches pods with these labels in this namespace with those labels."""
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
    """Compile the terms of a pod of this namespace."""
    affinity = spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return PodTerms()
    near, away = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAntiAffinity()
    problems: list[str] = []

    def compiled(title: str, terms: Iterable[PodAffinityTerm]) -> tuple[AffinityTerm, ...]:
        """Compile a whole list; on an error compile none of it and record the problem."""
        try:
            return tuple(_compiled(namespace, term) for term in terms)
        except SelectorError as error:
            problems.append(f"{title}: {error}")
            return ()

    required = compiled("requiredAffinityTerms", near.required_during_scheduling_ignored_during_execution)
    refused = compiled("requiredAntiAffinityTerms", away.required_during_scheduling_ignored_during_execution)
    preferred: list[tuple[int, AffinityTerm]] = []
    for title, sign, weighted in (
        ("preferredAffinityTerms", 1, near.preferred_during_scheduling_ignored_during_execution),
        ("preferredAntiAffinityTerms", -1, away.preferred_during_scheduling_ignored_during_execution),
    ):
        terms = compiled(title, [each.pod_affinity_term for each in weighted])
        preferred += ((sign * each.weight, term) for each, term in zip(weighted, terms, strict=False))
    problem = ", ".join(problems)
    return PodTerms(required, refused, tuple(preferred), f"[{problem}]" if len(problems) > 1 else problem)


def _compiled(namespace: str, term: PodAffinityTerm) -> AffinityTerm:
    own = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        term.topology_key,
        label_selector(term.label_selector),
        frozenset((namespace,)) if own else frozenset(term.namespaces),
        label_selector(term.namespace_selector),
    )
