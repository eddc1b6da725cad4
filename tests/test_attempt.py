"""An attempt that goes wrong halfway leaves nothing behind; what each point does to it is in `extension_points`."""

from __future__ import annotations

from typing import Any

import pytest

from kframework import Code, CycleState, PendingPod, Plugin, Wait, error, unschedulable
from kframework.decision import Result
from kframework.testing import make_node, make_pod
from tests.extension_points.scripted import held, plugin
from tests.test_pod_engine import UID, Stage


def tried(*plugins: type[Plugin]) -> Stage:
    stage = Stage(*plugins, objects=[make_node("a"), make_node("b"), make_pod()])
    stage.engine.step()
    return stage


@pytest.mark.parametrize(
    ("failing", "result", "code"),
    [
        (plugin("A", pre_filter=error("x")), Result.ERROR, Code.ERROR),
        (plugin("A", filter=unschedulable("x")), Result.UNSCHEDULABLE, Code.UNSCHEDULABLE),
        (plugin("A", sign=ValueError("x"), filter=None), Result.ERROR, Code.ERROR),
        (plugin("A", score=101), Result.ERROR, Code.ERROR),
        (plugin("A", reserve=unschedulable("x")), Result.UNSCHEDULABLE, Code.UNSCHEDULABLE),
        (plugin("A", permit=ValueError("x")), Result.ERROR, Code.ERROR),
    ],
)
def test_a_failed_attempt_leaves_nothing_behind(failing: type[Plugin], result: Result, code: Code) -> None:
    stage = tried(failing)
    (decision,) = stage.decisions
    assert (decision.result, decision.code, decision.node, decision.nominated) == (result, code, "", "")
    cluster, queue = stage.engine.cluster, stage.engine.queue
    assert not cluster.pods and not cluster.assumed and not cluster.statements and len(cluster.waiting) == 0
    assert sum(len(node.pods) for node in cluster.nodes) == 0
    assert len(queue) == 1 and len(queue.in_flight) == 0
    assert stage.bound == [] and len(stage.patches) == len(stage.events) == 1
    assert stage.engine.current is None


@pytest.mark.parametrize("hook", ["sign", "post_filter", "reserve", "permit"])
def test_a_what_if_left_open_is_undone_with_the_cycle(hook: str, caplog: pytest.LogCaptureFixture) -> None:
    def leave_open(*args: object) -> None:
        held(leaking).statement()
        raise ValueError("broken")

    rejecting = plugin("R", filter=unschedulable("no") if hook == "post_filter" else None)
    hooks: dict[str, Any] = {hook: leave_open}
    leaking = plugin("A", filter=None, **hooks)
    stage = tried(rejecting, leaking)
    assert not stage.engine.cluster.statements
    assert "left a statement open" in caplog.text


def test_a_pod_is_assumed_before_its_plugins_reserve() -> None:
    seen: list[tuple[bool, int]] = []

    def reserve(state: CycleState, pod: PendingPod, node_name: str) -> None:
        node = held(reserving).nodes.named(node_name)
        assert node is not None
        seen.append((pod.uid in held(reserving).pods, len(node.pods)))

    reserving = plugin("A", reserve=reserve)
    tried(reserving)
    assert seen == [(True, 1)]


def test_a_pod_that_waits_is_reserved_with_its_deadlines() -> None:
    stage = tried(plugin("A", permit=Wait(5)), plugin("B", permit=Wait(9)))
    reserved = stage.engine.cluster.waiting.get(UID)
    assert reserved is not None
    assert {name: moment - stage.time for name, moment in reserved.pending.items()} == {"A": 5.0, "B": 9.0}
    assert stage.bound[0].reserved is reserved


def test_an_assumed_pod_is_no_longer_nominated() -> None:
    stage = Stage(objects=[make_node("a"), make_pod(nominated_node_name="a")])
    stage.engine.step()
    assert len(stage.engine.cluster.nominator) == 0
