"""The affinity terms of existing pods, summed per domain for each incoming pod, however many they are.

Pods with the same terms are counted together, per row. For one label class only the sum matters: each role and topology
has one tally of the weighted sum, built on first use and kept current, shared by all label classes for which the same
owners have the same weights. So the cost of a cycle depends on roles and topologies. A new label class is compared with
all terms at once, so thousands of terms of one user do not slow the pods of others.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

import numpy as np
from numpy.typing import NDArray

from kframework.objects.label_selectors import Selector, SelectorError, label_selector
from kframework.objects.pod import PodAffinity, PodAffinityTerm, PodAntiAffinity, PodSpec
from kframework.state.pod_conditions import PodConditions, as_column
from kframework.state.pod_counts import LabelClass
from kframework.state.pods import PodInfo
from kframework.state.row_counts import LabelPair, add_to_row, required_labels
from kframework.state.topology import LabelKeys, Tally, Topology

#: The role of an existing term: required affinity or anti-affinity, or a preference.
Role = Literal["affinity", "anti_affinity", "preferred"]

#: A label class looks up its owners again after this many new ones, plus as many as have weight: most may be gone.
_MAX_NEW_OWNERS = 64
#: The number of owners from which a tally may follow a similar one.
_MANY_OWNERS = 8
#: In place of an owner: the latest of them.
_LATEST = 0
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
    """The pods on nodes that have the same terms, counted per row, and the tallies that include them.

    `on_use` is called when the first pod with these terms is on a node, and when none is any more.
    """

    __slots__ = ("__weakref__", "_attached", "_on_use", "rows", "serial", "terms")

    def __init__(self, terms: PodTerms, on_use: Callable[[TermOwners], None]) -> None:
        #: The number under which the terms are filed; 0 if they are not.
        self.serial: int = 0
        self.terms: PodTerms = terms
        self.rows: dict[int, int] = {}
        self._on_use = on_use
        self._attached: list[tuple[ref[TermTally], int]] = []

    def add(self, row: int, delta: int) -> None:
        was_used = bool(self.rows)
        add_to_row(self.rows, row, delta)
        if bool(self.rows) != was_used:
            self._on_use(self)
        for tally_ref, weight in self._attached:
            tally = tally_ref()
            if tally is not None:
                tally.count(row, weight * delta)

    def attach(self, tally: TermTally, weight: int) -> None:
        """Count the owners in a tally, and keep it current as long as it is referenced."""
        for row, number in self.rows.items():
            tally.count(row, weight * number)
        self._attached = _add_live(self._attached, tally, weight)


def _add_live(
    attached: list[tuple[ref[TermTally], int]], tally: TermTally, weight: int
) -> list[tuple[ref[TermTally], int]]:
    """Add a tally to a list; when it is full, dead entries are removed first: it grows by doubling, so this is rare."""
    length = len(attached)
    if length & (length - 1) == 0:
        attached = [entry for entry in attached if entry[0]() is not None]
    attached.append((ref(tally), weight))
    return attached


#: Numbers by sum.
Totals = NDArray[np.int64]


class FiledTerms:
    """The terms of all owners that match only pods with a certain label, or that require no label.

    A sum is the total weight of an owner's matching terms under one key.
    """

    __slots__ = ("_conditions", "_keys", "_known_keys", "_owners", "_sum_of_term", "_sums_by_key", "_weights")

    def __init__(self) -> None:
        self._conditions = PodConditions()
        #: By term: its weight, and the number of its sum.
        self._weights = array("q")
        self._sum_of_term = array("q")
        #: By sum: the serial number of its owners, in ascending order, and its key.
        self._owners = array("q")
        self._keys: list[TallyKey] = []
        self._sums_by_key: dict[TallyKey, array[int]] = {}
        #: The keys with topologies that nodes have, with the versions of both.
        self._known_keys: tuple[int, int, list[TallyKey]] = (-1, -1, [])

    def add(self, owners: int, key: TallyKey, weight: int, term: AffinityTerm) -> None:
        sums = self._sums_by_key.setdefault(key, array("q"))
        if not sums or self._owners[sums[-1]] != owners:
            sums.append(len(self._owners))
            self._owners.append(owners)
            self._keys.append(key)
        self._sum_of_term.append(sums[-1])
        self._weights.append(weight)
        self._conditions.add(term.selector, term.namespaces, term.namespace_selector)

    def add_up(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> Totals | None:
        """Return the sums of the terms that match a pod; None if no term matches."""
        matching = self._conditions.find(namespace, namespace_labels, labels)
        if not len(matching):
            return None
        weights = as_column(self._weights)[matching]
        return np.bincount(as_column(self._sum_of_term)[matching], weights, len(self._owners)).astype(np.int64)

    def keys_on_nodes(self, label_keys: LabelKeys) -> list[TallyKey]:
        """Return the keys of the sums in the topologies that nodes have."""
        versions = (label_keys.version, len(self._sums_by_key))
        if self._known_keys[:2] != versions:
            known = [key for key in self._sums_by_key if key.topology_key in label_keys]
            self._known_keys = (*versions, known)
        return self._known_keys[2]

    def all_keys(self, totals: Totals) -> Iterator[TallyKey]:
        """Yield the keys of the sums that are not 0."""
        yield from (self._keys[number] for number in totals.nonzero()[0].tolist())

    def sources(self, key: TallyKey, totals: Totals, after: int) -> tuple[Totals, Totals]:
        """Return the owners with a serial number above `after` whose terms match, and their sums."""
        sums = as_column(self._sums_by_key[key])
        owners, totals = as_column(self._owners)[sums], totals[sums]
        counted = (totals > 0) & (owners > after)
        return owners[counted], totals[counted]


#: The serial numbers of owners, each followed by the weight of its terms: flat, as it may be long, and is hashed and
#: compared (1,000 owners: 40 us, 83 us as pairs).
Sources = tuple[int, ...]


class TermTally(Tally):
    """The total weight of some owners' terms, per domain; it may follow a tally of nearly the same owners."""

    __slots__ = ("_base", "_followers", "_rows", "sources", "topology", "weights")

    def __init__(self, topology: Topology, sources: Sources) -> None:
        super().__init__(topology.code_capacity)
        self.topology: Topology = topology
        self.sources: Sources = sources
        self._rows: dict[int, int] = {}
        #: The weights by owner of a tally that others may follow.
        self.weights: dict[int, int] = {}
        self._base: TermTally | None = None
        self._followers: list[tuple[ref[TermTally], int]] = []
        topology.tally_owners.add(self)

    def follow(self, base: TermTally) -> None:
        """Start with the numbers of another tally, and receive its changes from now on."""
        self._base = base  # which lives as long
        self._rows = dict(base._rows)
        self.values[:] = base.values
        self.total: int = base.total
        base._followers = _add_live(base._followers, self, 1)

    def count(self, row: int, delta: int) -> None:
        add_to_row(self._rows, row, delta)
        self.add(self.topology.cells[row], delta)
        for follower_ref, _ in self._followers:
            follower = follower_ref()
            if follower is not None:
                follower.count(row, delta)

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
    """The existing terms that match the pods of a label class; `are_some` tells whether any do.

    `affinity`, `anti_affinity` and `preferred` (preceded by the sign) are the sums in the topologies that nodes have. A
    tally changes, these tuples never do.
    """

    __slots__ = (
        "_anti_affinity_keys",
        "_find_anti_affinity_keys",
        "_tallies",
        "affinity",
        "anti_affinity",
        "are_some",
        "namespace_labels",
        "nbytes",
        "preferred",
        "room_for_new",
        "sources",
        "versions",
    )

    def __init__(
        self, namespace_labels: Mapping[str, str], find_anti_affinity_keys: Callable[[], frozenset[str]]
    ) -> None:
        self.namespace_labels: Mapping[str, str] = namespace_labels
        self.are_some: bool = False
        self.sources: dict[TallyKey, Sources] = {}
        self._find_anti_affinity_keys = find_anti_affinity_keys
        self._anti_affinity_keys: frozenset[str] | None = None
        #: The number of new owners after which the sources are looked up again, without dead ones.
        self.room_for_new: int = 0
        #: The versions of terms and of the nodes' labels from which the rest was computed.
        self.versions: tuple[int, int] = (-1, -1)
        self._tallies: dict[TallyKey, TermTally] = {}
        self.affinity: tuple[tuple[Topology, TermTally], ...] = ()
        self.anti_affinity: tuple[tuple[Topology, TermTally], ...] = ()
        self.preferred: tuple[tuple[int, Topology, TermTally], ...] = ()
        self.nbytes: int = 0

    @property
    def anti_affinity_keys(self) -> frozenset[str]:
        """The keys of all topologies of anti-affinity terms that match, also of those that no node has."""
        if self._anti_affinity_keys is None:
            self._anti_affinity_keys = self._find_anti_affinity_keys()
        return self._anti_affinity_keys

    def add_sources(self, more: Mapping[TallyKey, Sources], tally_of: Callable[[str, Sources], TermTally]) -> None:
        self._anti_affinity_keys = None
        for key, sources in more.items():
            tally = tally_of(key.topology_key, (*self.sources.get(key, ()), *sources))
            self.sources[key] = tally.sources
            self._tallies[key] = tally
        tallied = [(key.role, key.sign, tally.topology, tally) for key, tally in self._tallies.items()]
        self.affinity = tuple([(topology, tally) for role, _, topology, tally in tallied if role == "affinity"])
        self.anti_affinity = tuple(
            [(topology, tally) for role, _, topology, tally in tallied if role == "anti_affinity"]
        )
        self.preferred = tuple(
            [(sign, topology, tally) for role, sign, topology, tally in tallied if role == "preferred"]
        )
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
        #: The terms by a label that a pod must carry to match; None for terms that require no label.
        self._by_label: dict[LabelPair | None, FiledTerms] = {}
        #: The number of owners whose terms are filed, and of those with pods on nodes. When the garbage collector runs
        #: must not matter: a replay files and drops the same terms at the same times.
        self._filed = 0
        self._used = 0
        self._by_class: WeakKeyDictionary[LabelClass, MatchingTerms] = WeakKeyDictionary()
        self._tallies: WeakValueDictionary[tuple[str, Sources], TermTally] = WeakValueDictionary()
        #: Tallies of many owners that others follow, by topology and first or last owner, or `_LATEST`.
        self._bases: WeakValueDictionary[tuple[str, int], TermTally] = WeakValueDictionary()
        self.version: int = 0

    # -- pods that have terms ------------------------------------------------------------------------------------------

    def owners(self, pod: PodInfo) -> TermOwners:
        return pod.template.cached((self, pod.namespace), lambda _: self._owners_of(terms_of(pod)))

    def _owners_of(self, terms: PodTerms) -> TermOwners:
        owners = self._owners.get(terms)
        if owners is None:
            owners = self._owners[terms] = TermOwners(terms, self._on_use)
        return owners

    def _on_use(self, owners: TermOwners) -> None:
        """Count the owners that came into use or out of it, and file the terms of new ones."""
        self._used += 1 if owners.rows else -1
        if owners.rows and not owners.serial:
            self._file(owners)
            if self._filed > 2 * self._used + _MAX_NEW_OWNERS:
                self._file_again()

    def _file(self, owners: TermOwners) -> None:
        self.version += 1
        self._filed += 1
        owners.serial = self.version
        self._by_serial[owners.serial] = owners
        for key, weight, term in _keyed_terms(owners.terms):
            label = next(required_labels(term.selector), None)
            self._by_label.setdefault(label, FiledTerms()).add(owners.serial, key, weight, term)

    def _file_again(self) -> None:
        """Drop the terms that no pod on a node has, and what was computed from them."""
        used = sorted((each for each in self._by_serial.values() if each.rows), key=lambda each: each.serial)
        for each in self._by_serial.values():
            each.serial = 0
        self._by_label, self._filed = {}, 0
        self._by_class.clear()
        self._by_serial.clear()
        for each in used:
            self._file(each)

    # -- pods that the terms match -------------------------------------------------------------------------------------

    def terms_matching(self, pods: LabelClass, namespace_labels: Mapping[str, str]) -> MatchingTerms:
        terms, versions = self._by_class.get(pods), (self.version, self._label_keys.version)
        if terms is not None and terms.namespace_labels == namespace_labels:
            if terms.versions == versions:
                return terms
            new = self.version - terms.versions[0]
            if new < terms.room_for_new and terms.versions[1] == versions[1]:
                terms.room_for_new -= new
                return self._update(terms, pods)
        find_keys = partial(self._anti_affinity_keys, pods.namespace, namespace_labels, pods.labels)
        terms = self._update(MatchingTerms(namespace_labels, find_keys), pods)
        terms.room_for_new = _MAX_NEW_OWNERS + sum(map(len, terms.sources.values())) // 2
        self._by_class.pop(pods, None)
        self._by_class[pods] = terms
        while len(self._by_class) > max(_MIN_CACHED, _BUDGET // max(1, terms.nbytes)):
            del self._by_class[next(iter(self._by_class))]
        return terms

    def _update(self, terms: MatchingTerms, pods: LabelClass) -> MatchingTerms:
        """Add the sums of new owners' terms in the topologies that nodes have."""
        more: dict[TallyKey, list[tuple[Totals, Totals]]] = {}
        for filed, totals in self._matching(pods.namespace, terms.namespace_labels, pods.labels):
            terms.are_some = True
            for key in filed.keys_on_nodes(self._label_keys):
                sources = filed.sources(key, totals, terms.versions[0])
                if len(sources[0]):
                    more.setdefault(key, []).append(sources)
        if more:
            terms.add_sources({key: _join(parts) for key, parts in more.items()}, self._tally_for)
        terms.versions = (self.version, self._label_keys.version)
        return terms

    def _matching(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> Iterator[tuple[FiledTerms, Totals]]:
        """Yield the filed terms that have some for a pod, and their sums."""
        for label in (None, *labels.items()):
            filed = self._by_label.get(label)
            totals = filed.add_up(namespace, namespace_labels, labels) if filed is not None else None
            if filed is not None and totals is not None:
                yield filed, totals

    def _anti_affinity_keys(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> frozenset[str]:
        matching = self._matching(namespace, namespace_labels, labels)
        keys = chain.from_iterable(filed.all_keys(totals) for filed, totals in matching)
        return frozenset(key.topology_key for key in keys if key.role == "anti_affinity")

    def _tally_for(self, topology_key: str, sources: Sources) -> TermTally:
        tally = self._tallies.get((topology_key, sources))
        if tally is None:
            tally = self._tallies[topology_key, sources] = TermTally(self._topology_of(topology_key), sources)
            weights = dict(zip(sources[::2], sources[1::2], strict=True))
            if len(weights) >= _MANY_OWNERS:
                weights = self._follow_base(topology_key, tally, weights)
            for serial, weight in weights.items():
                owners = self._by_serial.get(serial)
                if owners is not None:
                    owners.attach(tally, weight)
        return tally

    def _follow_base(self, topology_key: str, tally: TermTally, weights: dict[int, int]) -> dict[int, int]:
        """Let a tally follow a similar one, and return the weights that differ; without one, others may follow it."""
        ends = [(topology_key, owner) for owner in (tally.sources[0], tally.sources[-2], _LATEST)]
        for base in filter(None, map(self._bases.get, ends)):
            different = {serial for serial, _ in weights.items() ^ base.weights.items()}
            if len(different) <= len(weights) // 8:
                tally.follow(base)
                return {serial: weights.get(serial, 0) - base.weights.get(serial, 0) for serial in sorted(different)}
        tally.weights = weights
        self._bases.update(dict.fromkeys(ends, tally))
        return weights


def _join(parts: Sequence[tuple[Totals, Totals]]) -> Sources:
    """Return the owners and sums of terms filed under several labels, added up by owners."""
    owners, totals = parts[0]
    if len(parts) > 1:
        owners, positions = np.unique(np.concatenate([owners for owners, _ in parts]), return_inverse=True)
        totals = np.bincount(positions, np.concatenate([totals for _, totals in parts])).astype(np.int64)
    return tuple(np.column_stack((owners, totals)).ravel().tolist())


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
