"""A scheduling cycle without caches: slow, node by node, and correct by inspection.

It is the oracle for the fast cycle: the tests compare the two, and with `KFRAMEWORK_VERIFY=1` every search is checked
against it. It uses no cached answer, no columnar form and no random draw, and changes nothing. The scores of single
plugins, which caches add up, are computed again here as well.
"""

from __future__ import annotations

import logging

import numpy as np

from kframework.core.cycle.answer_cache import ask_score_rows
from kframework.core.cycle.rejections import PASS
from kframework.core.cycle.results import Outcome, ScheduleError
from kframework.core.cycle.rotation import nodes_to_find
from kframework.core.cycle.search import Search
from kframework.core.runtime.points import PreFilterResult, filter_node, run_add_pod, run_pre_filter, run_pre_score
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.steps import FilterStep, ScoreStep, as_column
from kframework.errors import KFrameworkError
from kframework.framework.cycle_state import CycleState
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod
from kframework.values.scores import Scores
from kframework.values.status import Status
from kframework.verbosity import V10


class VerificationError(KFrameworkError):
    """Raised when a cached answer differs from a fresh one."""

    def __init__(self, search: Search, what: str, cached: object, uncached: object) -> None:
        self.pod: str = search.pod.key
        self.what = what
        self.cached = cached
        self.uncached = uncached
        super().__init__(f"pod {self.pod}: {what}: cached {cached!r}, uncached {uncached!r}")


class Oracle:
    """One pod's cycle, computed without caches."""

    def __init__(
        self, cluster: ClusterState, profile: Profile, pod: PendingPod, group_state: CycleState | None = None
    ) -> None:
        self.cluster = cluster
        self.nodes: NodeTable = cluster.nodes
        self.profile = profile
        self.pod = pod
        self.state: CycleState = CycleState(group=group_state)
        self.pre_filter_result: PreFilterResult = run_pre_filter(profile.pre_filter, self.state, pod, self.nodes)

    def rows(self, start: int) -> list[int]:
        """List the rows to look at, from this position in node order on."""
        rows: list[int] = self.nodes.order.tolist()
        if self.pre_filter_result.nodes is not None:
            rows = [row for row in rows if self.nodes[row].name in self.pre_filter_result.nodes]
        start = start % len(rows) if rows else 0
        return rows[start:] + rows[:start]

    def rejection(self, row: int) -> Status | None:
        """Return the first rejection of a node, in two passes if pods are nominated to it."""
        node = self.nodes[row]
        nominated = self.cluster.nominator.nominated_pods_for_node(self.pod, node.name)
        if nominated:
            state = self.state.clone()
            with self.cluster.statement() as statement:
                for other in nominated:
                    statement.add(other, node.name)
                    failed = run_add_pod(self._filters(), state, self.pod, other, node)
                    if failed is not None:
                        return failed
                rejection = filter_node(self._filters(), state, self.pod, node)
            if rejection is not None:
                return rejection
        return filter_node(self._filters(), self.state, self.pod, node)

    def _filters(self) -> list[FilterStep]:
        return [step for step in self.profile.filters if step.name not in self.pre_filter_result.skipped]

    def totals(self, candidates: list[int]) -> dict[int, int] | Status:
        """Return the weighted score of each candidate, or the error."""
        rows = np.array(candidates, dtype=np.int64)
        skipped = run_pre_score(self.profile.pre_score, self.state, self.pod, self.nodes, rows)
        if isinstance(skipped, Status):
            return skipped
        totals = dict.fromkeys(candidates, 0)
        for step in self.profile.scores:
            if step.name in skipped:
                continue
            scores = self._scores(step, candidates)
            if isinstance(scores, Status):
                return scores
            for row, score in zip(candidates, scores, strict=True):
                totals[row] += step.weight * score
        return totals

    def _scores(self, step: ScoreStep, candidates: list[int]) -> list[int] | Status:
        scores: list[int] = []
        for row in candidates:
            score = step.run(self.state, self.pod, self.nodes[row])
            if isinstance(score, Status):
                return score
            scores.append(score)
        if step.normalize is None:
            return scores
        normalized = step.normalize(self.state, self.pod, np.array(scores, dtype=np.int64))
        return [normalized] * len(candidates) if isinstance(normalized, int) else [int(s) for s in normalized]


def verify(search: Search, outcome: Outcome) -> None:
    """Compare a search, except for the drawn node, with the uncached cycle; VerificationError if they differ."""
    filtered, evaluated = search.filtered, search.evaluated
    if isinstance(outcome, ScheduleError) or not len(filtered.node_order):
        return
    oracle = Oracle(search.cluster, search.profile.original, search.pod, search.state.group)
    rows = oracle.rows(search.start_index)
    _same(search, "rows looked at", filtered.node_order.tolist(), rows[: len(filtered.node_order)])
    statuses = {row: oracle.rejection(row) for row in rows[:evaluated]}
    for row, rejection in zip(rows[:evaluated], filtered.rejections.tolist(), strict=False):
        cached = None if rejection == PASS else search.status(rejection)
        _same(search, f"node {search.nodes[row].name}", cached, statuses[row])
    passing = [row for row in rows[:evaluated] if statuses[row] is None]
    enough = nodes_to_find(len(rows), search.profile.percentage_of_nodes_to_score) if search.needs_scoring else 1
    _same(search, "candidates", search.nodes.order[search.candidates].tolist(), passing[:enough])
    feasible = search.feasible.tolist()
    if len(feasible) > 1 and search.profile.scores:
        totals = dict(zip(feasible, search.totals.tolist(), strict=True))
        _same(search, "totals", totals, oracle.totals(feasible))


def _same(search: Search, what: str, cached: object, uncached: object) -> None:
    if cached != uncached:
        raise VerificationError(search, what, cached, uncached)


_log = logging.getLogger(__name__)


def log_scores(search: Search) -> None:
    """Log the weighted scores of the nodes that a search chose from, if it had a choice."""
    if not len(search.totals):
        return
    nodes = [search.nodes[row].name for row in search.feasible.tolist()]
    drawn = [(plugin.handle.random, plugin.handle.random.getstate()) for plugin in search.profile.placement]
    weighted = weighted_scores(search)
    for random, state in drawn:
        random.setstate(state)
    for plugin, scores in weighted.items():
        for node, score in zip(nodes, scores.tolist(), strict=True):
            fields = {"pod": search.pod.key, "plugin": plugin, "node": node, "score": score}
            _log.log(V10, "Plugin scored node for pod", extra=fields)
    for node, total in zip(nodes, search.totals.tolist(), strict=True):
        fields = {"pod": search.pod.key, "node": node, "score": total}
        _log.log(V10, "Calculated node's final score for pod", extra=fields)


def weighted_scores(search: Search) -> dict[str, Scores]:
    """Return the weighted scores of the feasible nodes by Score plugin; empty if one fails now.

    Totals are mostly cached as sums, so the plugins are called again, in columns where they have that form.
    """
    profile, pod, nodes, rows = search.profile.original, search.pod, search.nodes, search.feasible
    state, weighted = CycleState(group=search.state.group), dict[str, Scores]()
    run_pre_filter(profile.pre_filter, state, pod, nodes)
    skipped = run_pre_score(profile.pre_score, state, pod, nodes, rows)
    if isinstance(skipped, Status):
        return weighted
    for step in profile.scores:
        if step.name in skipped:
            continue
        raw, faults = ask_score_rows(step, state, pod, nodes, rows)
        scores = raw if step.normalize is None else step.normalize_scores(state, pod, raw)
        if faults or isinstance(scores, Status):
            return {}
        weighted[step.name] = step.weight * as_column(scores, len(rows))
    return weighted
