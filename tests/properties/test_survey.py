"""What a survey says of every node is what an inquiry says, and what is left to memory is all there is to say.

On random clusters to which everything happens that the plugins of the default profile know.
"""

from __future__ import annotations

from random import Random

import pytest

from kframework.core.cycle.all_nodes import Survey
from kframework.core.cycle.rejections import PASS
from kframework.core.queue.queued_pod import QueuedPod
from kframework.framework.status import Status
from kframework.observe.explain.full_evaluation import Inquiry, inquire
from kframework.observe.explain.slices import finished
from kframework.state.pods import PendingPod
from tests.properties.test_default_profile import CLUSTERS, Tries


class Surveys(Tries):
    """Pods that are surveyed while the cluster changes."""

    def look(self, pod: PendingPod) -> None:
        inquiry = finished(inquire(self.engine, pod))
        survey = self._survey(pod)
        survey.look()
        self._same_words(inquiry, survey)
        self._same_totals(inquiry, survey)
        self._same_in_memory(inquiry, self._survey(pod))
        self.engine.current = None

    def _survey(self, pod: PendingPod) -> Survey:
        engine = self.engine
        search = engine.search(engine.profiles["default-scheduler"], QueuedPod(pod, 0.0))
        return Survey(engine.cluster, search.plan, pod, engine.rotation, Random(0))

    def _same_words(self, inquiry: Inquiry, survey: Survey) -> None:
        if inquiry.narrowing.status is not None:
            self.seen["rejected"] += 1
            assert survey.rejected == inquiry.narrowing.status
            return
        within = inquiry.narrowing.nodes
        for row in inquiry.rows.tolist():
            said = int(survey.by_row[row])
            words = None if said == PASS else survey.words(said)
            if within is not None and inquiry.nodes[row].name not in within:
                assert words == inquiry.absent == survey.absent
            else:
                first = int(inquiry.first[row])
                assert words == (None if first == PASS else inquiry.status(first))

    def _same_totals(self, inquiry: Inquiry, survey: Survey) -> None:
        if len(inquiry.feasible) > 1:
            self.seen["scored"] += 1
            totals = survey.score(inquiry.feasible)
            assert not isinstance(totals, Status)
            assert totals.tolist() == inquiry.totals.tolist()

    def _same_in_memory(self, inquiry: Inquiry, survey: Survey) -> None:
        top = survey.plan.top
        if top is not None and survey.remembered() and not inquiry.rivals:
            self.seen["remembered"] += 1
            top.catch_up(survey.plan.state, survey.pod)
            rows = inquiry.rows
            assert (top.objections.values[rows] == PASS).tolist() == (inquiry.first[rows] == PASS).tolist()


@pytest.mark.parametrize("seed", [Random(23).randrange(1 << 32) for _ in range(max(CLUSTERS // 3, 1))])
def test_a_survey_tells_what_an_inquiry_finds(seed: int) -> None:
    surveys = Surveys(seed)
    surveys.run()
    assert surveys.seen
