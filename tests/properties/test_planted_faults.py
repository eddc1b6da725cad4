"""Faults planted in the engine are found by the race, those planted in plugins by the check of the contract."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from itertools import count
from typing import Any

import numpy as np
import pytest

from kframework import PendingPod, Plugin, unresolvable
from kframework.core.cycle.answer_cache import AnswerColumns
from kframework.core.cycle.plan import PlanCache
from kframework.core.cycle.rejections import PASS, StatusTable
from kframework.core.cycle.scoring import Scoring
from kframework.core.cycle.search import Search
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.steps import ScoreStep
from kframework.framework.cycle_state import CycleState
from kframework.plugins.node_name import NodeName
from kframework.plugins.node_resources_fit.plugin import NodeResourcesFit
from kframework.plugins.node_unschedulable import NodeUnschedulable
from kframework.plugins.taint_toleration import TaintToleration
from kframework.state.log import Log
from kframework.testing import ContractViolation, check_plugin
from tests.properties.search_comparison import SearchComparison, Seen, reference_nodes_to_find

RACES = 60

#: Changes something of the engine for the length of a test.
Plant = Callable[[pytest.MonkeyPatch], None]


def found() -> bool:
    """Return whether the race finds that something is wrong."""
    for seed in range(RACES):
        try:
            SearchComparison(seed, Seen()).run()
        except Exception:  # a planted fault may show as any error
            return True
    return False


@pytest.mark.long
def test_no_fault_is_detected_where_none_is_planted() -> None:
    assert not found()


since, append = Log.since, Log.append


def stale_row(patch: pytest.MonkeyPatch) -> None:
    """Catching up forgets the last row."""
    patch.setattr(Log, "since", lambda log, position: (since(log, position) or [])[:-1] or since(log, position))


def lost_entry(patch: pytest.MonkeyPatch) -> None:
    """One change in five is not logged."""
    numbers = count()
    patch.setattr(Log, "append", lambda log, row: None if next(numbers) % 5 == 4 else append(log, row))


def log_cut_behind_a_reader(patch: pytest.MonkeyPatch) -> None:
    """A what-if that was looked at leaves no trace."""

    def cut(log: Log[int], position: int) -> bool:
        del log._entries[position - log._first :]
        return True

    patch.setattr(Log, "discard_since", cut)


def forgotten_node_set(patch: pytest.MonkeyPatch) -> None:
    """Layers outlive the set of nodes."""
    patch.setattr(PlanCache, "clear", lambda layers: None)


def coarse_plan(patch: pytest.MonkeyPatch) -> None:
    """All pods are taken to be of one signature."""
    plan = PlanCache.plan

    def first(layers: PlanCache, signature: Any, pod: PendingPod) -> Any:
        return plan(layers, next(iter(layers._plans), signature), pod)

    patch.setattr(PlanCache, "plan", first)


def remembered_without_promise(patch: pytest.MonkeyPatch) -> None:
    """Plugins that promise nothing are remembered."""
    patch.setattr("kframework.core.runtime.profile._sign_nothing", lambda pod: "always the same")


def stale_lower_layer(patch: pytest.MonkeyPatch) -> None:
    """The lower layer is brought up to date only the first time."""
    catch_up = AnswerColumns.catch_up

    def once(layer: AnswerColumns, profile: Profile, state: CycleState, pod: PendingPod) -> None:
        if layer._log._position < 0 or layer.below is not None:
            catch_up(layer, profile, state, pod)

    patch.setattr(AnswerColumns, "catch_up", once)


def unordered_rejections(patch: pytest.MonkeyPatch) -> None:
    """Every scalar rejection counts as the first."""
    encode = StatusTable.encode
    patch.setattr(StatusTable, "encode", lambda table, order, status: encode(table, 0, status))


def last_rejection(patch: pytest.MonkeyPatch) -> None:
    """The largest rejection is kept instead of the smallest."""

    class Numpy:
        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

        @staticmethod
        def minimum(old: Any, new: Any) -> Any:
            return np.where(old == PASS, new, np.maximum(old, new))

    patch.setattr("kframework.core.cycle.answer_cache.np", Numpy())


def normalised_with_all(patch: pytest.MonkeyPatch) -> None:
    """Scores are normalised together with those of nodes that are not candidates."""
    totals, normalized = Scoring.totals, ScoreStep.normalize_scores

    def with_all(scoring: Scoring, skipped: Any) -> Any:
        def mixed(step: ScoreStep, state: Any, pod: Any, raw: Any) -> Any:
            if scoring.plan.cache is None or step not in scoring.plan.normalizing:
                return normalized(step, state, pod, raw)
            rest = scoring.plan.cache.raw_of(step.name).values
            answer = normalized(step, state, pod, np.concatenate((raw, rest)))
            return answer[: len(raw)] if isinstance(answer, np.ndarray) else answer

        with patch.context() as within:
            within.setattr(ScoreStep, "normalize_scores", mixed)
            return totals(scoring, skipped)

    patch.setattr(Scoring, "totals", with_all)


def one_candidate_too_many(patch: pytest.MonkeyPatch) -> None:
    """The search keeps one feasible node more than is enough."""
    patch.setattr(
        SearchComparison,
        "nodes_to_find",
        staticmethod(lambda nodes, percentage: reference_nodes_to_find(nodes, percentage) + 1),
    )


def rotation_off_by_one(patch: pytest.MonkeyPatch) -> None:
    """The next search leaves a node out."""
    advance = Search._advance_start_index

    def too_far(search: Search) -> None:
        advance(search)
        search.rotation.next_start_index = (search.rotation.next_start_index + 1) % len(search.nodes)

    patch.setattr(Search, "_advance_start_index", too_far)


def nominated_pods_overlooked(patch: pytest.MonkeyPatch) -> None:
    """No room is kept for nominated pods."""
    patch.setattr(Search, "_rejections_with_nominated_pods", lambda search, rows: np.full(len(rows), PASS))


def nominated_pods_stay(patch: pytest.MonkeyPatch) -> None:
    """What a plugin noted of nominated pods is still there when the node is looked at without them."""
    patch.setattr(CycleState, "clone", lambda state: state)


def skip_ignored(patch: pytest.MonkeyPatch) -> None:
    """Plugins that have nothing to say are asked all the same."""
    patch.setattr("kframework.core.cycle.plan._skips", lambda answer: False)


@pytest.mark.long
@pytest.mark.parametrize(
    "plant",
    [
        stale_row,
        lost_entry,
        log_cut_behind_a_reader,
        forgotten_node_set,
        coarse_plan,
        remembered_without_promise,
        stale_lower_layer,
        unordered_rejections,
        last_rejection,
        normalised_with_all,
        one_candidate_too_many,
        rotation_off_by_one,
        nominated_pods_overlooked,
        nominated_pods_stay,
        skip_ignored,
    ],
)
def test_planted_engine_fault_is_detected(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert found()


filter_nodes, score_nodes = NodeResourcesFit.filter_nodes, NodeResourcesFit.score_nodes


@pytest.mark.parametrize(
    ("plugin", "hook", "instead"),
    [
        (NodeUnschedulable, "filter_nodes", lambda self, state, pod, nodes, rows: nodes.unschedulable.values[rows] * 0),
        (NodeName, "filter_status", lambda self, pod, bits: unresolvable("node(s) have another name")),
        (NodeName, "sign", lambda self, pod: pod.name),
        (TaintToleration, "sign", lambda self, pod: len(pod.spec.tolerations)),
        (TaintToleration, "normalize_score", lambda self, state, pod, scores: 100 - 60 * scores),
        (NodeResourcesFit, "sign", lambda self, pod: pod.template.non_zero),
        (NodeResourcesFit, "reads", "node"),
        (NodeResourcesFit, "filter_nodes", lambda self, *asked: filter_nodes(self, *asked) & ~1),
        (NodeResourcesFit, "score_nodes", lambda self, *asked: np.maximum(score_nodes(self, *asked), 1)),
    ],
)
def test_planted_plugin_fault_is_detected(
    plugin: type[Plugin], hook: str, instead: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if callable(instead):
        # What the profile looks at when it checks a hook: the marker, and the names of the arguments.
        instead = update_wrapper(instead, getattr(plugin, hook))
    monkeypatch.setattr(plugin, hook, instead)
    with pytest.raises(ContractViolation):
        check_plugin(plugin, examples=30)
