"""What an inquiry says of a pod is what an attempt finds right behind it, and asking has changed nothing.

On random clusters to which everything happens that the plugins of the default profile know.
"""

from __future__ import annotations

from random import Random

import pytest

from kframework.core.cycle.oracle import Afresh
from kframework.core.cycle.outcome import Failed, Found, Unfit
from kframework.core.cycle.rejections import PASS
from kframework.core.queue.queued_pod import QueuedPod
from kframework.core.runtime.points import run_filter
from kframework.observe.explain.full_evaluation import Inquiry, inquire
from kframework.state.pods import PendingPod
from tests.properties.test_default_profile import CLUSTERS, Tries


class Inquiries(Tries):
    """Pods that are asked about, then tried, while the cluster changes."""

    def look(self, pod: PendingPod) -> None:
        before = self._tables()
        inquiry = self._inquire(pod)
        assert self._tables() == before
        search = self.engine.search(self.engine.profiles["default-scheduler"], QueuedPod(pod, 0.0))
        outcome = self.engine.find(search)
        self.engine.current = None
        self._row_by_row(inquiry)
        if isinstance(outcome, Unfit):
            self.seen["unfit"] += 1
            assert inquiry.reasons == outcome.reasons
            assert not len(inquiry.feasible)
            assert [inquiry.diagnosis[row] for row in inquiry.nodes.order] == [
                outcome.diagnosis[row] for row in inquiry.nodes.order
            ]
        elif isinstance(outcome, Found):
            self.seen["found"] += 1
            assert len(inquiry.feasible) == outcome.feasible
            assert dict(zip(inquiry.feasible.tolist(), inquiry.totals.tolist(), strict=False)) == dict(
                zip(search.feasible.tolist(), search.totals.tolist(), strict=False)
            )
        else:
            assert isinstance(outcome, Failed)
            raise AssertionError(outcome.status.message)

    def _inquire(self, pod: PendingPod) -> Inquiry:
        work = inquire(self.engine, pod)
        while True:
            assert not self.engine.cluster.statements
            try:
                next(work)
            except StopIteration as end:
                inquiry: Inquiry = end.value
                return inquiry

    def _tables(self) -> object:
        nodes = self.engine.cluster.nodes
        columns = [sorted((name, c.values.tolist()) for name, c in nodes.requesteds.items() if c.values.any())]
        return columns, nodes.node_log.end, nodes.pod_log.end, nodes.generation, self.engine.rotation.start

    def _row_by_row(self, inquiry: Inquiry) -> None:
        """Ask every plugin about every node in its scalar form."""
        afresh = Afresh(self.engine.cluster, inquiry.profile, inquiry.pod)
        if afresh.narrowing.status is not None:
            return
        for row in set(afresh.rows(0)) - inquiry.rivals.keys():
            for step in inquiry.filters:
                said = int(inquiry.said[step.name][row])
                status = run_filter(inquiry.profile, step, afresh.state, inquiry.pod, inquiry.nodes[row])
                assert (None if said == PASS else inquiry.status(said)) == status


@pytest.mark.parametrize("seed", [Random(17).randrange(1 << 32) for _ in range(max(CLUSTERS // 3, 1))])
def test_an_inquiry_tells_what_an_attempt_finds(seed: int) -> None:
    inquiries = Inquiries(seed)
    inquiries.run()
    assert inquiries.seen
