"""Preemption: which pods must leave a node so that another fits, and on which node that costs least.

The rules are those of kube-scheduler's DefaultPreemption. A dry run is a Statement on the live tables: the pods of
lower priority are taken off the node, the Filter plugins are asked, and pods are put back one by one, the most
important first, as long as the preemptor still fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from random import Random
from weakref import WeakKeyDictionary

from kframework.clock import seconds_of
from kframework.cycle import Search
from kframework.cycle_state import CycleState
from kframework.decision import fit_error
from kframework.handle import DryRuns
from kframework.objects import PodDisruptionBudget
from kframework.plugin import Candidate, Diagnosis
from kframework.points import run_add_pod, run_filter, run_remove_pod
from kframework.profile import FilterStep
from kframework.selectors import Matcher, SelectorError, label_selector
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeInfo
from kframework.state.objects import ObjectStore
from kframework.state.pods import LabelClass, PendingPod, PodInfo
from kframework.state.statement import Statement
from kframework.status import Code, Status

__all__ = ["Evaluator"]

_NO_VICTIMS = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("No preemption victims found for incoming pod",))
_NOT_HELPFUL = "Preemption is not helpful for scheduling"

#: Added to each priority so that the sum grows with the number of victims, however low their priorities are.
_LOWEST = 1 << 31


class Evaluator:
    """Implements `kframework.handle.Preemption` for the pod whose search is going on.

    `offsets` draws where in the order of the nodes the dry runs start; nothing else is left to chance.
    """

    def __init__(self, cluster: ClusterState, offsets: Random, search: Callable[[], Search | None]) -> None:
        self._cluster = cluster
        self._offsets = offsets
        self._search = search
        self._budgets = _Budgets(cluster.objects(PodDisruptionBudget))

    def victims(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Candidate | Status:
        """Dry-run one node: which pods of lower priority must go, or why that does not help."""
        return self._preemptor(pod).victims(state, node)

    def candidates(
        self,
        state: CycleState,
        pod: PendingPod,
        diagnosis: Diagnosis,
        *,
        percentage: int = 10,
        absolute: int = 100,
    ) -> DryRuns:
        """Dry-run the nodes that preemption may help on, from a random place in their order, until enough would do."""
        preemptor, nodes = self._preemptor(pod), self._cluster.nodes
        potential = [nodes[row] for row in diagnosis.rows(Code.UNSCHEDULABLE)]
        enough = min(len(potential), max(len(potential) * percentage // 100, absolute))
        offset = self._offsets.randrange(len(potential)) if potential else 0
        safe: list[Candidate] = []
        violating: list[Candidate] = []
        statuses: dict[str, Status] = {}
        for node in potential[offset:] + potential[:offset]:
            found = preemptor.victims(state, node)
            if isinstance(found, Status):
                statuses[node.name] = found
                continue
            (violating if found.pdb_violations else safe).append(found)
            if safe and len(safe) + len(violating) >= enough:
                break
        candidates = (*safe, *violating[:enough])
        return DryRuns(candidates, statuses, Status(Code.SUCCESS) if candidates else _none(statuses, len(nodes)))

    def key(self, candidate: Candidate) -> Hashable:
        """Rank a candidate: the smallest key is the node where preemption costs least."""
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

    def _preemptor(self, pod: PendingPod) -> _Preemptor:
        search = self._search()
        if search is None or search.pod is not pod:
            raise RuntimeError(f"preemption was asked for pod {pod.key}, but this is not its scheduling cycle")
        return _Preemptor(search, self._budgets)

    def __repr__(self) -> str:
        return f"<Evaluator {self._budgets!r}>"


def _none(statuses: Mapping[str, Status], nodes: int) -> Status:
    """Say why there is no candidate: the errors, or what stands against each of all nodes."""
    errors = dict.fromkeys(status.message for status in statuses.values() if status.code == Code.ERROR)
    if errors:
        text = ", ".join(errors)
        return Status(Code.ERROR, (text if len(errors) == 1 else f"[{text}]",))
    reasons: dict[str, int] = {}
    for status in statuses.values():
        for reason in status.reasons:
            reasons[reason] = reasons.get(reason, 0) + 1
    if len(statuses) < nodes:
        reasons[_NOT_HELPFUL] = nodes - len(statuses)
    return Status(Code.UNSCHEDULABLE, (fit_error(nodes, reasons),))


def _importance(pod: PodInfo) -> tuple[int, float, str]:
    """Rank a pod, the most important first: higher priority, then running for longer, then by name."""
    return (-pod.priority, _started(pod), pod.key)


def _started(pod: PodInfo) -> float:
    """Return when the pod started, in seconds since 1970; one that has not started yet is the youngest of all.

    kube-scheduler takes the present in its place, which is the same as long as the clocks of the cluster agree.
    """
    return seconds_of(pod.start_time) if pod.start_time is not None else math.inf


# -- dry runs ------------------------------------------------------------------------------------------------------


class _Preemptor:
    """The pod that wants room, with what all dry runs for it share."""

    def __init__(self, search: Search, budgets: _Budgets) -> None:
        self._search = search
        self._budgets = budgets
        self._rivals = dict(search.cluster.nominator.rivals(search.pod))
        # What a plugin says that looks at no pods holds, whichever of them stay.
        self._look_at_pods = tuple(step for step in search.filters if step.plugin.reads != "node")

    def victims(self, state: CycleState, node: NodeInfo) -> Candidate | Status:
        """Find the pods of lower priority that must leave the node, or why that does not help."""
        search = self._search
        lower = sorted((other for other in node.pods if other.priority < search.pod.priority), key=_importance)
        if not lower:
            return _NO_VICTIMS
        with search.cluster.statement() as statement:
            what_if = _WhatIf(search, state, node, self._rivals.get(node.name, []), statement)
            try:
                return self._dry_run(what_if, lower)
            except _ExtensionError as error:
                return error.status

    def _dry_run(self, what_if: _WhatIf, lower: Sequence[PodInfo]) -> Candidate | Status:
        for pod in lower:
            what_if.remove(pod)
        objection = what_if.objection(self._search.filters)
        if objection is not None:
            return objection
        violating, others = self._budgets.split(lower)
        victims = [pod for pod in violating if not self._reprieved(what_if, pod)]
        violations = len(victims)
        victims += [pod for pod in others if not self._reprieved(what_if, pod)]
        if not victims:
            return Status(Code.ERROR, (f'expected at least one victim pod on node "{what_if.node.name}"',))
        return Candidate(what_if.node.name, tuple(sorted(victims, key=_importance)), violations)

    def _reprieved(self, what_if: _WhatIf, pod: PodInfo) -> bool:
        """Put a pod back if the preemptor fits beside it."""
        what_if.add(pod)
        if what_if.objection(self._look_at_pods) is None:
            return True
        what_if.remove(pod)
        return False


class _ExtensionError(Exception):
    """Raised when a plugin could not take in that a pod came or went; carries its Status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class _WhatIf:
    """A node on which pods come and go, with a cycle state that keeps up with them: a copy if any plugin changes it."""

    def __init__(
        self, search: Search, state: CycleState, node: NodeInfo, rivals: Sequence[PodInfo], statement: Statement
    ) -> None:
        self._search = search
        self._extended = tuple(
            step for step in search.filters if step.add_pod is not None or step.remove_pod is not None
        )
        self._state = state.clone() if self._extended else state
        self.node = node
        self._rivals = rivals
        self._statement = statement

    def add(self, pod: PodInfo) -> None:
        """Put a pod on the node."""
        search = self._search
        self._statement.add(pod, self.node.name)
        _check(run_add_pod(search.profile, self._extended, self._state, search.pod, pod, self.node))

    def remove(self, pod: PodInfo) -> None:
        """Take a pod off the node."""
        search = self._search
        self._statement.remove(pod)
        _check(run_remove_pod(search.profile, self._extended, self._state, search.pod, pod, self.node))

    def objection(self, filters: Iterable[FilterStep]) -> Status | None:
        """Return the first objection to the node, once the pods nominated to it are there, then as it stands."""
        if self._rivals:
            objection = self._objection_beside_rivals(filters)
            if objection is not None:
                return objection
        search = self._search
        for step in filters:
            objection = run_filter(search.profile, step, self._state, search.pod, self.node)
            if objection is not None:
                return objection
        return None

    def _objection_beside_rivals(self, filters: Iterable[FilterStep]) -> Status | None:
        with self._search.cluster.statement() as statement:
            arrived = _WhatIf(self._search, self._state, self.node, (), statement)
            try:
                for rival in self._rivals:
                    arrived.add(rival)
            except _ExtensionError as error:
                return error.status
            return arrived.objection(filters)


def _check(failed: Status | None) -> None:
    if failed is not None:
        raise _ExtensionError(failed)


# -- PodDisruptionBudgets ------------------------------------------------------------------------------------------


class _Budget:
    """A PodDisruptionBudget with its selector compiled."""

    __slots__ = ("allowed", "disrupted", "matches", "namespace")

    def __init__(self, budget: PodDisruptionBudget, matches: Matcher) -> None:
        self.namespace = budget.metadata.namespace
        self.matches = matches
        self.allowed = budget.status.disruptions_allowed
        self.disrupted = budget.status.disrupted_pods


class _Budgets:
    """All PodDisruptionBudgets, and which of them cover the pods of a label class."""

    def __init__(self, store: ObjectStore[PodDisruptionBudget]) -> None:
        self._store = store
        self._compiled: list[_Budget] | None = None
        self._covering: WeakKeyDictionary[LabelClass, tuple[_Budget, ...]] = WeakKeyDictionary()
        store.on_change(self._changed)

    def split(self, pods: Iterable[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """Part the pods whose eviction breaks a budget, if all are evicted in this order, from the others."""
        left: dict[_Budget, int] = {}
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            charged = [budget for budget in self._covering_class(pod.label_class) if pod.name not in budget.disrupted]
            for budget in charged:
                left[budget] = left.get(budget, budget.allowed) - 1
            (violating if any(left[budget] < 0 for budget in charged) else others).append(pod)
        return violating, others

    def _covering_class(self, pods: LabelClass) -> tuple[_Budget, ...]:
        covering = self._covering.get(pods)
        if covering is None:
            if self._compiled is None:
                self._compiled = _compiled(self._store)
            covering = tuple(
                budget
                for budget in self._compiled
                if budget.namespace == pods.namespace and pods.labels and budget.matches(pods.labels)
            )
            self._covering[pods] = covering
        return covering

    def _changed(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        self._compiled = None
        self._covering.clear()

    def __repr__(self) -> str:
        return f"<{len(self._store)} PodDisruptionBudgets>"


def _compiled(budgets: Iterable[PodDisruptionBudget]) -> list[_Budget]:
    """Compile the budgets that cover anything: an empty selector covers no pod, nor does one that cannot be read."""
    compiled = []
    for budget in budgets:
        try:
            selector = label_selector(budget.spec.selector)
        except SelectorError:
            continue
        if not selector.empty:
            compiled.append(_Budget(budget, selector.matches))
    return compiled
