"""What a survey says of every node is what an evaluation says, and what is left to memory is all there is to say.

On random clusters to which everything happens that the plugins of the default profile know.
"""

from __future__ import annotations

from random import Random

import pytest

from kframework.core.cycle.all_nodes import AllNodesSearch
from kframework.core.cycle.rejections import PASS
from kframework.explain.full_evaluation import FullEvaluation
from kframework.scheduler.cooperative import run_to_end
from kframework.state.pods import PendingPod, QueuedPod
from kframework.values.status import Status
from tests.properties.test_default_profile import CLUSTERS, Tries
from tests.support.evaluations import evaluate


class Surveys(Tries):
    """Pods that are surveyed while the cluster changes."""

    def look(self, pod: PendingPod) -> None:
        evaluation = run_to_end(evaluate(self.engine, pod))
        survey = self._survey(pod)
        survey.filter_all()
        self._same_words(evaluation, survey)
        self._same_totals(evaluation, survey)
        self._same_in_memory(evaluation, self._survey(pod))
        self.engine.current_search = None

    def _survey(self, pod: PendingPod) -> AllNodesSearch:
        engine = self.engine
        search = engine.search(engine.start_attempt(QueuedPod(pod, 0.0)))
        return AllNodesSearch(engine.cluster, search.plan, pod, engine.rotation, Random(0))

    def _same_words(self, evaluation: FullEvaluation, survey: AllNodesSearch) -> None:
        if evaluation.pre_filter_result.status is not None:
            self.seen["rejected"] += 1
            assert survey.rejected == evaluation.pre_filter_result.status
            return
        within = evaluation.pre_filter_result.nodes
        for row in evaluation.rows.tolist():
            said = int(survey.by_row[row])
            words = None if said == PASS else survey.status_of(said)
            if within is not None and evaluation.nodes[row].name not in within:
                assert words == evaluation.pre_filter_result.excluded == survey.excluded
            else:
                first = int(evaluation.first_rejection[row])
                assert words == (None if first == PASS else evaluation.status(first))

    def _same_totals(self, evaluation: FullEvaluation, survey: AllNodesSearch) -> None:
        if len(evaluation.feasible) > 1:
            self.seen["scored"] += 1
            totals = survey.score(evaluation.feasible)
            assert not isinstance(totals, Status)
            assert totals.tolist() == evaluation.totals.tolist()

    def _same_in_memory(self, evaluation: FullEvaluation, survey: AllNodesSearch) -> None:
        top = survey.plan.cache
        if top is not None and survey.is_fully_cached() and not evaluation.nominated:
            self.seen["remembered"] += 1
            top.catch_up(survey.profile, survey.plan.state, survey.pod)
            order = evaluation.nodes.order
            assert (top.rejections.values == PASS).tolist() == (evaluation.first_rejection[order] == PASS).tolist()


@pytest.mark.parametrize("seed", [Random(23).randrange(1 << 32) for _ in range(max(CLUSTERS // 3, 1))])
def test_all_nodes_search_equals_the_full_evaluation(seed: int) -> None:
    surveys = Surveys(seed)
    surveys.run()
    assert surveys.seen
