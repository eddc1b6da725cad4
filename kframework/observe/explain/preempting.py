"""Why preemption would help a pod that fits nowhere, or why it would not: dry runs that nobody remembers."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np

from kframework.core.cycle.rejections import PASS
from kframework.core.preemption.dry_runs import DryRun, Ranked, rank
from kframework.framework.answers import Candidate
from kframework.framework.status import Code, Status
from kframework.observe.explain.explanation import Preemption
from kframework.observe.explain.full_evaluation import FullEvaluation

#: The plugin whose way out this tells of; what other PostFilter plugins do is theirs to tell.
PREEMPTION = "DefaultPreemption"

#: As many nodes as the plugin looks for by default: candidates in percent of the nodes, but at least so many.
PERCENTAGE, AT_LEAST = 10, 100


def preempting(evaluation: FullEvaluation) -> Generator[None, None, Preemption | None]:
    """Try preemption; None where the profile has none.

    Yields wherever it may pause.
    """
    if all(step.name != PREEMPTION for step in evaluation.profile.post_filter):
        return None
    rejection = evaluation.engine.preemption.ineligible(evaluation.pod, evaluation.diagnosis)
    if rejection is not None:
        return Preemption(why=rejection.message)
    yield
    names = _promising(evaluation)
    if not names:
        return Preemption(why="no node's objection would go with less important pods")
    yield
    tries = _Tries(evaluation, evaluation.engine.preemption.dry_run(evaluation, evaluation.state))
    yield from tries.run(names)
    return tries.summary()


def _promising(evaluation: FullEvaluation) -> list[str]:
    """Name the nodes whose first rejection may go with less important pods."""
    status = evaluation.pre_filter_result.status
    if status is not None:
        return evaluation.names if status.code == Code.UNSCHEDULABLE else []
    first = evaluation.first[evaluation.rows]
    alike = [each for each in np.unique(first[first != PASS]).tolist() if _may_go(evaluation.status(each))]
    return [evaluation.names[place] for place in np.flatnonzero(np.isin(first, alike)).tolist()]


def _may_go(status: Status) -> bool:
    return status.code == Code.UNSCHEDULABLE


class _Tries:
    """Dry runs on one node after the other, until there are enough candidates."""

    def __init__(self, evaluation: FullEvaluation, dry_run: DryRun) -> None:
        self._evaluation = evaluation
        self._dry_run = dry_run
        self._candidates: list[Candidate] = []
        self._reasons: dict[str, int] = {}
        self._tried = 0

    def run(self, names: list[str]) -> Iterator[None]:
        enough = max(len(names) * PERCENTAGE // 100, AT_LEAST)
        for name in names:
            node = self._evaluation.nodes.named(name)
            if node is None:
                continue  # it has left meanwhile
            self._tried += 1
            answer = self._dry_run(node)
            if isinstance(answer, Ranked):
                self._candidates.append(answer)
            else:
                for reason in answer.reasons:
                    self._reasons[reason] = self._reasons.get(reason, 0) + 1
            yield
            if len(self._candidates) >= enough:
                return

    def summary(self) -> Preemption:
        tried, candidates, reasons = self._tried, len(self._candidates), self._reasons
        if not self._candidates:
            return Preemption(why="it would make room on no node", tried=tried, reasons=reasons)
        best = min(self._candidates, key=rank)
        victims = tuple(victim.key for victim in best.victims)
        return Preemption(
            node=best.node,
            victims=victims,
            broken_budgets=best.pdb_violations,
            tried=tried,
            candidates=candidates,
            reasons=reasons,
        )
