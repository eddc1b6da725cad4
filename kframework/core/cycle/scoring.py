"""What the Score plugins make of the feasible nodes of one attempt: totals of remembered and of fresh scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.layers import Layer, Plan, ask_score_rows
from kframework.core.runtime.points import bad_score, fault, run_pre_score
from kframework.core.runtime.profile import Profile, ScoreStep, as_column
from kframework.framework.answers import MAX_SCORE, Scores
from kframework.framework.cycle_state import CycleState
from kframework.framework.status import Code, Status
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod

_ERROR = Code.ERROR


class Scoring:
    """The scoring of one attempt: `top` holds what is remembered, None if nothing is; `fresh` is asked anew."""

    def __init__(
        self,
        plan: Plan,
        top: Layer | None,
        fresh: tuple[ScoreStep, ...],
        state: CycleState,
        pod: PendingPod,
        nodes: NodeTable,
    ) -> None:
        self.profile: Profile = plan.profile
        self.plan = plan
        self.top = top
        self.fresh = fresh
        self.state = state
        self.pod = pod
        self.nodes = nodes
        #: Whether anybody must be asked for `pre_score`.
        self.asks_before: bool = bool(plan.fresh_pre_scores) or plan.profile.has_wrapper("pre_score")

    def totals(self, candidates: NDArray[np.int64], skipped: set[str]) -> Scores | Status:
        """Return the weighted sum of all scores for each candidate, or what went wrong."""
        plan, top = self.plan, self.top
        if top is None:
            totals = np.zeros(len(candidates), dtype=np.int64)
        else:
            problem = top.score_fault(candidates.tolist()) if top.faulty_scores else None
            if problem is not None:
                return problem
            totals = top.totals.values[candidates]
            for step in plan.normalizing:
                weighted = self._normalized(step, top.raw_of(step.name).values[candidates])
                if isinstance(weighted, Status):
                    return weighted
                totals += weighted
        for step in self.fresh:
            if step.name in skipped:
                continue
            raw, faults = ask_score_rows(self.profile, step, self.state, self.pod, self.nodes, candidates)
            if faults:
                return next(iter(faults.values()))
            weighted = raw * step.weight if step.normalize is None else self._normalized(step, raw)
            if isinstance(weighted, Status):
                return weighted
            totals += weighted
        return totals

    def pre_score(self, candidates: NDArray[np.int64]) -> set[str] | Status:
        """Run PreScore; return the plugins asked afresh that have nothing to say, or what went wrong."""
        if not self.asks_before:
            return self.plan.pre_score_fault or set()
        return self.profile.wrapped("pre_score", self._run_pre_scores, self.state, self.pod, self.nodes, candidates)

    def _run_pre_scores(
        self, state: CycleState, pod: PendingPod, nodes: object, candidates: NDArray[np.int64]
    ) -> set[str] | Status:
        skipped: set[str] = set()
        plan = self.plan
        for step in plan.fresh_pre_scores if plan.pre_score_fault is None else self.profile.pre_score:
            if step.name in plan.pre_score:
                answer = plan.pre_score[step.name]
            else:
                answer = run_pre_score(self.profile, step, state, pod, self.nodes, candidates)
            if answer is not None and answer.code == _ERROR:
                return answer
            if answer is not None:
                skipped.add(step.name)
        return skipped

    def _normalized(self, step: ScoreStep, raw: Scores) -> Scores | int | Status:
        """Let a plugin normalise its scores of the candidates; return them times its weight."""
        assert step.normalize is not None
        try:
            answer = step.normalize(self.state, self.pod, raw)
            scores = answer if type(answer) is int else as_column(answer, len(raw))
            low, high = (scores, scores) if isinstance(scores, int) else (int(scores.min()), int(scores.max()))
        except Exception as error:
            return fault(self.profile, step.name, "normalize_score", error)
        if low < 0 or high > MAX_SCORE:
            return bad_score(self.profile, step, low if low < 0 else high)
        return scores * step.weight
