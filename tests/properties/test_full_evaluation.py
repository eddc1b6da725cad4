"""What an evaluation says of a pod is what an attempt finds right behind it, and asking has changed nothing.

On random clusters to which everything happens that the plugins of the default profile know.
"""

from __future__ import annotations

from random import Random

import pytest

from kframework.core.cycle.oracle import Oracle
from kframework.core.cycle.rejections import PASS
from kframework.core.cycle.results import FitError, ScheduleError, ScheduleResult
from kframework.explain.full_evaluation import FullEvaluation
from kframework.state.pods import PendingPod, QueuedPod
from tests.properties.test_default_profile import CLUSTERS, Tries
from tests.support.evaluations import evaluate


class Evaluations(Tries):
    """Pods that are asked about, then tried, while the cluster changes."""

    def look(self, pod: PendingPod) -> None:
        before = self._tables()
        evaluation = self._evaluate(pod)
        assert self._tables() == before
        search = self.engine.search(self.engine.start_attempt(QueuedPod(pod, 0.0)))
        outcome = self.engine.check_outcome(search, search.run())
        self.engine.current_search = None
        self._row_by_row(evaluation)
        if isinstance(outcome, FitError):
            self.seen["unfit"] += 1
            assert evaluation.reasons == outcome.reasons
            assert not len(evaluation.feasible)
            assert [evaluation.diagnosis[row] for row in evaluation.nodes.order] == [
                outcome.diagnosis[row] for row in evaluation.nodes.order
            ]
        elif isinstance(outcome, ScheduleResult):
            self.seen["found"] += 1
            assert len(evaluation.feasible) == outcome.feasible
            assert dict(zip(evaluation.feasible.tolist(), evaluation.totals.tolist(), strict=False)) == dict(
                zip(search.feasible.tolist(), search.totals.tolist(), strict=False)
            )
        else:
            assert isinstance(outcome, ScheduleError)
            raise AssertionError(outcome.status.message)

    def _evaluate(self, pod: PendingPod) -> FullEvaluation:
        work = evaluate(self.engine, pod)
        while True:
            assert not self.engine.cluster.statements
            try:
                next(work)
            except StopIteration as end:
                evaluation: FullEvaluation = end.value
                return evaluation

    def _tables(self) -> object:
        nodes = self.engine.cluster.nodes
        columns = [sorted((name, c.values.tolist()) for name, c in nodes.requesteds.items() if c.values.any())]
        return columns, nodes.node_log.end, nodes.pod_log.end, nodes.generation, self.engine.rotation.next_start_index

    def _row_by_row(self, evaluation: FullEvaluation) -> None:
        """Ask every plugin about every node in its scalar form."""
        oracle = Oracle(self.engine.cluster, evaluation.profile, evaluation.pod)
        if oracle.pre_filter_result.status is not None:
            return
        for row in set(oracle.rows(0)) - evaluation.nominated.keys():
            for step in evaluation.filters:
                said = int(evaluation.rejections[step.name][row])
                status = step.run(oracle.state, evaluation.pod, evaluation.nodes[row])
                assert (None if said == PASS else evaluation.status(said)) == status


@pytest.mark.parametrize("seed", [Random(17).randrange(1 << 32) for _ in range(max(CLUSTERS // 3, 1))])
def test_full_evaluation_equals_the_attempt(seed: int) -> None:
    evaluations = Evaluations(seed)
    evaluations.run()
    assert evaluations.seen
