"""Dry runs: the pods that would have to leave a node so that another fits there, by kube-scheduler's rules.

A dry run is a Statement on the live tables: it removes the pods of lower priority from the node, runs the Filter
plugins, and adds pods back one by one, the most important first, as long as the preemptor still fits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

from kframework.core.cycle.rejections import FilterTarget, filter_with_nominated_pods
from kframework.core.preemption.units import Unit, Units, start_time
from kframework.core.runtime.points import run_add_pod, run_remove_pod
from kframework.core.runtime.steps import FilterStep
from kframework.framework.answers import Candidate
from kframework.framework.cycle_state import CycleState
from kframework.framework.handle import VictimRules
from kframework.objects import PodDisruptionBudget
from kframework.objects.label_selectors import Matcher, SelectorError, label_selector
from kframework.state.nodes import NodeInfo
from kframework.state.objects import ObjectStore
from kframework.state.pod_counts import LabelClass
from kframework.state.pods import PodInfo
from kframework.state.statement import Statement
from kframework.values.status import Code, Status

NO_VICTIMS = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("No preemption victims found for incoming pod",))
_NOT_NEEDED = Status(Code.UNSCHEDULABLE, ("No pod must be evicted for incoming pod",))

#: Added to each priority so that the sum grows with the number of victims, however low their priorities are.
_LOWEST = 1 << 31

#: The cost of preemption on a node, by kube-scheduler's criteria in their order; ties by node name.
Rank = tuple[int, int, int, int, float, str]


class RankedCandidate(Candidate, frozen=True):
    """A candidate that stores its rank, because cached candidates are ranked again and again."""

    rank: Rank = (0, 0, 0, 0, 0.0, "")


def rank_candidate(candidate: Candidate) -> Rank:
    """Return the rank of a candidate; the smallest costs least."""
    if isinstance(candidate, RankedCandidate):
        return candidate.rank
    victims = candidate.victims
    highest = max(victim.priority for victim in victims)
    return (
        candidate.pdb_violations,
        highest,
        sum(victim.priority + _LOWEST for victim in victims),
        len(victims),
        -min(start_time(victim) for victim in victims if victim.priority == highest),
        candidate.node,
    )


class DryRun(msgspec.Struct, eq=False, dict=True):
    """A trial that finds, node by node, the victims needed to make room for a pod.

    The preemptor must leave room for nominated pods of equal or higher priority. A unit with pods on other nodes too
    goes or stays as a whole.
    """

    search: FilterTarget
    state: CycleState
    budgets: Budgets
    units: Units
    #: The rejections of nodes without their victims, by row, each with the pods that stay and those nominated to the
    #: node. They hold as long as these and the Node are the same, whichever victims are left.
    hopeless: dict[int, tuple[Sequence[PodInfo], Sequence[PodInfo], Status]]
    rules: VictimRules | None = None

    def __post_init__(self) -> None:
        # The answer of a plugin that reads no pods does not depend on which of them stay.
        self._pod_filters = tuple(step for step in self.search.filters if step.plugin.reads != "node")

    def __call__(self, node: NodeInfo) -> RankedCandidate | Status:
        """Return the victims on the node, or the Status why preemption does not help."""
        search = self.search
        potential_victims = self.units.evictable(search.pod.priority, node.pods, self.rules)
        if not potential_victims:
            return NO_VICTIMS
        leaving = {pod for unit in potential_victims for pod in unit}
        staying = [pod for pod in node.pods if pod not in leaving]
        nominated = search.cluster.nominator.nominated_pods_for_node(search.pod, node.name)
        known = self.hopeless.get(node.row)
        if known is not None and known[:2] == (staying, nominated):
            return known[2]
        with search.cluster.statement() as statement:
            what_if = _WhatIf(search, self.state, node, statement, self.rules)
            try:
                for unit in potential_victims:
                    what_if.remove(unit)
                rejection = what_if.rejection(search.filters)
                if rejection is None:
                    return self._find_victims(what_if, potential_victims)
            except ExtensionError as error:
                return error.status
        if rejection.is_rejected:
            self.hopeless[node.row] = staying, nominated, rejection
        return rejection

    def _find_victims(self, what_if: _WhatIf, units: list[Unit]) -> RankedCandidate | Status:
        """Add the units back that need not leave; all have left the node."""
        units.sort(key=self.units.importance)
        violating, others = self.budgets.split(units)
        victims = [unit for unit in violating if not self._reprieve(what_if, unit)]
        violations = sum(violating[unit] for unit in victims)
        victims += [unit for unit in others if not self._reprieve(what_if, unit)]
        if not victims and self.rules is not None:
            return _NOT_NEEDED
        if not victims:
            return Status(Code.ERROR, (f'expected at least one victim pod on node "{what_if.node.name}"',))
        if violating:
            victims.sort(key=self.units.importance)
        candidate = Candidate(what_if.node.name, tuple([pod for unit in victims for pod in unit]), violations)
        return RankedCandidate(candidate.node, candidate.victims, violations, rank_candidate(candidate))

    def _reprieve(self, what_if: _WhatIf, unit: Unit) -> bool:
        """Add a unit back if the preemptor fits with it."""
        what_if.add(unit)
        if what_if.rejection(self._pod_filters) is None:
            return True
        what_if.remove(unit)
        return False


class ExtensionError(Exception):
    """Raised when a plugin's AddPod or RemovePod fails; carries its Status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class _WhatIf:
    """A node with simulated pod changes and a matching cycle state, which is a copy if any plugin changes it."""

    def __init__(
        self,
        search: FilterTarget,
        state: CycleState,
        node: NodeInfo,
        statement: Statement,
        rules: VictimRules | None,
    ) -> None:
        self._search = search
        self._rules = rules
        self._extended = tuple(
            step for step in search.filters if step.add_pod is not None or step.remove_pod is not None
        )
        self._state = state.clone() if self._extended else state
        self.node = node
        self._statement = statement
        self._by_row = search.cluster.nodes.by_row
        #: The pods that are removed, with their nodes.
        self._homes: dict[PodInfo, NodeInfo] = {}

    def add(self, unit: Unit) -> None:
        for pod in unit:
            node = self._homes.pop(pod)
            self._statement.add(pod, node.name)
            if self._extended:
                raise_on_error(run_add_pod(self._extended, self._state, self._search.pod, pod, node))

    def remove(self, unit: Unit) -> None:
        for pod in unit:
            node = self._homes[pod] = self._by_row[pod.row]
            self._statement.remove(pod)
            if self._extended:
                raise_on_error(run_remove_pod(self._extended, self._state, self._search.pod, pod, node))

    def rejection(self, filters: Sequence[FilterStep]) -> Status | None:
        """Return the first rejection of the node, with the pods nominated to it and without them."""
        rejection = filter_with_nominated_pods(self._search, filters, self._state, self.node)
        return self._rules.rejection(self._homes.keys()) if rejection is None and self._rules is not None else rejection


def raise_on_error(status: Status | None) -> None:
    if status is not None:
        raise ExtensionError(status)


#: The number of combinations of budget sets whose uses are cached.
_MAX_CACHED_USES = 1024


class _Budget:
    """A PodDisruptionBudget with its selector compiled; pods that its status does not show as evicted yet count."""

    __slots__ = ("allowed", "disrupted", "matches", "name", "namespace")

    def __init__(self, budget: PodDisruptionBudget, matches: Matcher, evicted: Collection[str]) -> None:
        self.namespace, self.name = budget.metadata.namespace, budget.metadata.name
        self.matches = matches
        self.disrupted = frozenset((*budget.status.disrupted_pods, *evicted))
        self.allowed = budget.status.disruptions_allowed - len(self.disrupted) + len(budget.status.disrupted_pods)


class _BudgetSet(msgspec.Struct, eq=False, weakref=True):
    """The budgets that cover the pods of a label class; classes that the same ones cover share it."""

    budgets: tuple[_Budget, ...]


class _BudgetUse(NamedTuple):
    """Budgets that always cover the same pods, counted as one: the one that allows least decides.

    So thousands of budgets over the same pods cost no more than one. Pods that are being disrupted are not counted.
    """

    number: int
    allowed: int
    disrupted: Collection[str]


class EvictedPod(msgspec.Struct, frozen=True):
    """A victim whose eviction the status of a budget does not show yet; `preemptor` is a uid."""

    namespace: str
    budget: str
    pod: str
    uid: str
    preemptor: str


class Budgets:
    """All PodDisruptionBudgets, and which of them cover the pods of a label class; `pods` are those on nodes, by uid.

    An eviction counts at once, so that two preemptors do not use up the same disruption. It counts until the status of
    the budget changes after the victim was seen terminating: only then can the status include it.
    """

    def __init__(self, store: ObjectStore[PodDisruptionBudget], pods: Mapping[str, PodInfo]) -> None:
        #: Counts the changes that may change an answer.
        self.changes: int = 0
        self._store = store
        self._pods = pods
        self.evicted: tuple[EvictedPod, ...] = ()
        self._compiled: list[_Budget] | None = None
        self._by_class: WeakKeyDictionary[LabelClass, _BudgetSet] = WeakKeyDictionary()
        self._sets: WeakValueDictionary[tuple[_Budget, ...], _BudgetSet] = WeakValueDictionary()
        self._uses: dict[tuple[_BudgetSet, ...], dict[_BudgetSet, list[_BudgetUse]]] = {}
        store.on_change(self._on_change)

    def split(self, units: Sequence[Unit]) -> tuple[Mapping[Unit, int], Sequence[Unit]]:
        """Split off the units whose eviction violates a budget if all are evicted in this order.

        They come with the number of their pods that do.
        """
        if not len(self._store):
            return {}, units
        sets = [self._covering(pod.label_class) for unit in units for pod in unit]
        distinct = tuple(dict.fromkeys(sets))
        uses = self._uses.get(distinct)
        if uses is None:
            if len(self._uses) >= _MAX_CACHED_USES:
                self._uses.clear()
            uses = self._uses[distinct] = _group_uses(distinct)
        remaining: dict[int, int] = {}
        violating: dict[Unit, int] = {}
        others: list[Unit] = []
        covering = iter(sets)
        for unit in units:
            violations = 0
            for pod, budget_set in zip(unit, covering, strict=False):
                counted = [use for use in uses[budget_set] if pod.name not in use.disrupted]
                for use in counted:
                    remaining[use.number] = remaining.get(use.number, use.allowed) - 1
                violations += any(remaining[use.number] < 0 for use in counted)
            if violations:
                violating[unit] = violations
            else:
                others.append(unit)
        return violating, others

    def count_evictions(self, preemptor: str, victims: Iterable[PodInfo]) -> None:
        """Count the victims of a preemption in the budgets that cover them."""
        for pod in victims if len(self._store) else ():
            budgets = (each for each in self._covering(pod.label_class).budgets if pod.name not in each.disrupted)
            evicted = [EvictedPod(each.namespace, each.name, pod.name, pod.uid, preemptor) for each in budgets]
            if evicted:
                before, after = self.evicted, (*self.evicted, *evicted)
                self.restore(after)
                if self._store.undo_log.is_open:
                    self._store.undo_log.record(partial(self.restore, before), partial(self.restore, after))

    def discount_failed_evictions(self, preemptor: str) -> None:
        """Count the victims of a failed preemption no more if they are still running."""
        self._keep(lambda evicted: evicted.preemptor != preemptor or not self._is_running(evicted))

    def restore(self, evicted: tuple[EvictedPod, ...]) -> None:
        self.evicted = evicted
        self._forget_answers()

    def _keep(self, is_kept: Callable[[EvictedPod], bool]) -> None:
        kept = tuple(filter(is_kept, self.evicted))
        if kept != self.evicted:
            self.restore(kept)

    def _is_running(self, pod: EvictedPod) -> bool:
        current = self._pods.get(pod.uid)
        return current is not None and not current.terminating

    def _covering(self, pods: LabelClass) -> _BudgetSet:
        budget_set = self._by_class.get(pods)
        if budget_set is None:
            if self._compiled is None:
                self._compiled = _compile_budgets(self._store, self.evicted)
            budgets = tuple(
                budget
                for budget in self._compiled
                if budget.namespace == pods.namespace and pods.labels and budget.matches(pods.labels)
            )
            budget_set = self._by_class[pods] = self._sets.setdefault(budgets, _BudgetSet(budgets))
        return budget_set

    def _on_change(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        if old is not None and (new is None or old.status != new.status):
            key = (old.metadata.namespace, old.metadata.name)
            self._keep(
                lambda each: (each.namespace, each.budget) != key or (new is not None and self._is_running(each))
            )
        if old is None or new is None or _relevant_fields(old) != _relevant_fields(new):
            self._forget_answers()

    def _forget_answers(self) -> None:
        self.changes += 1
        self._compiled = None
        self._by_class.clear()
        self._uses.clear()


def _group_uses(sets: tuple[_BudgetSet, ...]) -> dict[_BudgetSet, list[_BudgetUse]]:
    sets_of: dict[_Budget, list[_BudgetSet]] = {}
    for budget_set in sets:
        for budget in budget_set.budgets:
            sets_of.setdefault(budget, []).append(budget_set)
    least: dict[tuple[tuple[_BudgetSet, ...], _Budget | None], _Budget] = {}
    for budget, own_sets in sets_of.items():
        group = (tuple(own_sets), budget if budget.disrupted else None)
        if budget.allowed < least.setdefault(group, budget).allowed:
            least[group] = budget
    uses: dict[_BudgetSet, list[_BudgetUse]] = {budget_set: [] for budget_set in sets}
    for number, ((group_sets, _), budget) in enumerate(least.items()):
        for budget_set in group_sets:
            uses[budget_set].append(_BudgetUse(number, budget.allowed, budget.disrupted))
    return uses


def _relevant_fields(budget: PodDisruptionBudget) -> tuple[object, ...]:
    """Return the fields of a budget that preemption depends on."""
    status = budget.status
    return (budget.spec.selector, status.disruptions_allowed, status.disrupted_pods.keys())


def _compile_budgets(budgets: Iterable[PodDisruptionBudget], evicted: Iterable[EvictedPod]) -> list[_Budget]:
    """Compile the budgets that cover any pod: an empty or invalid selector covers none."""
    compiled, names = [], dict[tuple[str, str], list[str]]()
    for pod in evicted:
        names.setdefault((pod.namespace, pod.budget), []).append(pod.pod)
    for budget in budgets:
        try:
            selector = label_selector(budget.spec.selector)
        except SelectorError:
            continue
        if not selector.empty:
            key = (budget.metadata.namespace, budget.metadata.name)
            compiled.append(_Budget(budget, selector.matches, names.get(key, ())))
    return compiled
