"""How a pod comes back: rests after errors, events for rejections, and what happened while it was in flight."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kframework import ActionType, ClusterEvent, Code, CycleState, PendingPod, Status, Wait, error, unschedulable
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Pod
from kframework.testing import make_node, make_pod
from kframework.testing.scenario import ScenarioResult, create, delete, patch
from tests.extension_points.scripted import held, plugin, run, scenario

NODE_ADD = ClusterEvent("Node", ActionType.ADD)


def times(result: ScenarioResult, pod: str = "pod") -> list[float]:
    """List the seconds at which the pod was tried."""
    return [decision.popped_at - 1767225600.0 for decision in result.decisions_on(pod)]


def test_errors_are_retried_after_doubling_backoff_of_up_to_ten_seconds() -> None:
    result = run(plugin("A", filter=error("broken")), until=60.0)
    assert times(result) == [0, 2, 5, 10, 19, 30, 41, 52]


def test_pod_with_an_error_is_requeued_by_backoff_only() -> None:
    failing = plugin("A", filter=error("broken"), events=None)
    result = scenario(failing).at(0.5, create(make_node("b"))).run(until=3.0)
    assert times(result) == [0, 2]


def test_requeued_pod_skips_its_backoff_if_no_pod_is_active() -> None:
    rejecting = plugin("A", filter=unschedulable("no"), events=[NODE_ADD])
    timeline = scenario(rejecting)
    for second in range(1, 6):
        timeline.at(second / 10, create(make_node(f"n{second}")))
    assert times(timeline.run()) == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5])


def test_rejection_resets_the_count_of_consecutive_errors() -> None:
    """Two errors, a rejection, an error: the last rests no longer than the first."""
    answers = [error("1"), error("2"), unschedulable("3"), error("4")]
    tries: list[float] = []

    def answer(state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        tries.append(held(failing).clock.now() - 1767225600.0)
        return answers.pop(0) if answers else None

    failing = plugin("A", reserve=answer, events=[NODE_ADD])
    scenario(failing).at(20.0, create(make_node("b"))).run()
    assert tries == [0, 2, 5, 20, 22]


def test_flush_requeues_pods_that_waited_five_minutes() -> None:
    result = run(plugin("A", filter=unschedulable("no")), until=1000.0)
    assert times(result) == [0, 330, 660, 990]


@pytest.mark.parametrize("at", [2.0, 5.2], ids=["in flight", "later"])
@pytest.mark.parametrize("events", [[NODE_ADD], []])
def test_events_in_flight_count_like_later_events(at: float, events: list[ClusterEvent]) -> None:
    """The pod is rejected after a wait of five seconds."""
    result = scenario(plugin("A", permit=Wait(5), events=events)).at(at, create(make_node("b"))).run(until=5.5)
    assert len(result.decisions) == 1 + len(events)


def test_events_before_the_pop_do_not_count() -> None:
    rejecting = plugin("A", filter=unschedulable("no"), events=[NODE_ADD])
    result = scenario(rejecting, pods=[]).at(1.0, create(make_node("b"))).at(2.0, create(make_pod())).run()
    assert times(result) == [2.0]


def test_event_for_a_pending_plugin_skips_the_backoff() -> None:
    pending = plugin("A", filter=Status(Code.PENDING, ("soon",)), events=[NODE_ADD])
    result = scenario(pending).at(0.25, create(make_node("b"))).run(until=0.5)
    assert times(result) == [0, 0.25]
    assert result.queued("pod").pending_plugins == {"A"}


def test_pod_changed_while_waiting_is_scheduled_in_its_new_version() -> None:
    """Its own change does not wake it, as in kube-scheduler: it was assumed at that time."""

    def permit(state: CycleState, pod: PendingPod, node_name: str) -> Wait | None:
        return None if pod.labels.get("good") else Wait(5)

    events = [NODE_ADD, ClusterEvent("Pod", ActionType.UPDATE_POD_LABEL)]
    timeline = scenario(plugin("A", permit=permit, events=events))
    timeline.at(2.0, patch(make_pod(), {"metadata": {"labels": {"good": "yes"}}})).at(7.0, create(make_node("b")))
    result = timeline.run()
    assert times(result) == [0, 7]
    assert result.state_of("pod") == "bound"


def test_deleted_unschedulable_pod_is_removed() -> None:
    result = scenario(plugin("A", filter=unschedulable("no"))).at(1.0, delete(make_pod())).run()
    assert result.waiting == {}


def test_unschedulable_pod_bound_by_another_scheduler_is_removed() -> None:
    def bind(cluster: MemoryCluster) -> None:
        cluster.assign("default", "pod", cluster.read(Pod, "pod", "default").metadata.uid, "a")

    refusing = plugin("A", filter=unschedulable("no"))
    result = scenario(refusing).at(1.0, bind).run()
    assert result.waiting == {}
    assert [pod.name for pod in held(refusing).pods.values()] == ["pod"]


def test_pod_with_a_reused_name_is_another_pod() -> None:
    rejecting = plugin("A", filter=lambda state, pod, node: None if pod.labels else unschedulable("no"))
    timeline = scenario(rejecting).at(1.0, delete(make_pod()))
    new = make_pod(labels={"new": "yes"})
    timeline.at(2.0, create(replace(new, metadata=replace(new.metadata, uid="another"))))
    result = timeline.run()
    assert times(result) == [0, 2]
    assert result.pod("pod").metadata.uid == "another"
    assert result.state_of("pod") == "bound"


@pytest.mark.parametrize(("priority", "woken"), [(0, True), (5, True), (6, False)])
def test_removed_nomination_requeues_pods_that_it_kept_out(priority: int, woken: bool) -> None:
    gone = ClusterEvent("Pod", ActionType.DELETE)
    gate = plugin("Gate", pre_enqueue=lambda pod: unschedulable() if pod.name == "nominated" else None)
    rejecting = plugin("A", filter=unschedulable("no"), events=[gone])
    pods = [make_pod("nominated", priority=5, nominated_node_name="a"), make_pod(priority=priority)]
    result = scenario(gate, rejecting, pods=pods).at(2.0, delete(make_pod("nominated"))).run()
    assert times(result) == ([0, 2] if woken else [0])


def test_node_heartbeats_requeue_no_pod() -> None:
    rejecting = plugin("A", filter=unschedulable("no"), events=[ClusterEvent("Node", ActionType.ALL)])
    beat = {
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:09Z"}]}
    }
    first = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    timeline = scenario(rejecting).at(0.0, patch(make_node("a"), first)).at(5.0, patch(make_node("a"), beat))
    assert times(timeline.run()) == [0]
