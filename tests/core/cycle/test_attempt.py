"""An attempt that goes wrong halfway leaves nothing behind; what each point does to it is in `extension_points`."""

from __future__ import annotations

from typing import Any

import pytest

from kframework import Code, CycleState, PendingPod, Plugin, Skip, Wait, error, unschedulable
from kframework.core.cycle.records import Result
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.profiles import Profiles
from kframework.state.cluster import ClusterState
from kframework.state.inbox import ActivateRequested, Upserted
from kframework.state.nodes import NodeInfo
from kframework.testing import make_node, make_pod
from tests.core.test_pod_engine import UID, Stage
from tests.extension_points.scripted import held, plugin, profile


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
def test_failed_attempt_leaves_nothing_behind(failing: type[Plugin], result: Result, code: Code) -> None:
    stage = tried(failing)
    (decision,) = stage.decisions
    assert (decision.result, decision.code, decision.node, decision.nominated) == (result, code, "", "")
    cluster, queue = stage.engine.cluster, stage.engine.queue
    assert not cluster.pods and not cluster.assumed and not cluster.statements and len(cluster.waiting) == 0
    assert sum(len(node.pods) for node in cluster.nodes) == 0
    assert len(queue) == 1 and len(queue.in_flight) == 0
    assert stage.bound == [] and len(stage.patches) == len(stage.events) == 1
    assert stage.engine.current_search is None


@pytest.mark.parametrize(
    ("scripted", "laps"),
    [
        ({}, "sign pre_filter filter assume reserve permit"),
        ({"sign": ValueError("x"), "filter": None}, "sign:Error"),
        ({"pre_filter": unschedulable("x")}, "sign pre_filter:Unschedulable"),
        ({"pre_filter": error("x")}, "sign pre_filter:Error"),
        ({"filter": unschedulable("x")}, "sign pre_filter filter"),
        ({"filter": ValueError("x")}, "sign pre_filter filter:Error"),
        (
            {"filter": unschedulable("x"), "post_filter": unschedulable("y")},
            "sign pre_filter filter post_filter:Unschedulable",
        ),
        ({"pre_score": Skip, "score": 1}, "sign pre_filter filter pre_score score assume reserve permit"),
        ({"pre_score": error("x"), "score": 1}, "sign pre_filter filter pre_score:Error score:Error"),
        ({"score": 101}, "sign pre_filter filter score:Error"),
        ({"reserve": unschedulable("x")}, "sign pre_filter filter assume reserve:Unschedulable unreserve"),
        ({"permit": error("x")}, "sign pre_filter filter assume reserve permit:Error unreserve"),
        ({"permit": Wait(5)}, "sign pre_filter filter assume reserve permit:Wait"),
    ],
)
def test_decision_says_how_each_lap_ended(scripted: dict[str, Any], laps: str) -> None:
    (decision,) = tried(plugin("A", **scripted)).decisions
    told = (point if code == Code.SUCCESS else f"{point}:{code.title}" for point, _, code in decision.timings)
    assert " ".join(told) == laps


def test_lots_are_drawn_evenly_and_by_the_seed() -> None:
    def draws(seed: int) -> list[float]:
        profiles = Profiles({"default-scheduler": profile()})
        engine = PodEngine(ClusterState(), Stage(), Stage(), lambda engine: profiles, seed=seed)
        return [engine.draw() for _ in range(1000)]

    first = draws(1)
    assert first == draws(1) != draws(2)
    assert all(0 <= draw < 1 for draw in first)
    assert 400 < sum(draw < 0.5 for draw in first) < 600


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_share_of_the_attempts_is_timed(share: float) -> None:
    stage = Stage(objects=[make_node("a"), *(make_pod(f"p{number}") for number in range(50))])
    stage.engine.timed_share = share
    stage.steps()
    assert [reservation.trace.sample_value for reservation in stage.bound] == [
        decision.sample_value for decision in stage.decisions
    ]
    timed = [decision.sample_value < share for decision in stage.decisions]
    timed[0] = share > 0.0  # nothing has been timed for long
    assert [reservation.trace.is_timed for reservation in stage.bound] == timed


@pytest.mark.parametrize(("share", "timed"), [(0.0, []), (1e-9, [0, 2, 4])])
def test_one_attempt_a_second_is_timed_at_least(share: float, timed: list[int]) -> None:
    stage = Stage(objects=[make_node("a")])
    stage.engine.timed_share = share
    for number in range(5):
        stage.engine.offer(Upserted(make_pod(f"p{number}")))
        stage.steps()
        stage.time += 0.5
    assert [place for place, reservation in enumerate(stage.bound) if reservation.trace.is_timed] == timed


def test_pod_is_ready_before_it_is_queued_again() -> None:
    stage = Stage(plugin("A", filter=unschedulable("x")), objects=[make_node("a"), make_pod()])
    ready = stage.time
    stage.steps()
    stage.time += 400
    stage.engine.request(ActivateRequested((UID,)))
    stage.steps()
    first, again = stage.decisions
    assert (first.initial_attempt_at, first.queued_at, first.popped_at) == (ready, ready, ready)
    assert (again.initial_attempt_at, again.popped_at) == (ready, ready + 400)


@pytest.mark.parametrize("hook", ["sign", "post_filter", "reserve", "permit"])
def test_what_if_left_open_is_undone_with_the_cycle(hook: str, caplog: pytest.LogCaptureFixture) -> None:
    def leave_open(*args: object) -> None:
        held(leaking).statement()
        raise ValueError("broken")

    rejecting = plugin("R", filter=unschedulable("no") if hook == "post_filter" else None)
    hooks: dict[str, Any] = {hook: leave_open}
    leaking = plugin("A", filter=None, **hooks)
    stage = tried(rejecting, leaking)
    assert not stage.engine.cluster.statements
    assert "left a statement open" in caplog.text


@pytest.mark.parametrize("hook", ["filter", "add_pod"])
def test_what_if_left_open_beside_a_nominated_pod_is_a_fault_of_its_plugin(hook: str) -> None:
    def leave_open(state: CycleState, pod: PendingPod, *args: Any) -> None:
        node: NodeInfo = args[-1]
        for other in list(node.pods):
            held(leaking).statement().remove(other)

    hooks: dict[str, Any] = {"filter": None, hook: leave_open}
    leaking = plugin("A", pre_filter=None, **hooks)
    nominated = make_pod("first", priority=9, nominated_node_name="a", scheduler_name="another")
    stage = Stage(plugin("B", filter=None), leaking, objects=[make_node("a"), make_pod(), nominated])
    pod = PendingPod(nominated, stage.engine.cluster.interner)
    stage.engine.cluster.nominator.nominate(pod, "a")
    stage.engine.step()
    (decision,) = stage.decisions
    assert decision.result == Result.ERROR
    assert decision.message == f"plugin 'A' (from acme 1.0), hook {hook}: left a statement open"
    assert not stage.engine.cluster.statements


def test_pod_is_assumed_before_its_plugins_reserve() -> None:
    seen: list[tuple[bool, int]] = []

    def reserve(state: CycleState, pod: PendingPod, node_name: str) -> None:
        node = held(reserving).nodes.find(node_name)
        assert node is not None
        seen.append((pod.uid in held(reserving).pods, len(node.pods)))

    reserving = plugin("A", reserve=reserve)
    tried(reserving)
    assert seen == [(True, 1)]


def test_pod_that_waits_is_reserved_with_its_deadlines() -> None:
    stage = tried(plugin("A", permit=Wait(5)), plugin("B", permit=Wait(9)))
    reserved = stage.engine.cluster.waiting.get(UID)
    assert reserved is not None
    assert {name: moment - stage.time for name, moment in reserved.pending.items()} == {"A": 5.0, "B": 9.0}
    assert stage.bound[0].reserved is reserved


def test_assumed_pod_is_no_longer_nominated() -> None:
    stage = Stage(objects=[make_node("a"), make_pod(nominated_node_name="a")])
    stage.engine.step()
    assert len(stage.engine.cluster.nominator) == 0
