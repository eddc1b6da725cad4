"""A search that filters every node and leaves the choice of nodes to score to the caller."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.rejections import UNREACHED
from kframework.core.cycle.scoring import Scoring
from kframework.core.cycle.search import Search
from kframework.core.runtime.points import filter_node
from kframework.values.scores import Scores
from kframework.values.status import Code, Skip, Status

_NOWHERE = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


class AllNodesSearch(Search):
    """A search that runs the Filter plugins on all nodes and scores those that the caller picks.

    It draws no random number and does not move the rotation. Its results are valid until a node or a pod changes.
    """

    #: The rejection of the pod as a whole, regardless of nodes; None if PreFilter accepts it.
    rejected: Status | None = None
    #: The rejection of nodes that PreFilter excludes.
    excluded: Status | None = None

    def is_fully_cached(self) -> bool:
        """Return whether the plan's cache has the full answer: no plugin runs again, no node is excluded."""
        result, plan = self.pre_filter(), self.plan
        if result.status is not None or result.nodes is not None:
            return False
        if plan.fresh_columnar or plan.fresh_scalar:
            return False
        by_domain = plan.renewal.steps if plan.renewal is not None else ()
        if any(step.call(self.state, self.pod, self.nodes) is not Skip for step, _ in by_domain):
            return False
        skipped = Scoring(self.plan, self.state, self.pod, self.nodes, slice(None), self.nodes.order).pre_score()
        return not isinstance(skipped, Status) and all(step.name in skipped for step in self.plan.fresh_scores)

    def filter_all(self) -> None:
        """Filter all nodes: `by_row` then holds the rejection of each row, PASS if there is none."""
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

    def status_of(self, rejection: int) -> Status:
        """Return the Status of a rejection in `by_row`."""
        if rejection == UNREACHED:
            return self.rejected or self.excluded or _NOWHERE
        return self.status(rejection)

    def filter_row(self, row: int) -> Status | None:
        """Filter the node of one row in its current state; does not need `filter_all`."""
        result = self.pre_filter()
        if result.status is not None:
            return result.status
        node = self.nodes[row]
        if result.nodes is not None and node.name not in result.nodes:
            return result.excluded
        return filter_node(self.filters, self.state, self.pod, node)

    def score(self, rows: NDArray[np.int64]) -> Scores | Status:
        """Return the totals of these rows relative to each other, or the error."""
        self.keep_feasible(self.nodes.positions[rows])
        if not self.profile.scores or not len(rows):
            return np.zeros(len(rows), dtype=np.int64)
        return self._totals()
