"""Events, hints and PreEnqueue are timed if metrics need it, and do the same as untimed ones."""

from __future__ import annotations

from kframework.framework.events import ActionType, EventResource, ObservedEvent
from kframework.objects import Node, Pod
from kframework.testing import make_node, make_pod
from tests.observe.metrics.rig import Rig, ran

LATER = "2026-01-01T00:01:00Z"
HANDLING = "scheduler_event_handling_duration_seconds"
HINTS = "scheduler_queueing_hint_execution_duration_seconds"
POINTS = "scheduler_framework_extension_point_duration_seconds"


def gated(rig: Rig) -> dict[str, float]:
    return {status: count for (point, _, status), count in rig.count_of(POINTS).items() if point == "PreEnqueue"}


def test_events_are_timed_under_their_labels() -> None:
    async def then(rig: Rig) -> None:
        await rig.cluster.create(make_node("b"))
        await rig.settle()
        await rig.cluster.delete(Pod, "big", "default")
        await rig.settle()

    rig = ran(make_node("a"), make_pod("small"), make_pod("big", cpu=99), then=then)
    counts = rig.count_of(HANDLING)
    assert counts["NodeAdd",] == 2
    assert counts["UnscheduledPodAdd",] == 2
    assert counts["AssignedPodAdd",] == 1
    assert counts["TargetPodUpdate",] >= 1  # its condition
    assert counts["UnscheduledPodDelete",] == 2  # one was bound, one deleted
    assert all(took > 0 for took in rig.sum_of(HANDLING).values())


def test_updates_of_pods_are_counted_under_the_labels_of_kube_scheduler() -> None:
    """In eventhandlers.go an update of an assigned pod is observed once as such, and once for each of its events."""

    async def then(rig: Rig) -> None:
        before = rig.count_of(HANDLING)

        async def change(name: str, patch: dict[str, object]) -> dict[str, float]:
            nonlocal before
            await rig.cluster.patch(Pod, name, patch, "default")
            await rig.settle()
            after, earlier = rig.count_of(HANDLING), before
            before = after
            return {label: count - earlier.get((label,), 0) for (label,), count in after.items()
                    if count != earlier.get((label,), 0)}  # fmt: skip

        labelled: dict[str, object] = {"metadata": {"labels": {"a": "b"}}}
        annotated: dict[str, object] = {"metadata": {"annotations": {"a": "b"}}}
        assert await change("small", labelled) == {"AssignedPodUpdate": 1, "AssignedPodUpdatePodLabel": 1}
        assert await change("small", annotated) == {"AssignedPodUpdate": 2}
        assert await change("big", labelled) == {"TargetPodUpdate": 1, "TargetPodUpdatePodLabel": 1}
        assert await change("big", annotated) == {"TargetPodUpdate": 1}

    ran(make_node("a"), make_pod("small"), make_pod("big", cpu=99, gates=["later"]), then=then)


def test_events_that_follow_from_a_change_of_a_pod_are_not_counted() -> None:
    async def then(rig: Rig) -> None:
        before = rig.count_of(HANDLING)
        await rig.cluster.delete(Pod, "nominated", "default")
        await rig.settle()
        after = rig.count_of(HANDLING)
        assert {labels for labels in after if after[labels] != before.get(labels, 0)} == {("UnscheduledPodDelete",)}

    pod = make_pod("nominated", cpu=99, nominated_node_name="a")
    ran(make_node("a"), pod, make_pod("big", cpu=99), then=then)


def test_short_cuts_of_a_cluster_in_memory_are_counted_too() -> None:
    async def then(rig: Rig) -> None:
        handlers = rig.scheduler.engine.handlers
        (pod,) = rig.cluster.objects(Pod)
        handlers.delete(pod)
        handlers.confirm_binding(pod, "1")
        handlers.update_status(pod)
        counts = rig.count_of(HANDLING)
        assert {label: counts[label,] for label in ("AssignedPodAdd", "AssignedPodDelete", "AssignedPodUpdate")} == {
            "AssignedPodAdd": 2,
            "AssignedPodDelete": 1,
            "AssignedPodUpdate": 2,
        }

    ran(make_node("a"), make_pod("small"), then=then)


def test_update_without_a_change_is_no_event() -> None:
    async def then(rig: Rig) -> None:
        before = rig.count_of(HANDLING)
        await rig.cluster.patch(Node, "a", {"status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": LATER}]}})
        await rig.settle()
        assert rig.count_of(HANDLING) == before

    ran(make_node("a"), then=then)


def test_hints_are_timed_by_plugin_event_and_result() -> None:
    async def then(rig: Rig) -> None:
        await rig.cluster.create(make_node("small", cpu=1))
        await rig.settle()
        await rig.cluster.create(make_node("large", cpu=200))
        await rig.settle()

    rig = ran(make_node("a"), make_pod("big", cpu=99), then=then)
    counts = rig.count_of(HINTS)
    assert counts["NodeAdd", "QueueSkip", "NodeResourcesFit"] == 1
    assert counts["NodeAdd", "Queue", "NodeResourcesFit"] == 1
    assert [binding.node for binding in rig.bindings] == ["large"]


def test_pre_enqueue_is_timed_for_admitted_and_gated_pods() -> None:
    rig = ran(make_node("a"), make_pod("free"), make_pod("held", gates=["later"]))
    # Once all is listed it is asked again about the pod that it holds.
    assert gated(rig) == {"Success": 1, "UnschedulableAndUnresolvable": 2}


def test_decisions_are_equal_with_and_without_metrics() -> None:
    """What is put in place of an engine's own parts must know of the pods that wait."""

    async def then(rig: Rig) -> None:
        engine = rig.scheduler.engine
        assert [pod.name for pod in engine.handlers.pending.values()] == ["big"]
        assert engine.queue.count_by_queue()["unschedulable"] == 1

    rig = ran(make_node("a"), make_pod("small"), make_pod("big", cpu=99), then=then)
    assert [decision.result for decision in rig.decisions] == ["scheduled", "unschedulable"]


def test_failed_binding_is_not_timed_with_the_next_event() -> None:
    async def then(rig: Rig) -> None:
        before = rig.count_of(HANDLING)
        rig.scheduler.engine.handlers.on_event(ObservedEvent(EventResource.ASSIGNED_POD, ActionType.DELETE, None, None))
        await rig.cluster.create(make_node("b"))
        await rig.settle()
        after = rig.count_of(HANDLING)
        assert {labels for labels in after if after[labels] != before.get(labels, 0)} == {("NodeAdd",)}

    ran(make_node("a"), then=then)
