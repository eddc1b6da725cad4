"""An explanation puts together what was decided, what the plugins say now and what is waited for."""

from __future__ import annotations

import msgspec
import pytest

from kframework import PendingPod, Status, unschedulable
from kframework.explain.explainer import explain, explain_steps
from kframework.explain.explanation import Explanation, State
from kframework.objects import PodCondition
from kframework.observe.history import History
from kframework.scheduler import cooperative
from kframework.state.inbox import Deleted, Upserted
from kframework.testing import make_node, make_pod
from tests.core.test_pod_engine import Stage
from tests.explain.scene import Scene
from tests.extension_points.scripted import held, plugin

FULL = (make_node("n1", cpu=1), make_pod("first", cpu=1, node_name="n1"), make_pod("second", cpu="500m"))


def test_pending_pod_is_explained() -> None:
    scene = Scene(*FULL).settle()
    scene.time += 5
    explanation = scene.explain("second")
    assert (explanation.pod, explanation.profile, explanation.state) == (
        "default/second",
        "default-scheduler",
        State.UNSCHEDULABLE,
    )
    assert explanation.requests == {"cpu": "500m", "memory": "128Mi"}
    assert (explanation.node, explanation.nominated, explanation.attempts) == ("", "", 1)
    assert explanation.at == scene.time
    assert explanation.last_decision is not None and explanation.last_decision.message.startswith(
        explanation.assessment.message
    )
    assert explanation.assessment.reasons == explanation.last_decision.reasons == {"Insufficient cpu": 1}
    assert explanation.waiting is not None and explanation.waiting.held_by == ("NodeResourcesFit",)
    assert explanation.remedies
    assert explanation.notes == ()


def test_bound_pod_is_explained_as_if_it_had_no_node() -> None:
    scene = Scene(make_node("n1", cpu=4), make_node("n2", cpu=2), make_pod("pod", cpu=1)).settle()
    explanation = scene.explain("pod")
    then, now = explanation.last_decision, explanation.assessment
    assert then is not None
    assert (explanation.state, explanation.node) == (State.BINDING, then.node)
    assert {(each.node, each.total) for each in now.top} == set(then.best_nodes)
    assert now.top[0].node == then.node
    assert now.margin == then.best_nodes[0][1] - then.best_nodes[1][1] > 0
    assert explanation.remedies == () and explanation.preemption is None


def test_pod_without_an_attempt_is_explained() -> None:
    scene = Scene(make_node("n1"), make_pod("pod"))
    scene.engine.apply_messages()
    explanation = scene.explain("pod")
    assert (explanation.state, explanation.attempts, explanation.last_decision) == (State.ACTIVE, 0, None)
    assert explanation.assessment.feasible == 1


def test_condition_replaces_a_decision_that_is_no_longer_kept() -> None:
    condition = PodCondition(type="PodScheduled", status="False", message="0/1 nodes are available.")
    pod = make_pod("second", cpu="500m")
    waits = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=(condition,)))
    scene = Scene(*FULL[:2], waits)
    scene.engine.apply_messages()
    explanation = scene.explain("second")
    assert (explanation.last_decision, explanation.condition) == (None, "0/1 nodes are available.")


def test_gated_pod_has_the_removal_of_its_gate_as_remedy() -> None:
    explanation = Scene(make_node("n1"), make_pod("pod", gates=["example.com/wait"])).settle().explain("pod")
    assert explanation.state is State.GATED
    assert [remedy.text for remedy in explanation.remedies] and "example.com/wait" in explanation.remedies[0].text


def test_terminating_pod_has_no_remedies() -> None:
    deleted = make_pod("second", cpu="500m", deletion_timestamp="2026-01-01T00:00:00Z")
    explanation = Scene(*FULL[:2], deleted).settle().explain("second")
    assert explanation.state is State.TERMINATING
    assert explanation.remedies == () and explanation.waiting is None


def test_cluster_without_nodes_is_explained() -> None:
    explanation = Scene(make_pod("pod")).settle().explain("pod")
    assert (explanation.assessment.nodes, explanation.assessment.feasible, explanation.remedies) == (0, 0, ())
    assert (
        explanation.last_decision is not None
        and explanation.last_decision.message == "no nodes available to schedule pods"
    )


def test_bound_pod_on_an_infeasible_node_is_noted_to_stay() -> None:
    tainted = make_node("n1", taints=["gone=bad:NoSchedule"])
    explanation = Scene(tainted, make_pod("pod", node_name="n1")).settle().explain("pod")
    assert explanation.state is State.BOUND
    assert explanation.assessment.feasible == 0
    assert explanation.remedies == () and explanation.preemption is None
    assert explanation.notes == ("it stays on its node: a bound pod is not scheduled again",)


def test_explanation_notes_that_the_scheduler_is_not_synced() -> None:
    scene = Scene(*FULL)
    scene.engine.apply_messages()
    scene.engine.synced = False
    assert scene.explain("second").notes == ("the scheduler has not synced with the cluster yet",)


def test_remaining_victims_are_an_ongoing_preemption() -> None:
    low, high = make_pod("low", cpu=1, node_name="n1", priority=1), make_pod("high", cpu=1, priority=10)
    beside = make_pod("beside", cpu=None, node_name="n1", priority=1000)
    scene = Scene(make_node("n1", cpu=1), low, beside, high).settle()
    assert scene.evictions
    preemption = scene.explain("high").preemption
    assert preemption is not None and preemption.in_progress
    assert (preemption.node, preemption.victims) == ("n1", ("default/low",))
    scene.engine.offer(Deleted(low))
    scene.engine.apply_messages()
    assert scene.explain("high").preemption is None


@pytest.mark.parametrize("name", ["first", "second"])
def test_explanation_round_trips_through_json(name: str) -> None:
    explanation = Scene(*FULL).settle().explain(name)
    assert msgspec.json.decode(msgspec.json.encode(explanation), type=Explanation) == explanation


def test_explanation_restarts_if_the_cluster_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative, "SLICE", 0.0)
    scene = Scene(*FULL, *(make_node(f"old-{n}", cpu=None) for n in range(5))).settle()
    pod = scene.engine.handlers.pending[FULL[2].metadata.uid]
    work = explain_steps(scene.engine, scene.history, pod)
    explanation: Explanation | None = None
    turns = 0
    while explanation is None:
        try:
            next(work)
        except StopIteration as end:
            explanation = end.value
        assert not scene.engine.cluster.statements
        turns += 1
        if turns % 4 == 0 and turns <= 20:
            scene.engine.offer(Deleted(make_node(f"old-{turns // 4 - 1}", cpu=None)))
            scene.engine.offer(Upserted(make_node(f"new-{turns}", cpu=None)))
            scene.engine.apply_messages()
    assert turns > 40
    assert explanation.assessment.nodes == 6
    assert set(explanation.assessment.rejections[0].examples) == {"n1", "new-4", "new-8", "new-12", "new-16"}
    assert explanation.assessment.feasible == 0


def test_random_draws_of_gates_are_undone_after_an_explanation() -> None:
    def gate(pod: PendingPod) -> Status:
        held(drawing).random.random()
        return unschedulable("closed")

    drawing = plugin("Drawing", pre_enqueue=gate)
    stage = Stage(drawing, objects=[make_node("a"), make_pod()], verifying=False)
    stage.engine.apply_messages()
    (pod,) = stage.engine.handlers.pending.values()
    before = held(drawing).random.getstate()
    explanation = explain(stage.engine, History(), pod)
    assert explanation.waiting is not None and explanation.waiting.why == "closed"
    assert held(drawing).random.getstate() == before
