"""The scheduler at a glance."""

from __future__ import annotations

from kframework.clock import VIRTUAL_EPOCH
from kframework.observe.web.summary import summary
from kframework.testing import make_node, make_pod
from tests.observe.explain.scene import Scene


def test_everything_is_counted() -> None:
    scene = Scene(
        make_node("a"), make_node("b"), make_pod("runs", node_name="a"), make_pod("new"), make_pod("huge", cpu=99)
    )
    scene.settle()
    found = summary(scene.engine, scene.history)
    assert (found.now, found.synced, found.profiles) == (VIRTUAL_EPOCH, True, ("default-scheduler",))
    assert (found.nodes, found.pods_on_nodes, found.binding, found.attempts) == (2, 2, 1, 2)
    assert found.pending == {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 0}
    assert found.counted == 2
    assert {result: sum(counts) for result, counts in found.timeline.counts.items()} == {
        "scheduled": 1,
        "unschedulable": 1,
        "error": 0,
    }
    assert found.took is not None and 0 < found.took.median <= found.took.slowest


def test_a_scheduler_that_has_done_nothing_is_shown_too() -> None:
    scene = Scene()
    found = summary(scene.engine, scene.history)
    assert (found.synced, found.nodes, found.counted, found.took) == (False, 0, 0, None)


def test_only_the_last_attempts_are_looked_at() -> None:
    scene = Scene(make_node("a"), *(make_pod(f"pod-{number}") for number in range(5))).settle()
    assert summary(scene.engine, scene.history, counted=3).counted == 3
