"""The search for a node in which extenders have a say: the same filters and scores, and awaits between them."""

from __future__ import annotations

import logging
from random import Random

import numpy as np

from kframework.core.cycle.extender import EXTENDER, ExtenderError
from kframework.core.cycle.extenders import Extenders
from kframework.core.cycle.layers import Plan
from kframework.core.cycle.outcome import FitError, ScheduleError, ScheduleResult
from kframework.core.cycle.rejections import PASS
from kframework.core.cycle.search import Rotation, Search
from kframework.core.runtime.points import PreFilterResult, excluded_status
from kframework.core.runtime.timing import PhaseTimer
from kframework.framework.answers import Scores
from kframework.framework.status import Code, Status
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeInfo
from kframework.state.pods import PendingPod

_log = logging.getLogger(__name__)


class ExtendedSearch(Search):
    """One attempt to find a node for a pod, with extenders: `run_extended` in place of `run`."""

    def __init__(
        self,
        cluster: ClusterState,
        plan: Plan,
        pod: PendingPod,
        rotation: Rotation,
        random: Random,
        extenders: Extenders,
        timer: PhaseTimer | None = None,
    ) -> None:
        super().__init__(cluster, plan, pod, rotation, random, timer)
        self.extenders = extenders
        self.needs_scoring: bool = self.needs_scoring or extenders.needs_scoring
        #: The rejections of extenders, by row.
        self._refused: dict[int, int] = {}

    async def run_extended(self) -> ScheduleResult | FitError | ScheduleError:
        """Find a node."""
        pre_filter_result = self._begin()
        if not isinstance(pre_filter_result, PreFilterResult):
            return pre_filter_result
        nominated = self._nominated()
        if nominated is not None and not await self._let_in(nominated.node):
            nominated = None
        outcome: ScheduleResult | FitError | ScheduleError | None = nominated or self._filter(pre_filter_result)
        self.timer.take("filter", outcome.status if isinstance(outcome, ScheduleError) else None)
        if outcome is None:
            failed = await self._ask_about_feasible(pre_filter_result)
            outcome = failed or self._few(pre_filter_result)
            self.timer.take("extender_filter", failed.status if failed is not None else None)
        return outcome or await self._choose_extended()

    async def _let_in(self, node_name: str) -> bool:
        """Ask about the nominated node alone; a refusal, or an error, only means that the search goes on."""
        node = self.nodes.named(node_name)
        assert node is not None
        try:
            return bool((await self.extenders.filter(self.pod, [node])).nodes)
        except ExtenderError as error:
            _log.warning("extenders cannot say whether pod %s may go to %s: %s", self.pod.key, node_name, error)
            return False

    async def _ask_about_feasible(self, pre_filter_result: PreFilterResult) -> ScheduleError | None:
        """Let the extenders take away feasible nodes; one they leave out without a word is as if never looked at."""
        nodes = self._nodes()
        wordless = (
            excluded_status(pre_filter_result)
            if pre_filter_result.nodes is not None
            else Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        )
        try:
            answer = await self.extenders.filter(self.pod, nodes)
        except ExtenderError as error:
            return ScheduleError(Status(Code.ERROR, (str(error),)))
        passing = {node.row for node in answer.nodes}
        for node in nodes:
            if node.row not in passing:
                status = answer.failed.get(node.name, wordless).with_plugin(EXTENDER)
                self._refused[node.row] = self.table.rejection(len(self.profile.filters), status)
        self.feasible: Scores = np.array([node.row for node in answer.nodes], dtype=np.int64)
        return None

    def _by_row(self) -> Scores:
        """Return what stands against the node of each row, the rejections of extenders included."""
        if self.fresh_scalar and self._refused:
            # Those plugins were not asked about all that others reject, as long as some node passed.
            rejections = self.rejections[: self.evaluated]
            self._ask_behind(self.node_order[: self.evaluated], rejections, rejections != PASS)
        by_row = super()._by_row()
        by_row[list(self._refused)] = list(self._refused.values())
        return by_row

    async def _choose_extended(self) -> ScheduleResult | ScheduleError:
        """Score the feasible nodes, let the extenders add to the totals, and draw one of the best."""
        totals = self._totals()
        self.timer.take("score", totals if isinstance(totals, Status) else None)
        if isinstance(totals, Status):
            return ScheduleError(totals)
        self.totals = totals
        nodes = self._nodes()
        added = await self.extenders.prioritize(self.pod, nodes)
        found = self._best(totals + np.array([added.get(node.name, 0) for node in nodes], dtype=np.int64))
        self.timer.take("extender_prioritize")
        return found

    def _nodes(self) -> list[NodeInfo]:
        by_row = self.nodes.by_row
        return [by_row[row] for row in self.feasible.tolist()]
