"""Dry runs: which pods would have to leave a node so that another fits there, by kube-scheduler's rules.

A dry run is a Statement on the live tables: the pods of lower priority are taken off the node, the Filter plugins are
asked, and pods are put back one by one, the most important first, as long as the preemptor still fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

from kframework.clock import seconds_of
from kframework.core.cycle.question import Question, filter_with_nominated_pods
from kframework.core.preemption.budgets import Budgets
from kframework.core.runtime.points import run_add_pod, run_remove_pod
from kframework.core.runtime.steps import FilterStep
from kframework.framework.answers import Candidate
from kframework.framework.cycle_state import CycleState
from kframework.state.nodes import NodeInfo
from kframework.state.pods import PodInfo
from kframework.state.statement import Statement
from kframework.values.status import Code, Status

_NO_VICTIMS = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("No preemption victims found for incoming pod",))

#: Added to each priority so that the sum grows with the number of victims, however low their priorities are.
_LOWEST = 1 << 31

#: What preemption costs on a node, by kube-scheduler's criteria in their order; equals by name of the node.
Rank = tuple[int, int, int, int, float, str]

_seconds = lru_cache(maxsize=1 << 14)(seconds_of)


class Ranked(Candidate, frozen=True):
    """A candidate that knows its rank: what is remembered is asked for it again and again."""

    rank: Rank = (0, 0, 0, 0, 0.0, "")


def may_preempt(pod: PodInfo, other: PodInfo, spared: Callable[[PodInfo], bool] | None) -> bool:
    """Return whether the other pod may have to go for this one."""
    return other.priority < pod.priority and (spared is None or not spared(other))


def rank(candidate: Candidate) -> Rank:
    """Rank a candidate: the smallest is where preemption costs least."""
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
    """Return when the pod started, in seconds since 1970; one that has not started yet is the youngest of all.

    kube-scheduler takes the present in its place, which is the same as long as the clocks of the cluster agree.
    """
    return _seconds(pod.start_time) if pod.start_time is not None else math.inf


class DryRun:
    """Tries on nodes what it would take to make room for the pod that a question is about.

    The preemptor must leave room for the nominated pods that are as important; `spared` tells of a pod that it is
    never a victim.
    """

    def __init__(
        self,
        search: Question,
        state: CycleState,
        budgets: Budgets,
        spared: Callable[[PodInfo], bool] | None,
    ) -> None:
        self._search = search
        self._state = state
        self._budgets = budgets
        self._spared = spared
        # What a plugin says that looks at no pods holds, whichever of them stay.
        self._look_at_pods = tuple(step for step in search.filters if step.plugin.reads != "node")

    def __call__(self, node: NodeInfo) -> Ranked | Status:
        """Find the pods of lower priority that must leave the node, or why that does not help."""
        search = self._search
        lower = [other for other in node.pods if may_preempt(search.pod, other, self._spared)]
        if not lower:
            return _NO_VICTIMS
        with search.cluster.statement() as statement:
            what_if = _WhatIf(search, self._state, node, statement)
            try:
                return self._victims(what_if, lower)
            except _ExtensionError as error:
                return error.status

    def _victims(self, what_if: _WhatIf, lower: list[PodInfo]) -> Ranked | Status:
        for pod in lower:
            what_if.remove(pod)
        rejection = what_if.rejection(self._search.filters)
        if rejection is not None:
            return rejection
        lower.sort(key=_importance)
        violating, others = self._budgets.split(lower)
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
        """Put a pod back if the preemptor fits beside it."""
        what_if.add(pod)
        if what_if.rejection(self._look_at_pods) is None:
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

    def __init__(self, search: Question, state: CycleState, node: NodeInfo, statement: Statement) -> None:
        self._search = search
        self._extended = tuple(
            step for step in search.filters if step.add_pod is not None or step.remove_pod is not None
        )
        self._state = state.clone() if self._extended else state
        self.node = node
        self._statement = statement

    def add(self, pod: PodInfo) -> None:
        """Put a pod on the node."""
        search = self._search
        self._statement.add(pod, self.node.name)
        if self._extended:
            _check(run_add_pod(self._extended, self._state, search.pod, pod, self.node))

    def remove(self, pod: PodInfo) -> None:
        """Take a pod off the node."""
        search = self._search
        self._statement.remove(pod)
        if self._extended:
            _check(run_remove_pod(self._extended, self._state, search.pod, pod, self.node))

    def rejection(self, filters: Sequence[FilterStep]) -> Status | None:
        """Return the first rejection of the node, with the pods nominated to it and without them."""
        return filter_with_nominated_pods(self._search, filters, self._state, self.node)


def _check(failed: Status | None) -> None:
    if failed is not None:
        raise _ExtensionError(failed)
