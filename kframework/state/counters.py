"""How many pods of a kind run where: counts that are kept current on every change, never made by a loop over pods.

The truth is sparse: each label class knows its pods per row. A selection that is asked for gets a dense count per row
and per domain of a topology, summed from its classes once and current from then on. The mirror image are the affinity
terms of the pods on the nodes: which existing terms there are where, and which are about a given pod.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Literal, TypeVar
from weakref import WeakSet, WeakValueDictionary

from kframework.objects.pod_affinity import AffinityTerm, PodTerms, pod_terms
from kframework.state.pod_counts import LabelClass, PodCount, Selection
from kframework.state.pods import PodInfo
from kframework.state.topology import Tally, Topology

T = TypeVar("T")
Pair = tuple[str, str]

#: What an existing term is: required affinity or anti-affinity, or a preference (of anti-affinity: of negative weight).
Role = Literal["affinity", "anti_affinity", "preferred"]

#: The memory for dense counts, in bytes; what was not asked for longest is dropped, and made anew when asked for.
_BUDGET = 64 << 20
#: What a count takes for each row: a cell of its column, and one of the tally on a topology of single nodes.
_PER_ROW = 16
#: Dense counts are never fewer than this: one cycle asks for several and holds on to them.
_FEWEST = 64


class ExistingTerm:
    """A term of pods on the nodes, with the number of its holders per row; per domain of its topology on demand."""

    __slots__ = ("__weakref__", "_tally", "role", "rows", "serial", "term", "topology", "weight")

    def __init__(self, role: Role, weight: int, term: AffinityTerm, topology: Topology, serial: int) -> None:
        self.role: Role = role
        self.weight: int = weight
        self.term: AffinityTerm = term
        self.topology: Topology = topology
        self.serial: int = serial
        self.rows: dict[int, int] = {}
        self._tally: Tally | None = None

    def add(self, row: int, more: int) -> None:
        """Count so many holders more on a row."""
        left = self.rows.get(row, 0) + more
        if left:
            self.rows[row] = left
        else:
            del self.rows[row]
        if self._tally is not None:
            self._tally.add(self.topology.cells[row], more)

    def on_row(self, row: int) -> int:
        """Return how many holders are on a row."""
        return self.rows.get(row, 0)

    def domains(self, topology: Topology) -> Tally:
        """Return how many holders are in each domain of the term's topology."""
        if self._tally is None:
            tally = self._tally = Tally(topology.room)
            for row, holders in self.rows.items():
                tally.add(topology.cells[row], holders)
            topology.follow(self)
        return self._tally

    def __repr__(self) -> str:
        return f"<ExistingTerm {self.role} {self.term.selector} on {len(self.rows)} nodes>"


class Counters:
    """The counts in use, and the terms of the pods on the nodes.

    `version` counts the terms that came into use: what was worked out from `about` holds until it moves.
    """

    def __init__(self, capacity: int, topology_of: Callable[[str], Topology]) -> None:
        self._capacity = capacity
        self._topology_of = topology_of
        self._counts: OrderedDict[tuple[Selection, ...], PodCount] = OrderedDict()
        self._counts_by_pair: dict[Pair | None, list[PodCount]] = {}
        #: The classes that have or lately had pods on nodes, by namespace.
        self._classes: dict[str, dict[LabelClass, None]] = {}
        #: The same by namespace and value of a label, for each label by which any were sought since the last sweep.
        self._classes_by_label: dict[str, dict[tuple[str, str], list[LabelClass]]] = {}
        self._joined = 0
        self._sweep_at = 1024
        self._existing: WeakValueDictionary[tuple[Role, int, AffinityTerm], ExistingTerm] = WeakValueDictionary()
        self._existing_by_pair: dict[Pair | None, WeakSet[ExistingTerm]] = {}
        self.version: int = 0

    # -- pods that are selected ------------------------------------------------------------------------------------

    def count(self, *selections: Selection) -> PodCount:
        """Return the count of the pods that all of these selections choose; it stays current while it is in use."""
        count = self._counts.get(selections)
        if count is not None:
            self._counts.move_to_end(selections)
            return count
        count = self._counts[selections] = PodCount(selections, self._capacity)
        self._counts_by_pair.setdefault(_pair(*selections), []).append(count)
        for pods in self._candidates(count):
            if count.chooses(pods):
                assert pods.counts is not None
                pods.counts.append(count)
                for row, number in pods.pods.items():
                    count.add(row, number)
        self._trim()
        return count

    def join(self, pods: LabelClass) -> None:
        """Take in a class that gets its first pod on a node."""
        if self._joined >= self._sweep_at:
            self._sweep()
        self._joined += 1
        self._classes.setdefault(pods.namespace, {})[pods] = None
        for key, labelled in self._classes_by_label.items():
            _file_by_label(labelled, key, pods)
        pods.counts = [count for count in _found(self._counts_by_pair, pods.labels) if count.chooses(pods)]

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        self._capacity = capacity
        for count in self._counts.values():
            count.column.grow(capacity)

    def _candidates(self, count: PodCount) -> Iterator[LabelClass]:
        """Yield the classes that may be counted: in each namespace those with the rarest label that is asked for."""
        wanted, pairs = count.selections[0].namespaces, list(_pairs(count.selections))
        for namespace in self._classes if wanted is None else wanted & self._classes.keys():
            labelled = (self._labelled(key).get((namespace, value), ()) for key, value in pairs)
            yield from min(labelled, key=len, default=self._classes[namespace])

    def _labelled(self, key: str) -> Mapping[tuple[str, str], Collection[LabelClass]]:
        """Return the classes with this label, by namespace and value."""
        labelled = self._classes_by_label.get(key)
        if labelled is None:
            labelled = self._classes_by_label[key] = {}
            for pods in chain.from_iterable(self._classes.values()):
                _file_by_label(labelled, key, pods)
        return labelled

    def _trim(self) -> None:
        """Drop the counts that were not asked for longest, until the rest is within the budget."""
        while len(self._counts) > _FEWEST and len(self._counts) * _PER_ROW * self._capacity > _BUDGET:
            _, count = self._counts.popitem(last=False)
            pair = _pair(*count.selections)
            self._counts_by_pair[pair].remove(count)
            if not self._counts_by_pair[pair]:
                del self._counts_by_pair[pair]
            for pods in self._candidates(count):
                if count.chooses(pods):
                    assert pods.counts is not None
                    pods.counts.remove(count)

    def _sweep(self) -> None:
        """Let go of the classes that have no pod on a node any more."""
        for namespace, classes in list(self._classes.items()):
            for pods in [pods for pods in classes if not pods.pods]:
                del classes[pods]
                pods.counts = None
                self._joined -= 1
            if not classes:
                del self._classes[namespace]
        self._classes_by_label.clear()
        self._sweep_at = 2 * self._joined + 1024

    # -- existing terms --------------------------------------------------------------------------------------------

    def existing_terms(self, pod: PodInfo) -> tuple[ExistingTerm, ...]:
        """Return the terms of a pod, to be counted where it is."""
        return pod.template.once((self, pod.namespace), lambda _: tuple(self._existing_terms(terms_of(pod))))

    def about(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> list[ExistingTerm]:
        """List the existing terms that are about a pod with these labels in this namespace, oldest first."""
        found = _found(self._existing_by_pair, labels)
        matching = [each for each in found if each.term.matches(namespace, namespace_labels, labels)]
        return sorted(matching, key=lambda each: each.serial)

    def _existing_terms(self, terms: PodTerms) -> Iterator[ExistingTerm]:
        yield from (self._existing_term("affinity", 1, term) for term in terms.affinity)
        yield from (self._existing_term("anti_affinity", 1, term) for term in terms.anti_affinity)
        yield from (self._existing_term("preferred", weight, term) for weight, term in terms.preferred)

    def _existing_term(self, role: Role, weight: int, term: AffinityTerm) -> ExistingTerm:
        existing = self._existing.get((role, weight, term))
        if existing is None:
            self.version += 1
            existing = ExistingTerm(role, weight, term, self._topology_of(term.topology_key), self.version)
            self._existing[role, weight, term] = existing
            self._file(existing)
        return existing

    def _file(self, existing: ExistingTerm) -> None:
        """Let a term be found by a label that the pods it is about carry."""
        by_pair = self._existing_by_pair
        if len(by_pair) > 2 * len(self._existing) + 1024:
            for pair in [pair for pair, terms in by_pair.items() if not terms]:
                del by_pair[pair]
        by_pair.setdefault(_pair(existing.term), WeakSet()).add(existing)

    def __repr__(self) -> str:
        return f"<Counters {len(self._counts)} counts, {len(self._existing)} existing terms>"


def terms_of(pod: PodInfo) -> PodTerms:
    """Return a pod's affinity terms, compiled once for its template and namespace."""
    namespace = pod.namespace
    return pod.template.once((terms_of, namespace), lambda spec: pod_terms(namespace, spec))


# -- by one label --------------------------------------------------------------------------------------------------


def _pairs(selections: Iterable[Selection | AffinityTerm]) -> Iterator[Pair]:
    """Yield the labels that pods must carry to be chosen by all of these."""
    for selection in selections:
        for requirement in selection.selector.requirements:
            if requirement.operator in ("=", "In") and len(requirement.values) == 1:
                yield (requirement.key, requirement.values[0])


def _pair(*selections: Selection | AffinityTerm) -> Pair | None:
    """Return one such label, by which they are filed; None if there is none."""
    return next(_pairs(selections), None)


def _file_by_label(labelled: dict[tuple[str, str], list[LabelClass]], key: str, pods: LabelClass) -> None:
    """File a class under its namespace and its value of a label, if it has that label."""
    value = pods.labels.get(key)
    if value is not None:
        labelled.setdefault((pods.namespace, value), []).append(pods)


def _found(by_pair: Mapping[Pair | None, Iterable[T]], labels: Mapping[str, str]) -> Iterator[T]:
    """List what is filed under one of these labels, or under none."""
    for pair in (None, *labels.items()):
        yield from by_pair.get(pair, ())
