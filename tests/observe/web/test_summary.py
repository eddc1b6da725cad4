"""The scheduler at a glance; the last attempts: the records themselves, counted over time, and how long they took."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kframework.clock import VIRTUAL_EPOCH
from kframework.core.cycle.records import Result
from kframework.explain.view import PodEngineView
from kframework.observe.history import Reload
from kframework.observe.web.summary import (
    INTERVALS,
    Durations,
    durations,
    list_attempts,
    summarise_scheduler,
    timeline,
)
from kframework.testing import make_node, make_pod
from kframework.values.status import Code
from tests.explain.scene import Scene
from tests.observe.web.records import binding, decision, history

MANY = history(*(decision(number, f"pod-{number}") for number in range(1, 11)), binding(9, "pod-9"))


def test_attempts_are_listed_newest_first_with_ended_bindings() -> None:
    shown = list_attempts(MANY, limit=3)
    assert [each.attempt for each in shown.decisions] == [10, 9, 8]
    assert [each.attempt for each in shown.bindings] == [9]
    assert shown.last == 10


def test_attempts_can_be_limited_to_those_after_an_attempt() -> None:
    assert [each.attempt for each in list_attempts(MANY, after=8).decisions] == [10, 9]
    assert list_attempts(MANY, after=10).decisions == ()


def test_attempts_can_be_limited_to_one_pod() -> None:
    past = history(decision(1, "a"), decision(2, "b"), decision(3, "a"), binding(3, "a"))
    shown = list_attempts(past, pod="default/a")
    assert [each.attempt for each in shown.decisions] == [3, 1]
    assert [each.attempt for each in shown.bindings] == [3]
    assert [each.attempt for each in list_attempts(past, pod="default/a", limit=1).decisions] == [3]
    assert list_attempts(past, pod="default/c").decisions == ()


def test_attempts_are_listed_without_plugin_times() -> None:
    timed = ("filter", "Fit", 1, Code.SUCCESS)
    shown = list_attempts(history(decision(plugins=(timed,)), binding(plugins=(timed,))))
    assert shown.decisions == (decision(),)
    assert shown.bindings == (binding(),)


@given(st.lists(st.tuples(st.floats(0, 1e6), st.sampled_from(Result)), max_size=50), st.floats(0, 1e6))
def test_timeline_counts_every_attempt_in_its_interval(drawn: list[tuple[float, Result]], later: float) -> None:
    ordered = sorted(drawn, key=lambda each: each[0])
    newest_first = [decision(at=at, result=result) for at, result in ordered][::-1]
    now = (ordered[-1][0] if ordered else 0.0) + later
    line = timeline(newest_first, now)
    assert line.width >= 1.0 and line.start + line.width * INTERVALS >= now - 1e-6 * max(now, 1.0)
    for result in Result:
        moments = [at for at, each in ordered if each is result]
        expected = [0] * INTERVALS
        for at in moments:
            expected[min(int((at - line.start) / line.width), INTERVALS - 1)] += 1
        assert line.counts[result.value] == tuple(expected)
        assert sum(line.counts[result.value]) == len(moments)


def test_attempt_duration_is_the_sum_of_its_points() -> None:
    timed = decision(timings=(("filter", 7, Code.SUCCESS), ("score", 5, Code.SUCCESS)))
    assert durations([timed]) == Durations(median=12, slow=12, slowest=12)


def test_durations_have_median_and_percentile() -> None:
    taking = [decision(timings=(("filter", spent, Code.SUCCESS),)) for spent in range(1, 201)]
    assert durations(taking) == Durations(median=101, slow=199, slowest=200)
    assert durations([]) is None


def test_untimed_attempts_are_ignored_in_durations() -> None:
    timed = decision(timings=(("filter", 7, Code.SUCCESS),))
    assert durations([decision(), timed]) == Durations(median=7, slow=7, slowest=7)
    assert durations([decision()]) is None


def test_summary_counts_nodes_pods_and_attempts() -> None:
    scene = Scene(
        make_node("a"), make_node("b"), make_pod("runs", node_name="a"), make_pod("new"), make_pod("huge", cpu=99)
    )
    scene.settle()
    found = summarise_scheduler(PodEngineView(scene.engine, scene.history))
    assert (found.now, found.synced, found.profiles) == (VIRTUAL_EPOCH, True, ("default-scheduler",))
    assert (found.nodes, found.pods_on_nodes, found.waiting, found.attempts) == (2, 2, 2, 2)
    assert found.counted == 2
    assert {result: sum(counts) for result, counts in found.timeline.counts.items()} == {
        "scheduled": 1,
        "unschedulable": 1,
        "error": 0,
    }
    assert found.durations is not None and 0 < found.durations.median <= found.durations.slowest


def test_summary_works_without_attempts() -> None:
    scene = Scene()
    found = summarise_scheduler(PodEngineView(scene.engine, scene.history))
    assert (found.synced, found.nodes, found.counted, found.durations) == (False, 0, 0, None)


def test_only_the_last_attempts_are_counted() -> None:
    scene = Scene(make_node("a"), *(make_pod(f"pod-{number}") for number in range(5))).settle()
    assert summarise_scheduler(PodEngineView(scene.engine, scene.history), counted=3).counted == 3


def test_summary_has_the_last_reload() -> None:
    scene = Scene()
    assert summarise_scheduler(PodEngineView(scene.engine, scene.history)).reload is None
    scene.history.reload = Reload(VIRTUAL_EPOCH, 2, problem="file.yaml:3: no")
    assert summarise_scheduler(PodEngineView(scene.engine, scene.history)).reload == scene.history.reload
