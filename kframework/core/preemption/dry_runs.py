"""Dry runs: the pods that would have to leave a node so that another fits there, by kube-scheduler's rules.

A dry run is a Statement on the live tables: it removes the pods of lower priority from the node, runs the Filter
plugins, and adds pods back one by one, the most important first, as long as the preemptor still fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

from kframework.clock import seconds_of
from kframework.core.cycle.rejections import FilterTarget, filter_with_nominated_pods
from kframework.core.runtime.points import run_add_pod, run_remove_pod
from kframework.core.runtime.steps import FilterStep
from kframework.framework.answers import Candidate
from kframework.framework.cycle_state import CycleState
from kframework.objects import PodDisruptionBudget
from kframework.objects.label_selectors import Matcher, SelectorError, label_selector
from kframework.state.nodes import NodeInfo
from kframework.state.objects import ObjectStore
from kframework.state.pod_counts import LabelClass
from kframework.state.pods import PodInfo
from kframework.state.statement import Statement
from kframework.values.status import Code, Status

_NO_VICTIMS = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("No preemption victims found for incoming pod",))

#: Added to each priority so that the sum grows with the number of victims, however low their priorities are.
_LOWEST = 1 << 31

#: The cost of preemption on a node, by kube-scheduler's criteria in their order; ties by node name.
Rank = tuple[int, int, int, int, float, str]

_seconds = lru_cache(maxsize=1 << 14)(seconds_of)


class Ranked(Candidate, frozen=True):
    """A candidate that stores its rank, because cached candidates are ranked again and again."""

    rank: Rank = (0, 0, 0, 0, 0.0, "")


def may_preempt(pod: PodInfo, other: PodInfo, spared: Callable[[PodInfo], bool] | None) -> bool:
    """Return whether this pod may preempt the other one."""
    return other.priority < pod.priority and (spared is None or not spared(other))


def rank(candidate: Candidate) -> Rank:
    """Return the rank of a candidate; the smallest costs least."""
    if isinstance(candidate, Ranked):
        return candidate.rank
    victims = candidate.victims
    highest = max(victim.priority for victim in victims)
    return (
        candidate.pdb_violations,
        highest,
        sum(victim.priority + _LOWEST for victim in victims),
        len(victims),
        -min(_started(victim) for victim in victims if victim.priority == highest),
        candidate.node,
    )


def _importance(pod: PodInfo) -> tuple[int, float, str, str]:
    """Rank a pod, the most important first: higher priority, then running for longer, then by name."""
    return (-pod.priority, _started(pod), pod.namespace, pod.name)


def _started(pod: PodInfo) -> float:
    """Return when the pod started, in seconds since 1970; a pod that has not started counts as the youngest.

    kube-scheduler uses the current time instead, which is the same if the clocks of the cluster agree.
    """
    return _seconds(pod.start_time) if pod.start_time is not None else math.inf


class DryRun(msgspec.Struct, eq=False, dict=True):
    """A trial that finds, node by node, the victims needed to make room for a pod.

    The preemptor must leave room for nominated pods of equal or higher priority; `spared` returns whether a pod is
    never a victim.
    """

    search: FilterTarget
    state: CycleState
    budgets: Budgets
    spared: Callable[[PodInfo], bool] | None

    def __post_init__(self) -> None:
        # The answer of a plugin that reads no pods does not depend on which of them stay.
        self._look_at_pods = tuple(step for step in self.search.filters if step.plugin.reads != "node")

    def __call__(self, node: NodeInfo) -> Ranked | Status:
        """Return the victims on the node, or the Status why preemption does not help."""
        search = self.search
        lower = [other for other in node.pods if may_preempt(search.pod, other, self.spared)]
        if not lower:
            return _NO_VICTIMS
        with search.cluster.statement() as statement:
            what_if = _WhatIf(search, self.state, node, statement)
            try:
                return self._victims(what_if, lower)
            except _ExtensionError as error:
                return error.status

    def _victims(self, what_if: _WhatIf, lower: list[PodInfo]) -> Ranked | Status:
        for pod in lower:
            what_if.remove(pod)
        rejection = what_if.rejection(self.search.filters)
        if rejection is not None:
            return rejection
        lower.sort(key=_importance)
        violating, others = self.budgets.split(lower)
        victims = [pod for pod in violating if not self._reprieved(what_if, pod)]
        violations = len(victims)
        victims += [pod for pod in others if not self._reprieved(what_if, pod)]
        if not victims:
            return Status(Code.ERROR, (f'expected at least one victim pod on node "{what_if.node.name}"',))
        if violating:
            victims.sort(key=_importance)
        found = Candidate(what_if.node.name, tuple(victims), violations)
        return Ranked(found.node, found.victims, violations, rank(found))

    def _reprieved(self, what_if: _WhatIf, pod: PodInfo) -> bool:
        """Add a pod back if the preemptor fits with it."""
        what_if.add(pod)
        if what_if.rejection(self._look_at_pods) is None:
            return True
        what_if.remove(pod)
        return False


class _ExtensionError(Exception):
    """Raised when a plugin's AddPod or RemovePod fails; carries its Status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class _WhatIf:
    """A node with simulated pod changes and a matching cycle state, which is a copy if any plugin changes it."""

    def __init__(self, search: FilterTarget, state: CycleState, node: NodeInfo, statement: Statement) -> None:
        self._search = search
        self._extended = tuple(
            step for step in search.filters if step.add_pod is not None or step.remove_pod is not None
        )
        self._state = state.clone() if self._extended else state
        self.node = node
        self._statement = statement

    def add(self, pod: PodInfo) -> None:
        self._statement.add(pod, self.node.name)
        if self._extended:
            _check(run_add_pod(self._extended, self._state, self._search.pod, pod, self.node))

    def remove(self, pod: PodInfo) -> None:
        self._statement.remove(pod)
        if self._extended:
            _check(run_remove_pod(self._extended, self._state, self._search.pod, pod, self.node))

    def rejection(self, filters: Sequence[FilterStep]) -> Status | None:
        """Return the first rejection of the node, with the pods nominated to it and without them."""
        return filter_with_nominated_pods(self._search, filters, self._state, self.node)


def _check(failed: Status | None) -> None:
    if failed is not None:
        raise _ExtensionError(failed)


#: The number of sets of covers whose budget charges are cached.
_CHARGES = 1024


class _Budget:
    """A PodDisruptionBudget with its selector compiled."""

    __slots__ = ("allowed", "disrupted", "matches", "namespace")

    def __init__(self, budget: PodDisruptionBudget, matches: Matcher) -> None:
        self.namespace = budget.metadata.namespace
        self.matches = matches
        self.allowed = budget.status.disruptions_allowed
        self.disrupted = budget.status.disrupted_pods


class _BudgetSet(msgspec.Struct, eq=False, weakref=True):
    """The budgets that cover the pods of a label class; classes that the same ones cover share it."""

    budgets: tuple[_Budget, ...]


class _BudgetUse(NamedTuple):
    """Budgets that always cover the same pods, charged as one: the one that allows least decides.

    So thousands of budgets over the same pods cost no more than one. Pods that are being disrupted are not charged.
    """

    number: int
    allowed: int
    disrupted: Collection[str]


class Budgets:
    """All PodDisruptionBudgets, and which of them cover the pods of a label class."""

    def __init__(self, store: ObjectStore[PodDisruptionBudget]) -> None:
        #: Counts the changes that may change an answer.
        self.changes: int = 0
        self._store = store
        self._compiled: list[_Budget] | None = None
        self._covers: WeakKeyDictionary[LabelClass, _BudgetSet] = WeakKeyDictionary()
        self._shared: WeakValueDictionary[tuple[_Budget, ...], _BudgetSet] = WeakValueDictionary()
        self._charges: dict[tuple[_BudgetSet, ...], dict[_BudgetSet, list[_BudgetUse]]] = {}
        store.on_change(self._changed)

    def split(self, pods: Sequence[PodInfo]) -> tuple[Sequence[PodInfo], Sequence[PodInfo]]:
        """Split off the pods whose eviction violates a budget if all are evicted in this order."""
        if not len(self._store):
            return (), pods
        covers = [self._cover(pod.label_class) for pod in pods]
        distinct = tuple(dict.fromkeys(covers))
        charges = self._charges.get(distinct)
        if charges is None:
            if len(self._charges) >= _CHARGES:
                self._charges.clear()
            charges = self._charges[distinct] = _charges(distinct)
        left: dict[int, int] = {}
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod, cover in zip(pods, covers, strict=True):
            charged = [charge for charge in charges[cover] if pod.name not in charge.disrupted]
            for charge in charged:
                left[charge.number] = left.get(charge.number, charge.allowed) - 1
            (violating if any(left[charge.number] < 0 for charge in charged) else others).append(pod)
        return violating, others

    def _cover(self, pods: LabelClass) -> _BudgetSet:
        cover = self._covers.get(pods)
        if cover is None:
            if self._compiled is None:
                self._compiled = _compiled(self._store)
            budgets = tuple(
                budget
                for budget in self._compiled
                if budget.namespace == pods.namespace and pods.labels and budget.matches(pods.labels)
            )
            cover = self._covers[pods] = self._shared.setdefault(budgets, _BudgetSet(budgets))
        return cover

    def _changed(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        if old is not None and new is not None and _says(old) == _says(new):
            return
        self.changes += 1
        self._compiled = None
        self._covers.clear()
        self._charges.clear()


def _charges(covers: tuple[_BudgetSet, ...]) -> dict[_BudgetSet, list[_BudgetUse]]:
    covered: dict[_Budget, list[_BudgetSet]] = {}
    for cover in covers:
        for budget in cover.budgets:
            covered.setdefault(budget, []).append(cover)
    least: dict[tuple[tuple[_BudgetSet, ...], _Budget | None], _Budget] = {}
    for budget, alike in covered.items():
        together = (tuple(alike), budget if budget.disrupted else None)
        if budget.allowed < least.setdefault(together, budget).allowed:
            least[together] = budget
    found: dict[_BudgetSet, list[_BudgetUse]] = {cover: [] for cover in covers}
    for number, ((alike_covers, _), budget) in enumerate(least.items()):
        for cover in alike_covers:
            found[cover].append(_BudgetUse(number, budget.allowed, budget.disrupted))
    return found


def _says(budget: PodDisruptionBudget) -> tuple[object, ...]:
    """Return all of a budget that counts here."""
    status = budget.status
    return (budget.spec.selector, status.disruptions_allowed, status.disrupted_pods.keys())


def _compiled(budgets: Iterable[PodDisruptionBudget]) -> list[_Budget]:
    """Compile the budgets that cover any pod: an empty or invalid selector covers none."""
    compiled = []
    for budget in budgets:
        try:
            selector = label_selector(budget.spec.selector)
        except SelectorError:
            continue
        if not selector.empty:
            compiled.append(_Budget(budget, selector.matches))
    return compiled
