"""The search of a caller that chooses for itself: it asks about every node, and leaves to the caller what to score."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.rejections import UNREACHED
from kframework.core.cycle.scoring import Scoring
from kframework.core.cycle.search import Search
from kframework.core.runtime.points import first_rejection
from kframework.values.scores import Scores
from kframework.values.status import Code, Status

_NOWHERE = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


class AllNodesSearch(Search):
    """Asks the Filter plugins about all nodes, and scores those that the caller picks from them.

    It draws nothing and does not move the rotation. What it says holds until a node or a pod changes.
    """

    #: What stands against the pod as a whole, whatever the nodes are like; None if nothing does.
    rejected: Status | None = None
    #: What stands against nodes that PreFilter leaves out.
    excluded: Status | None = None

    def remembered(self) -> bool:
        """Return whether the plan's cache says all there is to say: nobody is to be asked afresh, no node is left out.

        So it is for most pods: plugins that do not sign a pod mostly skip it.
        """
        result = self.pre_filter()
        if result.status is not None or result.nodes is not None or self.plan.fresh_columnar or self.plan.fresh_scalar:
            return False
        skipped = Scoring(self.plan, self.state, self.pod, self.nodes, slice(None), self.nodes.order).pre_score()
        return not isinstance(skipped, Status) and all(step.name in skipped for step in self.plan.fresh_scores)

    def look(self) -> None:
        """Ask about all nodes: `by_row` then holds what stands against the node of each row, PASS if nothing does."""
        result = self.pre_filter()
        self.rejected, self.excluded = result.status, result.excluded
        self.by_row: Scores = np.full(self.nodes.capacity, UNREACHED)
        if result.status is not None or not len(self.nodes):
            return
        if self.plan.cache is not None:
            self.plan.cache.catch_up(self.profile, self.plan.state, self.pod)
        allowed = self.allowed(result)
        nodes = len(self.nodes if allowed is None else allowed)
        filtered = self.run_filters(allowed, nodes, nodes)
        self.by_row[filtered.node_order] = filtered.rejections

    def words(self, rejection: int) -> Status:
        """Put a rejection of `by_row` into words."""
        if rejection == UNREACHED:
            return self.rejected or self.excluded or _NOWHERE
        return self.status(rejection)

    def ask(self, row: int) -> Status | None:
        """Ask about the node of one row alone, as it stands now; needs no `look`."""
        result = self.pre_filter()
        if result.status is not None:
            return result.status
        node = self.nodes[row]
        if result.nodes is not None and node.name not in result.nodes:
            return result.excluded
        return first_rejection(self.filters, self.state, self.pod, node)

    def score(self, rows: NDArray[np.int64]) -> Scores | Status:
        """Return the totals of these rows among themselves, or what went wrong."""
        self.keep_feasible(self.nodes.places[rows])
        if not self.profile.scores or not len(rows):
            return np.zeros(len(rows), dtype=np.int64)
        return self._totals()
