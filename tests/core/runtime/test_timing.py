"""PhaseTimer add up to the whole, and every plugin that is asked has its time; others ask as if there were no clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kframework.core.runtime.timing
from kframework import Code, CycleState, PendingPod, Plugin, Preempt, Status, Wait, error, unschedulable
from kframework.core.cycle.decision import Decision
from kframework.core.runtime.timing import PhaseTimer, PluginTimer, PluginTiming
from kframework.framework.answers import Candidate
from kframework.testing import make_node, make_pod
from tests.core.test_pod_engine import Stage
from tests.extension_points.scripted import plugin, profile

NODES = 20


class Ticks:
    """A clock that moves on by one whenever somebody looks at it, and as far as a test says."""

    def __init__(self) -> None:
        self.moment = 0

    def __call__(self) -> int:
        self.moment += 1
        return self.moment

    def passing(self, nanoseconds: int, answer: object = None) -> Callable[..., object]:
        """Make a hook that takes so long, and answers or raises this."""

        def hook(*arguments: object) -> object:
            self.moment += nanoseconds
            if isinstance(answer, Exception):
                raise answer
            return answer

        return hook


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Ticks:
    ticks = Ticks()
    monkeypatch.setattr(kframework.core.runtime.timing, "perf_counter_ns", ticks)
    return ticks


def decided(*plugins: type[Plugin], timed_share: float = 1.0) -> Decision:
    """Return the decision on one pod."""
    stage = Stage(*plugins, objects=[*(make_node(f"n{number}") for number in range(NODES)), make_pod()])
    stage.engine.timed_share = timed_share
    stage.engine._verifying = False  # which would ask once more
    stage.engine.step()
    (decision,) = stage.decisions
    return decision


def timings(*plugins: type[Plugin]) -> set[PluginTiming]:
    decision = decided(*plugins)
    assert len(decision.plugins) == len(set(decision.plugins))
    return set(decision.plugins)


# -- timer ----------------------------------------------------------------------------------------------------------


def test_timer_follow_each_other_without_a_gap(ticks: Ticks) -> None:
    timer = PhaseTimer()
    ticks.moment += 10
    timer.take("a")
    ticks.moment += 20
    timer.take("b", Status(Code.PENDING))
    assert timer.taken == [("a", 11, Code.SUCCESS), ("b", 21, Code.PENDING)]
    assert timer.started + 32 == ticks.moment


# -- plugins -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (None, Code.SUCCESS),
        (unschedulable("x"), Code.UNSCHEDULABLE),
        (error("x"), Code.ERROR),
        (ValueError("x"), Code.ERROR),
        (Wait(5), Code.WAIT),
        (77, Code.SUCCESS),  # the fault is the engine's to tell
    ],
)
def test_a_plugin_has_its_time_and_the_code_of_its_answer(ticks: Ticks, answer: object, code: Code) -> None:
    assert timings(plugin("A", permit=ticks.passing(500, answer))) == {("permit", "A", 501, code)}


def test_the_code_of_a_way_out_is_that_of_its_status(ticks: Ticks) -> None:
    way_out = Preempt(candidates=(Candidate("n1", ()),), key=lambda candidate: 0, status=unschedulable("x"))
    rejecting = plugin("A", pre_filter=unschedulable("no"), post_filter=ticks.passing(500, way_out))
    assert ("post_filter", "A", 501, Code.UNSCHEDULABLE) in timings(rejecting)


def test_the_calls_about_all_nodes_are_one_time(ticks: Ticks) -> None:
    scalar = plugin("A", filter=ticks.passing(5), score=ticks.passing(7, 1), reads=None)
    assert timings(scalar) == {("filter", "A", NODES * 6, Code.SUCCESS), ("score", "A", NODES * 8, Code.SUCCESS)}


def test_what_is_said_about_nodes_has_no_code_but_a_fault_has(ticks: Ticks) -> None:
    refusing = plugin("A", filter=ticks.passing(5, unschedulable("no")), reads=None)
    assert timings(refusing) == {("filter", "A", NODES * 6, Code.SUCCESS)}
    answers = iter([None, ValueError("x"), None])
    failing = plugin("A", filter=lambda *arguments: ticks.passing(5, next(answers, None))(), reads=None)
    assert {(name, code) for _, name, _, code in timings(failing)} == {("A", Code.ERROR)}


def test_a_columnar_form_is_asked_once_and_is_not_counted_twice(ticks: Ticks) -> None:
    columnar = plugin("A", filter_nodes=ticks.passing(50, 0), filter_status=unschedulable("no"), reads="pods")
    assert timings(columnar) == {("filter", "A", 51, Code.SUCCESS)}
    asked_row_by_row = plugin("A", pre_filter=frozenset({"n1"}), filter_nodes=ticks.passing(50, 0), filter_status=None)
    assert ("filter", "A", 51, Code.SUCCESS) in timings(asked_row_by_row)


def test_normalising_is_a_time_of_its_own(ticks: Ticks) -> None:
    scoring = plugin("A", score=1, normalize_score=lambda state, pod, scores: ticks.passing(50, scores)(), reads=None)
    assert ("normalize_score", "A", 51, Code.SUCCESS) in timings(scoring)


def test_what_one_plugin_asks_of_another_is_its_own_time(ticks: Ticks) -> None:
    def post_filter(state: CycleState, pod: PendingPod, diagnosis: object) -> None:
        (step,) = stage.engine.profiles["default-scheduler"].filters
        step.ask(state, pod, stage.engine.cluster.nodes[0])

    refusing = plugin("A", filter=ticks.passing(100, unschedulable("no")))
    stage = Stage(refusing, plugin("B", post_filter=post_filter), objects=[make_node("a"), make_pod()], verifying=False)
    stage.engine.timed_share = 1.0
    stage.engine.step()
    assert set(stage.decisions[0].plugins) == {
        ("filter", "A", 101, Code.SUCCESS),
        ("post_filter", "B", 101, Code.SUCCESS),
    }


def test_every_hook_of_the_cycle_is_timed_in_order() -> None:
    hooks: dict[str, Any] = {
        "pre_filter": None,
        "filter": None,
        "pre_score": None,
        "score": 1,
        "normalize_score": lambda state, pod, scores: scores,
        "reserve": None,
        "permit": error("no"),
        "unreserve": None,
    }
    told = decided(plugin("A", **hooks), plugin("B", **hooks)).plugins
    asked = [(hook, name) for hook in ("pre_filter", "filter", "pre_score") for name in "AB"]
    asked += [(hook, name) for name in "AB" for hook in ("score", "normalize_score")]
    asked += [("reserve", "A"), ("reserve", "B"), ("permit", "A"), ("unreserve", "B"), ("unreserve", "A")]
    assert [(hook, name) for hook, name, _, _ in told] == asked


def test_a_second_attempt_begins_from_nought(ticks: Ticks) -> None:
    stage = Stage(plugin("A", permit=ticks.passing(50)), objects=[make_node("a"), make_pod("x"), make_pod("y")])
    stage.engine.timed_share = 1.0
    stage.steps()
    assert [decision.plugins for decision in stage.decisions] == [(("permit", "A", 51, Code.SUCCESS),)] * 2


def test_only_the_twin_of_a_profile_is_timed() -> None:
    compiled = profile(plugin("A", filter=None, score=1, permit=ValueError("x")))
    (permit,), (filtering,), (scoring,) = compiled.permit, compiled.filters, compiled.scores
    hooks = permit.call, filtering.ask, scoring.ask
    plugin_timer = PluginTimer(compiled)
    twin = plugin_timer.restarted()
    (timed,) = twin.permit
    with pytest.raises(ValueError, match="x"):
        timed.call(None, None, None)
    assert hooks == (permit.call, filtering.ask, scoring.ask)
    assert not {timed.call, twin.filters[0].ask, twin.scores[0].ask} & set(hooks)
    assert [timing[:2] for timing in plugin_timer.timings()] == [("permit", "A")]
    with pytest.raises(ValueError, match="x"):
        permit.call(None, None, None)
    assert plugin_timer.restarted() is twin and plugin_timer.timings() == ()


def test_plugins_that_are_not_timed_are_not_told() -> None:
    assert decided(plugin("A", filter=None, permit=None), timed_share=0.0).plugins == ()
