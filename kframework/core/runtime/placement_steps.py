"""The plugins of a profile that list and rank sets of nodes, so that a PodGroup is scheduled on nodes of one set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from kframework.core.runtime.steps import FaultHandler, Hook, Step, find_hook
from kframework.errors import FAULTS, safe_repr
from kframework.framework.answers import GroupPlacement, PlacedGroup
from kframework.framework.plugin import Plugin
from kframework.objects import GenericPodGroup
from kframework.state.nodes import NodeTable
from kframework.values.scores import MAX_SCORE
from kframework.values.status import Code, Status

_NO_PLACEMENTS = Status(Code.UNSCHEDULABLE, ("no feasible placements found",))
_SCORING = "running PlacementScore plugins: plugin"


class PlacementSteps:
    """The plugins of the two points, which never raise."""

    def __init__(
        self,
        plugins: Mapping[str, Plugin],
        generators: Sequence[str],
        scorers: Sequence[str],
        weights: Mapping[str, int],
        fault: FaultHandler,
    ) -> None:
        self._generate = _steps(plugins, generators, "placement_generate")
        self._scores = [(step, weights.get(step.name) or 1) for step in _steps(plugins, scorers, "placement_score")]
        self._fault_status = fault

    def generate(
        self, group: GenericPodGroup, nodes: NodeTable, available: NDArray[np.int64] | None = None
    ) -> Sequence[GroupPlacement] | Status:
        """Return the placements of a group among these rows (None: all); one of them all if no plugin restricts it.

        If several plugins do, there is a placement for what each of one plugin has in common with each of another.
        """
        placements: Sequence[GroupPlacement] | None = None
        for step in self._generate:
            answer = self._placements_of(step, group, nodes)
            if answer is None:
                continue
            if isinstance(answer, Status):
                return answer
            placements = answer if placements is None else _intersect(placements, answer)
            if available is not None:
                placements = _non_empty(GroupPlacement(each.name, _common(each.rows, available)) for each in placements)
            if not placements:
                return _NO_PLACEMENTS.with_plugin(step.name)
        return placements or (GroupPlacement("", nodes.order if available is None else available),)

    def _placements_of(
        self, step: Step, group: GenericPodGroup, nodes: NodeTable
    ) -> Sequence[GroupPlacement] | Status | None:
        hook = Hook(step.name, "placement_generate", self._fault_status)
        try:
            answer = step.call(group, nodes)
        except FAULTS as error:
            return hook.fault_status(error)
        if isinstance(answer, Status) and answer.code != Code.SUCCESS:
            return hook.check_answer(answer, f'PlacementGenerate plugin "{step.name}"') or answer
        if isinstance(answer, Sequence) and all(isinstance(each, GroupPlacement) for each in answer):
            return answer
        if answer is not None:
            return hook.fault_status(f"answered {safe_repr(answer)}, which is no list of placements")
        return None

    def scores(self, group: GenericPodGroup, placed: Sequence[PlacedGroup], nodes: NodeTable) -> list[int] | Status:
        """Return the weighted sum of the scores of each placement."""
        totals = [0] * len(placed)
        for step, weight in self._scores:
            try:
                answer = step.call(group, placed, nodes)
            except FAULTS as error:
                answer = self._fault_status(step.name, "placement_score", error)
            if isinstance(answer, Status):
                return Status(Code.ERROR, (f'{_SCORING} "{step.name}" failed with: {answer.message}',), step.name)
            if not isinstance(answer, Sequence) or not _are_scores(answer, len(placed)):
                problem = f"answered {safe_repr(answer)}, not {len(placed)} scores in 0..{MAX_SCORE}"
                return self._fault_status(step.name, "placement_score", problem)
            totals = [total + score * weight for total, score in zip(totals, answer, strict=True)]
        return totals


def _intersect(placements: Sequence[GroupPlacement], others: Sequence[GroupPlacement]) -> Sequence[GroupPlacement]:
    """Return what each of the placements has in common with each of the others."""
    return _non_empty(
        GroupPlacement(f"{each.name}/{other.name}", _common(each.rows, other.rows))
        for each, other in product(placements, others)
    )


def _common(rows: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.int64]:
    return rows[np.isin(rows, others)]


def _non_empty(placements: Iterable[GroupPlacement]) -> Sequence[GroupPlacement]:
    return [each for each in placements if len(each.rows)]


def _are_scores(answer: Sequence[object], count: int) -> bool:
    return len(answer) == count and all(isinstance(score, int) and 0 <= score <= MAX_SCORE for score in answer)


def _steps(plugins: Mapping[str, Plugin], names: Sequence[str], hook: str) -> list[Step]:
    found = ((plugins[name], find_hook(plugins[name], hook)) for name in names)
    return [Step(plugin, call) for plugin, call in found if call is not None]
