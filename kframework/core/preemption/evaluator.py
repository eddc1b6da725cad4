"""Preemption: the nodes where it would help a pod, and where it costs least; the rules are kube-scheduler's."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from time import perf_counter_ns

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.answer_cache import ChangedRows
from kframework.core.cycle.oracle import VerificationError
from kframework.core.cycle.records import fit_error
from kframework.core.cycle.rejections import FilterTarget, StatusTable
from kframework.core.cycle.results import Eviction
from kframework.core.cycle.search import Search
from kframework.core.preemption.dry_runs import NO_VICTIMS, Budgets, DryRun, Rank, RankedCandidate, rank_candidate
from kframework.core.preemption.groups import GroupPreemption
from kframework.core.preemption.units import Units
from kframework.core.runtime.profile import Signature
from kframework.framework.answers import Candidate, Diagnosis, PreemptForGroup
from kframework.framework.cycle_state import CycleState
from kframework.framework.handle import DryRunResult, FindNodes, Preemption, VictimRules
from kframework.objects import GenericPodGroup, PodDisruptionBudget
from kframework.state.cluster import ClusterState
from kframework.state.columns import Column, count_values
from kframework.state.group_trees import entity_key
from kframework.state.nodes import NodeInfo
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.undo_log import UndoLog
from kframework.values.status import Code, Status

_POLICY_NEVER = Status(Code.UNSCHEDULABLE, ("not eligible due to preemptionPolicy=Never.",))
_VICTIMS_TERMINATING = Status(Code.UNSCHEDULABLE, ("not eligible due to a terminating pod on the nominated node.",))
_NOT_HELPFUL = "Preemption is not helpful for scheduling"


class PreemptionObserver:
    """A receiver of preemption's measurements, which this one ignores.

    `preemptor` is `pod`, `podgroup` or `compositepodgroup`; durations are nanoseconds.
    """

    def on_evaluation(self, preemptor: str, code: Code, took: int) -> None:
        """Receive the duration and outcome of a search for victims."""

    def on_group_attempt(self, code: Code) -> None:
        """Receive the outcome of an attempt of a PodGroup to preempt."""

    def on_eviction(self, preemptor: str, victims: int, groups: int, violations: int) -> None:
        """Receive the numbers of victims, of units of groups among them, and of violated budgets."""

    def on_execution(self, preemptor: str, took: int, *, failed: bool) -> None:
        """Receive the duration of an eviction of all victims."""


class Evaluator(Preemption):
    """An evaluator of preemption for the pod of the current search.

    `offsets` draws the position in node order where the dry runs start; nothing else is random. `exempt` returns
    whether a pod is never a victim. Results are cached within a `budget` of bytes. `verifying` compares every cached
    result with a new one. `budgets` are counted down by the engine, `observer` receives what is measured.
    """

    key: staticmethod[[Candidate], Rank] = staticmethod(rank_candidate)  # type: ignore[assignment]  # mypy counts a self

    def __init__(
        self,
        cluster: ClusterState,
        ongoing: OngoingPreemptions,
        offsets: Random,
        search: Callable[[], Search | None],
        *,
        exempt: Callable[[PodInfo], bool] | None = None,
        budget: int = 32 << 20,
        verifying: bool = False,
    ) -> None:
        self._cluster = cluster
        self._ongoing = ongoing
        self._offsets = offsets
        self._search = search
        self._units = Units(cluster, exempt)
        self._verifying = verifying
        self.budgets: Budgets = Budgets(cluster.objects(PodDisruptionBudget), cluster.pods)
        self._budget = budget
        self._cache = DryRunCache(cluster, budget)
        self.chosen: ChosenVictims = ChosenVictims(cluster.pods, cluster.undo_log)
        #: Where the last dry runs started among the nodes with candidates; and whose start is used instead of drawing.
        self._offset: int | None = None
        self._leader: Evaluator | None = None
        self.observer: PreemptionObserver = PreemptionObserver()

    def spare(self, exempt: Callable[[PodInfo], bool] | None) -> None:
        """Let no pod be a victim from now on that `exempt` accepts; None exempts none."""
        self._units.exempt = exempt
        self._cache = DryRunCache(self._cluster, self._budget)

    def follow(self, leader: Evaluator) -> None:
        """Look for victims among the same pods, with the same budgets, and where the other one has just looked."""
        self._units, self.budgets, self.chosen, self._leader = leader._units, leader.budgets, leader.chosen, leader

    def in_progress(self, pod: PendingPod) -> bool:
        uid = self._units.preemptor(pod) if pod.group else pod.uid
        return self._ongoing.blocks(uid, self._cluster.pods)

    def released(self) -> Collection[str] | None:
        # The uids of groups are not those of their pods.
        return None if self._cluster.feature_gates.has_pod_groups else self._ongoing.released(self._cluster.pods)

    @property
    def chosen_victims(self) -> Collection[str]:
        return self.chosen.by_victim.keys()

    def blocked_reason(
        self, pod: PendingPod, diagnosis: Diagnosis, *, rules: VictimRules | None = None
    ) -> Status | None:
        if pod.spec.preemption_policy == "Never":
            return _POLICY_NEVER
        name = pod.status.nominated_node_name or self._cluster.nominator.nominated_node(pod.uid)
        node = self._cluster.nodes.find(name)
        if node is None or diagnosis[node.row].code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return None
        terminating = [other for other in node.pods if other.terminating and other.disrupted]
        return _VICTIMS_TERMINATING if self._units.evictable(pod.priority, terminating, rules) else None

    def for_group(
        self, group: GenericPodGroup, pods: Sequence[PendingPod], find_nodes: FindNodes
    ) -> PreemptForGroup | Status:
        preemption, started = GroupPreemption(self._cluster, self._units, self.budgets), perf_counter_ns()
        found: PreemptForGroup | Status | None = preemption.blocked_reason(group, pods)
        if found is None:
            found = preemption.find(group, find_nodes)
            self.observer.on_evaluation(entity_key(group)[0], _code(found), perf_counter_ns() - started)
        self.observer.on_group_attempt(_code(found))
        return found

    def victims(
        self, state: CycleState, pod: PendingPod, node: NodeInfo, *, rules: VictimRules | None = None
    ) -> Candidate | Status:
        return self.dry_run(self._checked_search(pod), state, rules)(node)

    def candidates(
        self,
        state: CycleState,
        pod: PendingPod,
        diagnosis: Diagnosis,
        *,
        percentage: int = 10,
        absolute: int = 100,
        rules: VictimRules | None = None,
    ) -> DryRunResult:
        search, started = self._checked_search(pod), perf_counter_ns()
        cached = self._cached_results(search, state) if rules is None else CachedDryRuns(search.cluster)
        potential = diagnosis.rows(Code.UNSCHEDULABLE)
        enough = min(len(potential), max(len(potential) * percentage // 100, absolute))
        if self._leader is not None:
            cached.offset = self._leader._offset
        elif len(potential) and cached.offset is None:
            cached.offset = self._offsets.randrange(len(potential))
        elif cached.offset is not None:
            cached.offset += 1  # preemptors of one kind start one node further each time, and reuse cached results
        self._offset = cached.offset
        first = (cached.offset or 0) % max(len(potential), 1)
        node_order = np.concatenate((potential[first:], potential[:first]))
        if self._verifying:
            dry_run = self.dry_run(search, state)
            for row in node_order.tolist():
                result = cached.get(row)
                if result is not None and result != (uncached := dry_run(search.nodes[row])):
                    raise VerificationError(search, f"dry run on node {search.nodes[row].name}", result, uncached)
        dry_run = DryRun(search, state, self.budgets, self._units, cached.hopeless, rules)
        candidates = _find_candidates(search, dry_run, cached, node_order, enough)
        status = Status(Code.SUCCESS) if candidates else _no_candidates(cached, node_order, len(search.nodes))
        self.observer.on_evaluation("pod", status.code, perf_counter_ns() - started)
        return DryRunResult(candidates, status)

    def observe_eviction(self, eviction: Eviction, victims: int) -> None:
        """Report an eviction to the observer; `victims` includes those that are terminating already."""
        groups = self._units.count_groups(eviction.victims)
        self.observer.on_eviction(eviction.kind, victims, groups, eviction.pdb_violations)

    def _checked_search(self, pod: PendingPod) -> Search:
        search = self._search()
        if search is None or search.pod is not pod:
            raise RuntimeError(f"preemption was called for pod {pod.key} outside its scheduling cycle")
        return search

    def dry_run(self, target: FilterTarget, state: CycleState, rules: VictimRules | None = None) -> DryRun:
        """Return a dry run that tries nodes one by one and caches nothing."""
        return DryRun(target, state, self.budgets, self._units, {}, rules)

    def _cached_results(self, search: Search, state: CycleState) -> CachedDryRuns:
        """Return the cached results; empty if an answer is specific to this pod or depends on other nodes' pods."""
        if state is not search.state or not search.plan.remembers_filters or self._units.may_span_nodes:
            return CachedDryRuns(search.cluster)
        cached = self._cache.results_for(search.plan.signature, search.pod.priority, self.budgets.changes)
        cached.refresh(search.pod)
        return cached


def _code(found: PreemptForGroup | Status) -> Code:
    return found.code if isinstance(found, Status) else Code.SUCCESS


def _find_candidates(
    search: Search, dry_run: DryRun, cached: CachedDryRuns, node_order: NDArray[np.int64], enough: int
) -> tuple[Candidate, ...]:
    """Evaluate rows until there are enough candidates and one of them violates no budget; such come first."""
    found: list[RankedCandidate] = []
    missing, has_safe = enough, False
    by_row, known = search.nodes.by_row, cached.candidates
    # Rows where preemption is known not to help are skipped together.
    rows = node_order[cached.codes.values[node_order] >= UNKNOWN]
    if dry_run.rules is None and not dry_run.units.may_have_victims(search.pod.priority):
        cached.put_status(rows, NO_VICTIMS)
        return ()
    for row in rows.tolist():
        candidate = known.get(row)
        if candidate is None:
            result = dry_run(by_row[row])
            cached.put(row, result)
            if not isinstance(result, RankedCandidate):
                continue
            candidate = result
        found.append(candidate)
        missing -= 1
        has_safe = has_safe or not candidate.pdb_violations
        if has_safe and missing <= 0 < enough:
            break
    safe = [each for each in found if not each.pdb_violations]
    violating = [each for each in found if each.pdb_violations]
    # If `enough` is 0, as the percentage of few nodes may be, kube-scheduler drops them all.
    return (*safe[:enough], *violating[:enough])


def _no_candidates(cached: CachedDryRuns, rows: NDArray[np.int64], nodes: int) -> Status:
    """Return why there is no candidate: the errors, or the reasons counted over all nodes."""
    statuses = cached.statuses(rows)
    errors = dict.fromkeys(status.message for status, _ in statuses if status.code == Code.ERROR)
    if errors:
        text = ", ".join(errors)
        return Status(Code.ERROR, (text if len(errors) == 1 else f"[{text}]",))
    reasons: dict[str, int] = {}
    for status, count in statuses:
        for reason in status.reasons:
            reasons[reason] = reasons.get(reason, 0) + count
    unhelpful = nodes - sum(count for _, count in statuses)
    if unhelpful:
        reasons[_NOT_HELPFUL] = unhelpful
    return Status(Code.UNSCHEDULABLE, (fit_error(nodes, reasons),))


#: Values of `CachedDryRuns.codes` for a row: not computed, or has victims. Smaller numbers refer to a Status.
UNKNOWN, VICTIMS = 0, 1

#: The approximate size of a cached candidate with ten victims, or of what is known of a hopeless node, and of the
#: results without any, in bytes.
_PER_CANDIDATE, _PER_PREEMPTOR = 500, 4096


class CachedDryRuns:
    """The dry run results for one kind of preemptor, by row.

    `codes` is UNKNOWN, VICTIMS (see `candidates`), or the number of a Status. Call `refresh` before use.
    """

    def __init__(self, cluster: ClusterState) -> None:
        self._nodes = cluster.nodes
        self._changed = ChangedRows(cluster)
        self._changed_nodes = cluster.nodes.node_log.reader()
        self._table = StatusTable(0)
        #: See `DryRun`.
        self.hopeless: dict[int, tuple[Sequence[PodInfo], Sequence[PodInfo], Status]] = {}
        #: The position in node order where the last preemptor started; None before the first.
        self.offset: int | None = None
        self.codes: Column = Column(cluster.nodes.capacity)
        self.candidates: dict[int, RankedCandidate] = {}
        #: The memory that their cache last counted, in bytes.
        self.counted: int = 0

    def refresh(self, pod: PodInfo) -> None:
        """Drop the rows that changed since the last preemptor, or whose nominated pods changed."""
        changed, nodes = self._changed.since_last(pod), self._changed_nodes.read_new()
        if changed is None or nodes is None or len(self._table) > 2 * len(self._nodes):
            self.clear()
        else:
            for row in changed:
                self.codes.cells[row] = UNKNOWN
                self.candidates.pop(row, None)
            for row in nodes:
                self.hopeless.pop(row, None)

    def clear(self) -> None:
        self.codes.values[:] = UNKNOWN
        self.candidates.clear()
        self.hopeless.clear()
        self._table.clear()

    def put(self, row: int, result: RankedCandidate | Status) -> None:
        if isinstance(result, RankedCandidate):
            self.candidates[row] = result
            self.codes.cells[row] = VICTIMS
        else:
            self.codes.cells[row] = -1 - self._table.encode(0, result)

    def put_status(self, rows: NDArray[np.int64], status: Status) -> None:
        """Put the same Status for several rows."""
        self.codes.values[rows] = -1 - self._table.encode(0, status)

    def get(self, row: int) -> RankedCandidate | Status | None:
        number = self.codes.cells[row]
        return self.candidates.get(row) if number >= UNKNOWN else self._table.statuses[-1 - number]

    def statuses(self, rows: NDArray[np.int64]) -> list[tuple[Status, int]]:
        """Count the Statuses of these rows, in the order in which they first occurred."""
        statuses = self._table.statuses
        counted = reversed(count_values(self.codes.values[rows]))
        return [(statuses[-1 - number], count) for number, count in counted if number < UNKNOWN]

    @property
    def nbytes(self) -> int:
        """The approximate memory use, in bytes."""
        candidates = _PER_CANDIDATE * (len(self.candidates) + len(self.hopeless))
        return _PER_PREEMPTOR + self.codes.values.nbytes + candidates + self._table.nbytes


class DryRunCache:
    """The cached results by kind of preemptor, least recently used first, within a budget of bytes.

    All are dropped when the set of nodes or a PodDisruptionBudget changes.
    """

    def __init__(self, cluster: ClusterState, budget: int) -> None:
        self._cluster = cluster
        self._budget = budget
        self._results: OrderedDict[tuple[Signature, int], CachedDryRuns] = OrderedDict()
        #: The memory of all results, without the growth of the last ones used.
        self.nbytes: int = 0
        self._as_of = (-1, -1)

    def results_for(self, signature: Signature, priority: int, budget_changes: int) -> CachedDryRuns:
        """Return the results for preemptors of this signature and priority, empty if none are cached."""
        as_of = (self._cluster.nodes.generation, budget_changes)
        if as_of != self._as_of:
            self._as_of = as_of
            self._results.clear()
            self.nbytes = 0
        if self._results:
            self._count(next(reversed(self._results.values())))
        while self.nbytes > self._budget:
            _, oldest = self._results.popitem(last=False)
            self.nbytes -= oldest.counted
        key = (signature, priority)
        if key not in self._results:
            self._results[key] = CachedDryRuns(self._cluster)
        self._results.move_to_end(key)
        return self._results[key]

    def _count(self, results: CachedDryRuns) -> None:
        self.nbytes += results.nbytes - results.counted
        results.counted = results.nbytes

    def __len__(self) -> int:
        return len(self._results)


class ChosenVictims:
    """The victims whose eviction is decided, until they are seen terminating; `pods` are those on nodes, by uid."""

    def __init__(self, pods: Mapping[str, PodInfo], undo_log: UndoLog | None = None) -> None:
        self._pods = pods
        self._undo_log = UndoLog() if undo_log is None else undo_log
        #: The uids of the preemptors by those of their victims.
        self.by_victim: dict[str, str] = {}

    def add(self, preemptor: str, victims: Iterable[PodInfo]) -> None:
        before, after = self.by_victim, self.by_victim | {victim.uid: preemptor for victim in victims}
        self.by_victim = after
        if self._undo_log.is_open:
            self._undo_log.record(
                partial(setattr, self, "by_victim", before), partial(setattr, self, "by_victim", after)
            )

    def forget_victims_of(self, preemptor: str) -> None:
        """Keep no victim of a failed preemption."""
        self.by_victim = {victim: uid for victim, uid in self.by_victim.items() if uid != preemptor}

    def forget_departed(self) -> None:
        """Keep only the victims that are still running."""
        self.by_victim = {victim: uid for victim, uid in self.by_victim.items() if self._is_running(victim)}

    def _is_running(self, victim: str) -> bool:
        pod = self._pods.get(victim)
        return pod is not None and not pod.terminating


class _Preemption(msgspec.Struct):
    """The attempt that chose the victims, and the last victim once its eviction has started."""

    attempt: int
    last_victim: str = ""


class OngoingPreemptions:
    """The preemptions in progress, by the uid of the preemptor.

    A preemptor that was released early may have begun another one: reports on the older one, identified by its attempt,
    are ignored.
    """

    def __init__(self) -> None:
        self._by_preemptor: dict[str, _Preemption] = {}

    def begin(self, uid: str, attempt: int) -> None:
        self._by_preemptor[uid] = _Preemption(attempt)

    def record_last_victim(self, uid: str, attempt: int, victim: str) -> None:
        """Record that all victims but this one have been evicted, and that this one is next."""
        preemption = self._by_preemptor.get(uid)
        if preemption is not None and preemption.attempt == attempt:
            preemption.last_victim = victim

    def end(self, uid: str, attempt: int) -> bool:
        """Record the end of the evictions; return whether this was the preemptor's latest preemption."""
        preemption = self._by_preemptor.get(uid)
        if preemption is None or preemption.attempt != attempt:
            return False
        del self._by_preemptor[uid]
        return True

    def blocks(self, uid: str, pods: Mapping[str, PodInfo]) -> bool:
        """Return whether it is too early to retry this pod; `pods` are those on nodes, by uid.

        It is not once the last victim is terminating or deleted: from then on the deletion of a victim must requeue it.
        """
        preemption = self._by_preemptor.get(uid)
        if preemption is None:
            return False
        if not preemption.last_victim:
            return True
        victim = pods.get(preemption.last_victim)
        return victim is not None and not victim.terminating

    def released(self, pods: Mapping[str, PodInfo]) -> list[str]:
        """Return the uids of the preemptors that are not blocked."""
        return [uid for uid, each in self._by_preemptor.items() if each.last_victim and not self.blocks(uid, pods)]

    def __len__(self) -> int:
        return len(self._by_preemptor)
