"""The search of a caller that chooses for itself: it asks about every node, and leaves to the caller what to score."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.rejections import PASS, UNREACHED
from kframework.core.cycle.scoring import Scoring
from kframework.core.cycle.search import Search
from kframework.core.runtime.points import excluded_status
from kframework.framework.answers import Scores
from kframework.framework.status import Code, Status

_NOWHERE = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


class AllNodesSearch(Search):
    """Asks the Filter plugins about all nodes, and scores those that the caller picks from them.

    It draws nothing and does not move the rotation. What it says holds until a node or a pod changes.
    """

    #: What stands against the pod as a whole, whatever the nodes are like; None if nothing does.
    rejected: Status | None = None
    #: What stands against nodes that PreFilter leaves out.
    absent: Status | None = None

    def remembered(self) -> bool:
        """Return whether the plan's layers say all there is to say: nobody has to be asked afresh, no node is left out.

        So it is for most pods: plugins that do not sign a pod mostly skip it.
        """
        pre_filter_result = self._pre_filter()
        if (
            pre_filter_result.status is not None
            or pre_filter_result.nodes is not None
            or self.fresh_columnar
            or self.fresh_scalar
        ):
            return False
        scoring = Scoring(self.plan, self.top, self.fresh_scores, self.state, self.pod, self.nodes)
        skipped = scoring.pre_score(self.nodes.order)
        return not isinstance(skipped, Status) and all(step.name in skipped for step in self.fresh_scores)

    def look(self) -> None:
        """Ask about all nodes: `by_row` then holds what stands against the node of each row, PASS if nothing does."""
        pre_filter_result = self._pre_filter()
        self.rejected = pre_filter_result.status
        self.absent = None if pre_filter_result.nodes is None else excluded_status(pre_filter_result)
        self.by_row: Scores = np.full(self.nodes.capacity, UNREACHED)
        if pre_filter_result.status is not None or not len(self.nodes):
            return
        if self.top is not None:
            self.top.catch_up(self.plan.state, self.pod)
        self._look(self._node_order(pre_filter_result), len(self.nodes))
        self.by_row[self.node_order] = self.rejections

    def words(self, rejection: int) -> Status:
        """Put a rejection of `by_row` into words."""
        if rejection == UNREACHED:
            return self.rejected or self.absent or _NOWHERE
        return self.status(rejection)

    def ask(self, row: int) -> Status | None:
        """Ask about the node of one row alone, as it stands now; needs no `look`."""
        pre_filter_result = self._pre_filter()
        if pre_filter_result.status is not None:
            return pre_filter_result.status
        if pre_filter_result.nodes is not None and self.nodes[row].name not in pre_filter_result.nodes:
            return excluded_status(pre_filter_result)
        rejection = self.ask_row(row, self.state)
        return None if rejection == PASS else self.status(rejection)

    def score(self, rows: NDArray[np.int64]) -> Scores | Status:
        """Return the totals of these rows among themselves, or what went wrong."""
        self.feasible: NDArray[np.int64] = rows
        if not self.profile.scores or not len(rows):
            return np.zeros(len(rows), dtype=np.int64)
        return self._totals()
