"""Scoring of the feasible nodes of one attempt: totals of cached and fresh scores."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.answer_cache import AnswerColumns, ask_score_rows
from kframework.core.cycle.plan import Plan
from kframework.core.runtime.points import run_pre_score
from kframework.core.runtime.steps import ScoreStep
from kframework.framework.cycle_state import CycleState
from kframework.state.node_order import Positions
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod
from kframework.values.scores import Scores
from kframework.values.status import Status

#: How many of the best nodes a result names.
_BEST = 3
_LOWEST = int(np.iinfo(np.int64).min)


class Scoring(msgspec.Struct, eq=False):
    """The scoring of one attempt's feasible nodes: cached scores of the plan plus fresh ones.

    `rows` are the rows of the nodes, `positions` their positions in node order.
    """

    plan: Plan
    state: CycleState
    pod: PendingPod
    nodes: NodeTable
    positions: Positions
    rows: NDArray[np.int64]

    def pre_score(self) -> frozenset[str] | Status:
        """Run PreScore; return the uncached plugins that skip scoring, or the error."""
        plan = self.plan
        if not plan.runs_pre_score:
            return plan.pre_score_fault or frozenset()
        if not plan.profile.has_wrapper("pre_score"):
            return self._run_pre_score()
        arguments = (self.state, self.pod, self.nodes, self.rows)
        return plan.profile.run_wrapped("pre_score", self._run_pre_score, lambda status: status, *arguments)

    def _run_pre_score(self) -> frozenset[str] | Status:
        skipped = run_pre_score(self.plan.fresh_pre_scores, self.state, self.pod, self.nodes, self.rows)
        return skipped if isinstance(skipped, Status) else self.plan.pre_score_fault or skipped

    def _normalized(self, step: ScoreStep, cache: AnswerColumns) -> Scores | int | Status:
        """Normalise a plugin's cached scores; a result for equal raw scores is reused."""
        raw, nodes = cache.uniform_raw_score(step.name), len(self.rows)
        if raw is None:
            return step.normalize_scores(self.state, self.pod, cache.raw_of(step.name).view[self.positions])
        known = self.plan.uniform_scores.get(step.name)
        if known is not None and known[0] == raw and known[1] == nodes:
            return known[2]
        scores = step.normalize_scores(self.state, self.pod, np.full(nodes, raw))
        if not isinstance(scores, int | Status) and (scores == scores[0]).all():
            scores = scores.item(0)
        if isinstance(scores, int):
            self.plan.uniform_scores[step.name] = raw, nodes, scores
        return scores

    def totals(self, skipped: frozenset[str]) -> Scores | Status:
        """Return the weighted sum of all scores for each candidate, or the error."""
        plan, cache = self.plan, self.plan.cache
        totals = np.zeros(len(self.rows), dtype=np.int64) if cache is None else cache.totals.view[self.positions]
        if cache is not None:
            problem = cache.score_fault(self.rows.tolist()) if cache.has_faulty_scores else None
            if problem is not None:
                return problem
            for step in plan.normalizing:
                scores = self._normalized(step, cache)
                if isinstance(scores, Status):
                    return scores
                if not isinstance(scores, int) or scores:  # saves a microsecond of adding nothing
                    totals = totals + step.weight * scores
        for step in plan.fresh_scores:
            if step.name in skipped:
                continue
            raw, faults = ask_score_rows(step, self.state, self.pod, self.nodes, self.rows)
            if faults:
                return next(iter(faults.values()))
            scores = raw if step.normalize is None else step.normalize_scores(self.state, self.pod, raw)
            if isinstance(scores, Status):
                return scores
            totals = totals + step.weight * scores
        return totals


def find_best(totals: Scores, score: int, ties: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return the positions of the best three totals with these, in the order of the search if they are equal.

    `score` is the largest total, and `ties` are its positions.
    """
    best, wanted = [(position, score) for position in ties[:_BEST].tolist()], min(_BEST, len(totals))
    if len(best) < wanted:
        rest = totals.copy()
        rest[ties] = _LOWEST
        while len(best) < wanted:
            position = int(rest.argmax())
            best.append((position, rest.item(position)))
            rest[position] = _LOWEST
    return best
