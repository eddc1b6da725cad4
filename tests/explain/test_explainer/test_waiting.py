"""It is said where a pod is, until when, and what would wake it."""

from __future__ import annotations

from kframework.clock import VIRTUAL_EPOCH
from kframework.explain.explainer import state_of, waiting
from kframework.explain.explanation import State, Waiting, WakeEvents
from kframework.state.inbox import Deleted, Upserted
from kframework.state.waiting import ReservedPod
from kframework.testing import make_node, make_pod
from tests.explain.scene import Scene

POD = make_pod("pod", cpu=1)
UID = POD.metadata.uid


def seen(scene: Scene) -> tuple[State, Waiting | None]:
    state = state_of(scene.engine, UID)
    return state, waiting(scene.engine, UID, state)


def test_active_pod_waits_for_its_turn() -> None:
    scene = Scene(POD, make_pod("another"))
    scene.engine.apply_messages()
    assert seen(scene) == (State.ACTIVE, Waiting(queued_at=VIRTUAL_EPOCH, active=2))


def test_unschedulable_pod_waits_for_events() -> None:
    state, found = seen(Scene(make_node("n1", cpu="500m"), POD).settle())
    assert state is State.UNSCHEDULABLE and found is not None
    assert found.held_by == ("NodeResourcesFit",)
    assert found.wakers == (
        WakeEvents(
            "NodeResourcesFit",
            {
                "Pod": ("delete", "update_pod_scale_down"),
                "Node": ("add", "update_node_allocatable"),
                "resource.k8s.io/DeviceClass": ("add", "update"),
            },
        ),
    )
    assert found.retried_at == VIRTUAL_EPOCH + 330


def test_backing_off_pod_waits_until_its_backoff_expires() -> None:
    scene = Scene(make_node("n1", cpu="500m"), POD).settle()
    scene.engine.offer(Upserted(make_node("n1", cpu=4, taints=["a=b:NoSchedule"])))
    scene.engine.apply_messages()
    state, found = seen(scene)
    assert state is State.BACKOFF and found is not None
    assert (found.until, found.held_by) == (VIRTUAL_EPOCH + 2, ("NodeResourcesFit",))


def test_gated_pod_waits_for_its_gates() -> None:
    state, found = seen(Scene(make_node("n1"), make_pod("pod", gates=["a/b"])).settle())
    assert state is State.GATED and found is not None
    assert (found.held_by, found.why) == (("SchedulingGates",), "waiting for scheduling gates: [a/b]")
    assert found.wakers == (WakeEvents("SchedulingGates", {"Pod": ("update_pod_scheduling_gates_eliminated",)}),)


def test_pod_on_permit_waits_until_the_first_timeout() -> None:
    scene = Scene(make_node("n1", cpu=4), POD).settle()
    reserved = scene.engine.cluster.waiting.get(UID)
    assert reserved is not None
    scene.engine.cluster.waiting.add(ReservedPod(reserved.pod, "n1", {"Gang": 9.0, "Quota": 8.0}, 3.0))
    expected = Waiting(queued_at=3.0, until=8.0, held_by=("Gang", "Quota"), hook="permit")
    assert seen(scene) == (State.PERMIT, expected)


def test_binding_pod_waits_for_the_plugins_whose_hooks_run() -> None:
    scene = Scene(make_node("n1", cpu=4), POD).settle()
    reserved = scene.engine.cluster.waiting.get(UID)
    assert reserved is not None
    assert seen(scene) == (State.BINDING, None)
    reserved.hook_started("pre_bind", "Quota", 5.0)
    reserved.hook_started("pre_bind", "Disks", 3.0)
    assert seen(scene) == (State.BINDING, Waiting(queued_at=3.0, held_by=("Quota", "Disks"), hook="pre_bind"))
    reserved.hook_finished("Disks")
    assert seen(scene) == (State.BINDING, Waiting(queued_at=5.0, held_by=("Quota",), hook="pre_bind"))


def test_bound_pod_waits_for_nothing() -> None:
    scene = Scene(make_node("n1", cpu=4), POD).settle()
    assert seen(scene) == (State.BINDING, None)
    scene.engine.offer(Upserted(make_pod("pod", cpu=1, node_name="n1")))
    scene.engine.apply_messages()
    assert seen(scene) == (State.BOUND, None)


def test_pod_in_flight_waits_for_nothing() -> None:
    scene = Scene(make_node("n1"), POD)
    scene.engine.apply_messages()
    assert scene.engine.queue.pop() is not None
    assert seen(scene) == (State.IN_FLIGHT, None)


def test_terminating_pod_waits_for_nothing() -> None:
    deleted = make_pod("pod", cpu=1, deletion_timestamp="2026-01-01T00:00:00Z")
    assert seen(Scene(make_node("n1"), deleted).settle()) == (State.TERMINATING, None)


def test_deleted_pod_waits_for_nothing() -> None:
    scene = Scene(make_node("n1"), POD).settle()
    scene.engine.offer(Deleted(POD))
    scene.engine.apply_messages()
    assert seen(scene) == (State.DELETED, None)


def test_all_update_actions_are_shown_as_update() -> None:
    from kframework.explain.explainer import _action_names
    from kframework.framework.events import ActionType

    assert _action_names(ActionType.ALL) == ["add", "delete", "update"]
    assert _action_names(ActionType.ADD | ActionType.UPDATE) == ["add", "update"]
    assert _action_names(ActionType.DELETE | ActionType.UPDATE_NODE_LABEL) == ["delete", "update_node_label"]
