"""Preemption: on which nodes it would help a pod, and where it costs least; the rules are kube-scheduler's."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from random import Random

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.decision import fit_error
from kframework.core.cycle.oracle import VerificationError
from kframework.core.cycle.question import Question
from kframework.core.cycle.search import Search
from kframework.core.preemption.budgets import Budgets
from kframework.core.preemption.dry_run_memory import UNKNOWN, Answers, DryRunMemory
from kframework.core.preemption.dry_runs import DryRun, Ranked, may_preempt, rank
from kframework.core.preemption.preempting import Preempting
from kframework.framework.answers import Candidate, Diagnosis
from kframework.framework.cycle_state import CycleState
from kframework.framework.handle import DryRuns, Preemption
from kframework.objects import PodDisruptionBudget
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeInfo
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.status import Code, Status

_NEVER = Status(Code.UNSCHEDULABLE, ("not eligible due to preemptionPolicy=Never.",))
_WAITS = Status(Code.UNSCHEDULABLE, ("not eligible due to a terminating pod on the nominated node.",))
_NOT_HELPFUL = "Preemption is not helpful for scheduling"


class Evaluator(Preemption):
    """Dry runs of preemption for the pod whose search is going on.

    `offsets` draws where in the order of the nodes the dry runs start; nothing else is left to chance. `spared` tells
    of a pod that it is never a victim. `verifying` compares every remembered answer with one asked afresh.
    """

    def __init__(
        self,
        cluster: ClusterState,
        preempting: Preempting,
        offsets: Random,
        search: Callable[[], Search | None],
        *,
        spared: Callable[[PodInfo], bool] | None = None,
        verifying: bool = False,
    ) -> None:
        self._cluster = cluster
        self._preempting = preempting
        self._offsets = offsets
        self._search = search
        self._spared = spared
        self._verifying = verifying
        self._budgets = Budgets(cluster.objects(PodDisruptionBudget))
        self._memory = DryRunMemory(cluster)

    def under_way(self, pod: PendingPod) -> bool:
        return self._preempting.holds_back(pod.uid, self._cluster.pods)

    def ineligible(self, pod: PendingPod, diagnosis: Diagnosis) -> Status | None:
        if pod.spec.preemption_policy == "Never":
            return _NEVER
        name = pod.status.nominated_node_name or self._cluster.nominator.node_of(pod.uid)
        node = self._cluster.nodes.named(name)
        if node is None or diagnosis[node.row].code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return None
        leaving = (other for other in node.pods if other.terminating and other.disrupted)
        return _WAITS if any(may_preempt(pod, other, self._spared) for other in leaving) else None

    def victims(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Candidate | Status:
        return self.dry_run(self._search_of(pod), state)(node)

    def candidates(
        self,
        state: CycleState,
        pod: PendingPod,
        diagnosis: Diagnosis,
        *,
        percentage: int = 10,
        absolute: int = 100,
    ) -> DryRuns:
        search = self._search_of(pod)
        dry_run = self.dry_run(search, state)
        answers = self._answers(search, state)
        potential = diagnosis.rows(Code.UNSCHEDULABLE)
        enough = min(len(potential), max(len(potential) * percentage // 100, absolute))
        if len(potential) and answers.offset is None:
            answers.offset = self._offsets.randrange(len(potential))
        elif answers.offset is not None:
            answers.offset += 1  # preemptors of one kind begin one node further each time, and reuse remembered answers
        node_order = np.roll(potential, -(answers.offset or 0))
        if self._verifying:
            _verify(search, dry_run, answers, node_order)
        candidates = _candidates(search, dry_run, answers, node_order, enough)
        return DryRuns(
            candidates, Status(Code.SUCCESS) if candidates else _none(answers, node_order, len(search.nodes))
        )

    def key(self, candidate: Candidate) -> Hashable:
        return rank(candidate)

    def _search_of(self, pod: PendingPod) -> Search:
        search = self._search()
        if search is None or search.pod is not pod:
            raise RuntimeError(f"preemption was asked for pod {pod.key}, but this is not its scheduling cycle")
        return search

    def dry_run(self, question: Question, state: CycleState) -> DryRun:
        """Return what tries nodes, one after the other, and remembers nothing."""
        return DryRun(question, state, self._budgets, self._spared)

    def _answers(self, search: Search, state: CycleState) -> Answers:
        """Return what is known already: nothing where some plugin's answer is this pod's alone."""
        if state is not search.state or not search.plan.remembers_filters:
            return Answers(search.cluster)
        answers = self._memory.answers(search.plan.signature, search.pod.priority, self._budgets.changes)
        answers.catch_up(search.pod)
        return answers


def _candidates(
    search: Search, dry_run: DryRun, answers: Answers, node_order: NDArray[np.int64], enough: int
) -> tuple[Candidate, ...]:
    """Look at these rows in turn until there are enough candidates, one of which breaks no budget; such come first."""
    safe: list[Candidate] = []
    violating: list[Candidate] = []
    by_row = search.nodes.by_row
    # Rows of which it is known that preemption does not help need not be looked at one by one.
    for row in node_order[answers.found.values[node_order] >= UNKNOWN].tolist():
        found = answers.candidates.get(row)
        if found is None:
            answer = dry_run(by_row[row])
            answers.put(row, answer)
            if not isinstance(answer, Ranked):
                continue
            found = answer
        (violating if found.pdb_violations else safe).append(found)
        if safe and 0 < enough <= len(safe) + len(violating):
            break
    # Where none is enough, as the percentage of few nodes may be, kube-scheduler drops them all.
    return (*safe[:enough], *violating[:enough])


def _none(answers: Answers, rows: NDArray[np.int64], nodes: int) -> Status:
    """Say why there is no candidate: the errors, or what stands against each of all nodes."""
    statuses = answers.statuses(rows)
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


def _verify(search: Search, dry_run: DryRun, answers: Answers, rows: NDArray[np.int64]) -> None:
    """Compare what is remembered of these rows with dry runs made afresh; VerificationError where they differ."""
    for row in rows.tolist():
        remembered = answers.get(row)
        if remembered is not None and remembered != (afresh := dry_run(search.nodes[row])):
            raise VerificationError(search, f"dry run on node {search.nodes[row].name}", remembered, afresh)
