"""Summary of an evaluation: reasons with counts and examples, the best nodes and what distinguishes them."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.rejections import PASS
from kframework.core.cycle.rotation import nodes_to_find
from kframework.explain.explanation import Assessment, NodeScore, NominatedRoom, Rejection, RejectionDetails, Score
from kframework.explain.full_evaluation import FullEvaluation, OptionalHooks
from kframework.explain.remedies.suggestions import SuggestHooks
from kframework.values.scores import Scores
from kframework.values.status import Code, Status

#: The number of nodes named as examples of a reason, as the best ones, and as those with nominated pods.
MAX_EXAMPLES, MAX_BEST_NODES, MAX_NOMINATED_ROOMS = 5, 5, 5

#: The maximum number of reasons: a plugin may have a different one for each node.
MAX_REASONS = 100

#: The number of nodes with details for each rejection of a plugin, and of rejections with details of each plugin.
_DETAILED_NODES, _DETAILED_REJECTIONS = 3, 3

Positions = NDArray[np.int64]
Mask = NDArray[np.bool_]


def summarise(evaluation: FullEvaluation, node: str) -> Generator[None, None, Assessment]:
    """Summarise an evaluation, pausing where possible; `node` is where the pod is, "" if on none."""
    reasons = _ReasonTally(evaluation.names)
    yield from reasons.count(evaluation)
    yield
    feasible, totals = len(evaluation.feasible), evaluation.totals
    message = "" if feasible else evaluation.message
    yield
    rejections = reasons.most_frequent()
    yield
    details = yield from _explain_rejections(evaluation)
    yield
    top = _best_nodes(evaluation, node)
    yield
    margin, decided_by = _lead_of_best(top)
    fault = evaluation.fault or reasons.fault
    return Assessment(
        nodes=len(evaluation.rows),
        feasible=feasible,
        enough=nodes_to_find(len(evaluation.candidate_rows), evaluation.profile.percentage_of_nodes_to_score)
        if evaluation.profile.scores
        else 1,
        message=message,
        reasons={} if feasible else evaluation.reasons,
        rejections=rejections,
        reasons_left_out=max(len(reasons) - MAX_REASONS, 0),
        details=details,
        top=top,
        ties=int((totals == totals.max()).sum()) if len(totals) else min(feasible, 1),
        margin=margin,
        decided_by=decided_by,
        kept_room=tuple(
            NominatedRoom(evaluation.nodes[row].name, tuple(other.key for other in nominated))
            for row, nominated in list(evaluation.nominated.items())[:MAX_NOMINATED_ROOMS]
        ),
        fault=fault.message if fault is not None else "",
    )


class _ReasonCount:
    """The number of nodes where a reason is given, is first, and is alone; and names of some of them."""

    def __init__(self) -> None:
        self.nodes = self.first = self.alone = 0
        self.examples: list[str] = []
        self.preemptible = False


class _ReasonTally:
    """The reasons of the plugins, while their nodes are counted."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._counts: dict[tuple[str, str], _ReasonCount] = {}
        #: The first fault of a plugin.
        self.fault: Status | None = None

    def count(self, evaluation: FullEvaluation) -> Iterator[None]:
        everything = np.ones(len(evaluation.rows), dtype=bool)
        rejected, excluded = evaluation.pre_filter_result.status, evaluation.pre_filter_result.excluded
        if rejected is not None:
            self._add(rejected, rejected.plugin, np.flatnonzero(everything), everything)
            return
        columns = {plugin: column[evaluation.rows] for plugin, column in evaluation.rejections.items()}
        rejection_counts = sum(
            (column != PASS for column in columns.values()), np.zeros(len(everything), dtype=np.int64)
        )
        first = evaluation.first_rejection[evaluation.rows]
        if excluded is not None:
            is_excluded = ~np.isin(evaluation.rows, evaluation.candidate_rows)
            plugins = ", ".join(evaluation.pre_filter_result.narrowed_by)
            self._add(excluded, plugins, np.flatnonzero(is_excluded), is_excluded)
        for plugin, column in columns.items():
            yield
            for rejection, positions in _group_by_rejection(column):
                self._add(evaluation.status(rejection), plugin, positions, first == rejection, rejection_counts == 1)
                yield

    def _add(self, status: Status, plugin: str, positions: Positions, first: Mask, alone: Mask | None = None) -> None:
        if not status.is_rejected and self.fault is None:
            self.fault = status
        alone = first if alone is None else alone
        single = len(status.reasons) == 1
        best = positions[alone[positions]][:MAX_EXAMPLES] if single else positions[:0]
        for reason in status.reasons:
            count = self._counts.setdefault((plugin, reason), _ReasonCount())
            count.nodes += len(positions)
            count.first += int(first[positions].sum())
            count.alone += int(alone[positions].sum()) if single else 0
            count.preemptible = count.preemptible or status.code == Code.UNSCHEDULABLE
            for position in (*best.tolist(), *positions[:MAX_EXAMPLES].tolist()):
                if len(count.examples) < MAX_EXAMPLES and self._names[position] not in count.examples:
                    count.examples.append(self._names[position])

    def most_frequent(self) -> tuple[Rejection, ...]:
        largest = heapq.nlargest(MAX_REASONS, self._counts.items(), key=lambda item: (item[1].first, item[1].nodes))
        return tuple(
            Rejection(plugin, reason, c.nodes, c.first, c.alone, tuple(c.examples), c.preemptible)
            for (plugin, reason), c in largest
        )

    def __len__(self) -> int:
        return len(self._counts)


def _group_by_rejection(column: Scores) -> Iterator[tuple[int, Positions]]:
    positions = np.flatnonzero(column != PASS)
    by_rejection = positions[np.argsort(column[positions], kind="stable")]
    rejections, starts = np.unique(column[by_rejection], return_index=True)
    bounds = itertools.pairwise([*starts.tolist(), len(by_rejection)])
    for rejection, (start, stop) in zip(rejections.tolist(), bounds, strict=True):
        yield rejection, by_rejection[start:stop]


def _explain_rejections(evaluation: FullEvaluation) -> Generator[None, None, tuple[RejectionDetails, ...]]:
    """Call the plugins' `explain` hooks; yields where it may pause."""
    hooks, details = OptionalHooks(evaluation.profile), list[RejectionDetails]()
    for plugin, rejections in evaluation.rejections.items():
        explain = hooks.get(plugin, "explain")
        if explain is None:
            continue
        nearest = yield from _nearest_positions(evaluation, plugin)
        for position in nearest:
            yield
            name = evaluation.names[position]
            node = evaluation.nodes.find(name)
            if node is None:
                continue  # it was deleted meanwhile
            status = evaluation.status(int(rejections[evaluation.rows[position]]))
            call = partial(explain, evaluation.state, evaluation.pod, node, status)
            lines: list[str] = hooks.call_safely(plugin, "explain", partial(_to_lines, call), [])
            details += [RejectionDetails(plugin, name, tuple(lines))] if lines else []
    return tuple(details)


def _to_lines(call: Callable[[], object]) -> list[str]:
    return list(map(str, cast("list[object]", call())))


def _nearest_positions(evaluation: FullEvaluation, plugin: str) -> Generator[None, None, list[int]]:
    """List the positions of a few nodes for each of a plugin's rejections, those with the fewest changes first."""
    rejections = evaluation.rejections[plugin][evaluation.rows]
    positions: Positions = np.flatnonzero(rejections != PASS)
    if not len(positions):
        return []
    estimates = yield from SuggestHooks(evaluation.profile).estimate(evaluation, plugin, evaluation.rows[positions])
    positions = positions[np.argsort(estimates, kind="stable")]
    _, firsts = np.unique(rejections[positions], return_index=True)
    groups = (
        positions[rejections[positions] == rejections[positions[first]]]
        for first in sorted(firsts.tolist())[:_DETAILED_REJECTIONS]
    )
    return [position for each in groups for position in each[:_DETAILED_NODES].tolist()]


def _best_nodes(evaluation: FullEvaluation, node: str) -> tuple[NodeScore, ...]:
    """Return the best nodes, and the one on which the pod is; a node that is the only one has no scores."""
    totals = evaluation.totals
    if len(evaluation.feasible) == 1:
        return (NodeScore(evaluation.nodes[int(evaluation.feasible[0])].name, 1, 0, ()),)
    best = np.argsort(-totals, kind="stable")[:MAX_BEST_NODES].tolist()
    own = evaluation.nodes.row(node)
    if own is not None and len(totals):
        best += [position for position in np.flatnonzero(evaluation.feasible == own).tolist() if position not in best]
    top: list[NodeScore] = []
    for position in best:
        total = int(totals[position])
        scores = tuple(
            Score(
                c.plugin,
                c.weight,
                int(c.raw[position]),
                int(c.normalized[position]),
                int(c.normalized[position]) * c.weight,
            )
            for c in evaluation.scores
        )
        name = evaluation.nodes[int(evaluation.feasible[position])].name
        top.append(NodeScore(name, 1 + int((totals > total).sum()), total, scores))
    return tuple(top)


def _lead_of_best(top: tuple[NodeScore, ...]) -> tuple[int, str]:
    """Return the lead of the best node over the next, and the plugin that contributes most to it."""
    if len(top) < 2 or top[0].total == top[1].total:
        return 0, ""
    pairs = zip(top[0].scores, top[1].scores, strict=True)
    leads = {ours.plugin: ours.weighted - theirs.weighted for ours, theirs in pairs}
    return top[0].total - top[1].total, max(leads, key=lambda plugin: leads[plugin])
