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
from kframework.explain.explanation import Assessment, Details, NodeScore, NominatedRoom, Rejection, Score
from kframework.explain.full_evaluation import FullEvaluation, OptionalHooks
from kframework.explain.remedies.suggestions import SuggestHooks
from kframework.values.scores import Scores
from kframework.values.status import Code, Status

#: The number of nodes named as examples of a reason, as the best ones, and as those with nominated pods.
EXAMPLES, TOP, KEPT = 5, 5, 5

#: The maximum number of reasons: a plugin may have a different one for each node.
REASONS = 100

#: The number of nodes with details for each rejection of a plugin, and of rejections with details of each plugin.
_DETAILED_NODES, _DETAILED_REJECTIONS = 3, 3

Positions = NDArray[np.int64]
Marks = NDArray[np.bool_]


def summarise(evaluation: FullEvaluation, node: str) -> Generator[None, None, Assessment]:
    """Summarise an evaluation, pausing where possible; `node` is where the pod is, "" if on none."""
    reasons = _Reasons(evaluation.names)
    yield from reasons.count(evaluation)
    yield
    feasible, totals = len(evaluation.feasible), evaluation.totals
    message = "" if feasible else evaluation.message
    yield
    rejections = reasons.listed()
    yield
    said_more = yield from _details(evaluation)
    yield
    top = _top(evaluation, node)
    yield
    margin, decided_by = _margin(top)
    fault = evaluation.fault or reasons.fault
    return Assessment(
        nodes=len(evaluation.rows),
        feasible=feasible,
        enough=nodes_to_find(len(evaluation.within), evaluation.profile.percentage_of_nodes_to_score)
        if evaluation.profile.scores
        else 1,
        message=message,
        reasons={} if feasible else evaluation.reasons,
        rejections=rejections,
        reasons_left_out=max(len(reasons) - REASONS, 0),
        details=said_more,
        top=top,
        ties=int((totals == totals.max()).sum()) if len(totals) else min(feasible, 1),
        margin=margin,
        decided_by=decided_by,
        kept_room=tuple(
            NominatedRoom(evaluation.nodes[row].name, tuple(other.key for other in nominated))
            for row, nominated in list(evaluation.nominated.items())[:KEPT]
        ),
        fault=fault.message if fault is not None else "",
    )


class _Count:
    """The number of nodes where a reason is given, is first, and is alone; and names of some of them."""

    def __init__(self) -> None:
        self.nodes = self.first = self.alone = 0
        self.examples: list[str] = []
        self.preemptible = False


class _Reasons:
    """The reasons of the plugins, while their nodes are counted."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._counts: dict[tuple[str, str], _Count] = {}
        #: The first fault of a plugin.
        self.fault: Status | None = None

    def count(self, evaluation: FullEvaluation) -> Iterator[None]:
        """Count them all; yields wherever it may pause."""
        everywhere = np.arange(len(evaluation.rows))
        rejected, excluded = evaluation.pre_filter_result.status, evaluation.pre_filter_result.excluded
        if rejected is not None:
            self._add(rejected, rejected.plugin, everywhere, np.ones(len(everywhere), dtype=bool))
            return
        columns = {plugin: column[evaluation.rows] for plugin, column in evaluation.said.items()}
        against = sum((column != PASS for column in columns.values()), np.zeros(len(everywhere), dtype=np.int64))
        first = evaluation.first[evaluation.rows]
        if excluded is not None:
            outside = ~np.isin(evaluation.rows, evaluation.within)
            plugins = ", ".join(evaluation.pre_filter_result.narrowed_by)
            self._add(excluded, plugins, np.flatnonzero(outside), outside)
        for plugin, column in columns.items():
            yield
            for rejection, places in _groups(column):
                self._add(evaluation.status(rejection), plugin, places, first == rejection, against == 1)
                yield

    def _add(self, status: Status, plugin: str, places: Positions, first: Marks, alone: Marks | None = None) -> None:
        """Count the nodes at these places, about which the plugin answers the status."""
        if not status.is_rejected and self.fault is None:
            self.fault = status
        alone = first if alone is None else alone
        single = len(status.reasons) == 1
        best = places[alone[places]][:EXAMPLES] if single else places[:0]
        for reason in status.reasons:
            count = self._counts.setdefault((plugin, reason), _Count())
            count.nodes += len(places)
            count.first += int(first[places].sum())
            count.alone += int(alone[places].sum()) if single else 0
            count.preemptible = count.preemptible or status.code == Code.UNSCHEDULABLE
            for place in (*best.tolist(), *places[:EXAMPLES].tolist()):
                if len(count.examples) < EXAMPLES and self._names[place] not in count.examples:
                    count.examples.append(self._names[place])

    def listed(self) -> tuple[Rejection, ...]:
        """List the reasons that a condition counts on most nodes, those first."""
        most = heapq.nlargest(REASONS, self._counts.items(), key=lambda item: (item[1].first, item[1].nodes))
        return tuple(
            Rejection(plugin, reason, c.nodes, c.first, c.alone, tuple(c.examples), c.preemptible)
            for (plugin, reason), c in most
        )

    def __len__(self) -> int:
        return len(self._counts)


def _groups(column: Scores) -> Iterator[tuple[int, Positions]]:
    """Group the rejected places of a column by rejection."""
    places = np.flatnonzero(column != PASS)
    by_rejection = places[np.argsort(column[places], kind="stable")]
    rejections, starts = np.unique(column[by_rejection], return_index=True)
    bounds = itertools.pairwise([*starts.tolist(), len(by_rejection)])
    for rejection, (start, stop) in zip(rejections.tolist(), bounds, strict=True):
        yield rejection, by_rejection[start:stop]


def _details(evaluation: FullEvaluation) -> Generator[None, None, tuple[Details, ...]]:
    """Call the plugins' `explain` hooks; yields where it may pause."""
    hooks, found = OptionalHooks(evaluation.profile), list[Details]()
    for plugin, said in evaluation.said.items():
        explain = hooks.of(plugin, "explain")
        if explain is None:
            continue
        nearest = yield from _nearest(evaluation, plugin)
        for place in nearest:
            yield
            name = evaluation.names[place]
            node = evaluation.nodes.named(name)
            if node is None:
                continue  # it was deleted meanwhile
            status = evaluation.status(int(said[evaluation.rows[place]]))
            asked = partial(explain, evaluation.state, evaluation.pod, node, status)
            lines: list[str] = hooks.safely(plugin, "explain", partial(_lines, asked), [])
            found += [Details(plugin, name, tuple(lines))] if lines else []
    return tuple(found)


def _lines(asked: Callable[[], object]) -> list[str]:
    return list(map(str, cast("list[object]", asked())))


def _nearest(evaluation: FullEvaluation, plugin: str) -> Generator[None, None, list[int]]:
    """List the places of a few nodes for each of a plugin's rejections, those with the fewest changes first."""
    said = evaluation.said[plugin][evaluation.rows]
    places: Positions = np.flatnonzero(said != PASS)
    if not len(places):
        return []
    efforts = yield from SuggestHooks(evaluation.profile).efforts(evaluation, plugin, evaluation.rows[places])
    places = places[np.argsort(efforts, kind="stable")]
    _, firsts = np.unique(said[places], return_index=True)
    alike = (places[said[places] == said[places[first]]] for first in sorted(firsts.tolist())[:_DETAILED_REJECTIONS])
    return [place for each in alike for place in each[:_DETAILED_NODES].tolist()]


def _top(evaluation: FullEvaluation, node: str) -> tuple[NodeScore, ...]:
    """Return the best nodes, and the one on which the pod is; a node that is the only one has no scores."""
    totals = evaluation.totals
    if len(evaluation.feasible) == 1:
        return (NodeScore(evaluation.nodes[int(evaluation.feasible[0])].name, 1, 0, ()),)
    best = np.argsort(-totals, kind="stable")[:TOP].tolist()
    own = evaluation.nodes.row(node)
    if own is not None and len(totals):
        best += [place for place in np.flatnonzero(evaluation.feasible == own).tolist() if place not in best]
    top: list[NodeScore] = []
    for place in best:
        total = int(totals[place])
        scores = tuple(
            Score(c.plugin, c.weight, int(c.raw[place]), int(c.normalized[place]), int(c.normalized[place]) * c.weight)
            for c in evaluation.scores
        )
        name = evaluation.nodes[int(evaluation.feasible[place])].name
        top.append(NodeScore(name, 1 + int((totals > total).sum()), total, scores))
    return tuple(top)


def _margin(top: tuple[NodeScore, ...]) -> tuple[int, str]:
    """Return the lead of the best node over the next, and the plugin that contributes most to it."""
    if len(top) < 2 or top[0].total == top[1].total:
        return 0, ""
    pairs = zip(top[0].scores, top[1].scores, strict=True)
    ahead = {ours.plugin: ours.weighted - theirs.weighted for ours, theirs in pairs}
    return top[0].total - top[1].total, max(ahead, key=lambda plugin: ahead[plugin])
