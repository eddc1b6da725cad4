"""Phases add up to the whole; in timed attempts every plugin that is called has its time, others never see a clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

import kframework.core.runtime.timing
from kframework import (
    Code,
    CycleState,
    NodeInfo,
    PendingPod,
    Plugin,
    Preempt,
    Status,
    Wait,
    error,
    hookimpl,
    unschedulable,
)
from kframework.config.load import parse
from kframework.core.cycle.records import Decision
from kframework.core.runtime.timing import AttemptTrace, PluginTiming, current_attempt
from kframework.framework.answers import Candidate
from kframework.simulation.simulation import Simulation
from kframework.testing import make_node, make_pod, pending_pod
from tests.core.test_pod_engine import Stage
from tests.extension_points.scripted import plugin, profile

NODES = 20


class Ticks:
    """A clock that advances by one at each reading, and as far as a test says."""

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


def test_phases_have_no_gaps(ticks: Ticks) -> None:
    trace = AttemptTrace(pending_pod(make_pod()), 1, started=ticks())
    ticks.moment += 10
    trace.end_phase("a")
    ticks.moment += 20
    trace.end_phase("b", Status(Code.PENDING))
    assert trace.phases == [("a", 11, Code.SUCCESS), ("b", 21, Code.PENDING)]
    assert trace.started + 32 == ticks.moment


def test_restarted_trace_measures_the_binding_cycle(ticks: Ticks) -> None:
    trace = AttemptTrace(pending_pod(make_pod()), 7, sample_value=0.25, is_timed=True)
    trace.end_phase("a")
    trace.call_hook("permit", "A", ticks.passing(5))
    ticks.moment += 10
    trace.restart()
    assert (trace.started, trace.phases, trace.plugins) == (ticks.moment, [], ())
    trace.end_phase("b")
    assert trace.phases == [("b", 1, Code.SUCCESS)]
    assert (trace.attempt, trace.sample_value, trace.is_timed) == (7, 0.25, True)


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
def test_plugin_timing_has_the_code_of_the_answer(ticks: Ticks, answer: object, code: Code) -> None:
    assert timings(plugin("A", permit=ticks.passing(500, answer))) == {("permit", "A", 501, code)}


def test_post_filter_timing_has_the_code_of_its_status(ticks: Ticks) -> None:
    way_out = Preempt(candidates=(Candidate("n1", ()),), key=lambda candidate: 0, status=unschedulable("x"))
    rejecting = plugin("A", pre_filter=unschedulable("no"), post_filter=ticks.passing(500, way_out))
    assert ("post_filter", "A", 501, Code.UNSCHEDULABLE) in timings(rejecting)


def test_calls_for_all_nodes_are_one_timing(ticks: Ticks) -> None:
    scalar = plugin("A", filter=ticks.passing(5), score=ticks.passing(7, 1), reads=None)
    assert timings(scalar) == {("filter", "A", NODES * 6, Code.SUCCESS), ("score", "A", NODES * 8, Code.SUCCESS)}


def test_node_hooks_have_a_code_only_for_errors(ticks: Ticks) -> None:
    refusing = plugin("A", filter=ticks.passing(5, unschedulable("no")), reads=None)
    assert timings(refusing) == {("filter", "A", NODES * 6, Code.SUCCESS)}
    answers = iter([None, ValueError("x"), None])
    failing = plugin("A", filter=lambda *arguments: ticks.passing(5, next(answers, None))(), reads=None)
    assert {(name, code) for _, name, _, code in timings(failing)} == {("A", Code.ERROR)}


def test_columnar_form_is_timed_once(ticks: Ticks) -> None:
    columnar = plugin("A", filter_nodes=ticks.passing(50, 0), filter_status=unschedulable("no"), reads="pods")
    assert timings(columnar) == {("filter", "A", 51, Code.SUCCESS)}
    asked_row_by_row = plugin("A", pre_filter=frozenset({"n1"}), filter_nodes=ticks.passing(50, 0), filter_status=None)
    assert ("filter", "A", 51, Code.SUCCESS) in timings(asked_row_by_row)


def test_normalize_score_is_timed_separately(ticks: Ticks) -> None:
    scoring = plugin("A", score=1, normalize_score=lambda state, pod, scores: ticks.passing(50, scores)(), reads=None)
    assert ("normalize_score", "A", 51, Code.SUCCESS) in timings(scoring)


def test_nested_hooks_count_towards_the_outer_plugin(ticks: Ticks) -> None:
    def post_filter(state: CycleState, pod: PendingPod, diagnosis: object) -> None:
        (step,) = stage.engine.profiles["default-scheduler"].filters
        step.run(state, pod, stage.engine.cluster.nodes[0])

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


def test_second_attempt_starts_with_empty_timings(ticks: Ticks) -> None:
    stage = Stage(plugin("A", permit=ticks.passing(50)), objects=[make_node("a"), make_pod("x"), make_pod("y")])
    stage.engine.timed_share = 1.0
    stage.steps()
    assert [decision.plugins for decision in stage.decisions] == [(("permit", "A", 51, Code.SUCCESS),)] * 2


@pytest.fixture
def trace() -> Iterator[AttemptTrace]:
    """Return the trace of the current attempt, which is timed."""
    trace = AttemptTrace(pending_pod(make_pod()), 1, is_timed=True)
    before = current_attempt.set(trace)
    yield trace
    current_attempt.reset(before)


def test_only_the_timed_profile_is_timed(trace: AttemptTrace) -> None:
    compiled = profile(plugin("A", filter=None, score=1, permit=ValueError("x")))
    (permit,), (filtering,), (scoring,) = compiled.permit, compiled.filters, compiled.scores
    hooks = permit.call, filtering.run, scoring.run
    (timed,) = compiled.timed.permit
    assert hooks == (permit.call, filtering.run, scoring.run)
    assert not {timed.call, compiled.timed.filters[0].run, compiled.timed.scores[0].run} & set(hooks)
    with pytest.raises(ValueError, match="x"):
        permit.call(None, None, None)
    before = trace.plugins
    with pytest.raises(ValueError, match="x"):
        timed.call(None, None, None)
    assert before == ()
    assert [(hook, name, code) for hook, name, _, code in trace.plugins] == [("permit", "A", Code.ERROR)]
    assert compiled.timed is compiled.timed


def test_calls_outside_an_attempt_are_not_timed() -> None:
    (timed,) = profile(plugin("A", permit=error("x"))).timed.permit
    assert timed.call(None, None, None) == error("x")


def test_first_error_code_of_repeated_calls_is_kept(ticks: Ticks, trace: AttemptTrace) -> None:
    for answer in (None, unschedulable("x"), error("x"), None):
        trace.call_hook("permit", "A", ticks.passing(10, answer))
    assert trace.plugins == (("permit", "A", 44, Code.UNSCHEDULABLE),)


def test_untimed_attempt_has_no_plugin_timings() -> None:
    assert decided(plugin("A", filter=None, permit=None), timed_share=0.0).plugins == ()


CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Asking}]}}}]
"""


class Suspendable(Plugin):
    """Note at some points to which attempt they belong."""

    name = "Asking"
    noted: ClassVar[list[tuple[str, str, str | None, int]]] = []

    def note(self, point: str, pod: PendingPod) -> None:
        trace = current_attempt.get()
        belongs = (None, 0) if trace is None else (trace.pod.name, trace.attempt)
        self.noted.append((point, pod.name, *belongs))

    @hookimpl
    def pre_enqueue(self, pod: PendingPod) -> None:
        self.note("pre_enqueue", pod)

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        self.note("filter", pod)
        return unschedulable("no") if pod.name == "never" else None

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        await asyncio.sleep(10.0)
        self.note("pre_bind", pod)


def test_trace_follows_tasks_of_its_attempt() -> None:
    Suspendable.noted.clear()
    objects = [make_node("a"), make_pod("first"), make_pod("second"), make_pod("never")]
    Simulation(objects, parse(CONFIGURATION), plugins=[Suspendable]).run()
    assert Suspendable.noted[:3] == [("pre_enqueue", name, None, 0) for name in ("first", "second", "never")]
    # Asked twice where remembered answers are verified.
    during = list(dict.fromkeys(entry for entry in Suspendable.noted if entry[0] in ("filter", "pre_bind")))
    assert all(pod == current for _, pod, current, _ in during)
    assert [entry for entry in during if entry[1] != "never"] == [
        ("filter", "first", "first", 1),
        ("filter", "second", "second", 2),
        ("pre_bind", "first", "first", 1),
        ("pre_bind", "second", "second", 2),
    ]
    assert [entry[3] for entry in during if entry[1] == "never"][:1] == [3]
    assert current_attempt.get() is None
