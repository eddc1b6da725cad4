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


def test_errors_are_retried_after_rests_that_double_up_to_ten_seconds() -> None:
    result = run(plugin("A", filter=error("broken")), until=60.0)
    assert times(result) == [0, 2, 5, 10, 19, 30, 41, 52]


def test_an_error_waits_for_no_event_and_is_hurried_by_none() -> None:
    failing = plugin("A", filter=error("broken"), events=None)
    result = scenario(failing).at(0.5, create(make_node("b"))).run(until=3.0)
    assert times(result) == [0, 2]


def test_a_rejected_pod_that_is_woken_need_not_rest_when_nothing_else_is_to_do() -> None:
    rejecting = plugin("A", filter=unschedulable("no"), events=[NODE_ADD])
    timeline = scenario(rejecting)
    for second in range(1, 6):
        timeline.at(second / 10, create(make_node(f"n{second}")))
    assert times(timeline.run()) == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5])


def test_a_rejection_ends_a_row_of_errors() -> None:
    """Two errors, a rejection, an error: the last rests no longer than the first."""
    answers = [error("1"), error("2"), unschedulable("3"), error("4")]
    tries: list[float] = []

    def answer(state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        tries.append(held(failing).clock.now() - 1767225600.0)
        return answers.pop(0) if answers else None

    failing = plugin("A", reserve=answer, events=[NODE_ADD])
    scenario(failing).at(20.0, create(make_node("b"))).run()
    assert tries == [0, 2, 5, 20, 22]


def test_the_flush_retries_what_has_waited_for_five_minutes() -> None:
    result = run(plugin("A", filter=unschedulable("no")), until=1000.0)
    assert times(result) == [0, 330, 660, 990]


@pytest.mark.parametrize("at", [2.0, 5.2], ids=["in flight", "later"])
@pytest.mark.parametrize("events", [[NODE_ADD], []])
def test_what_happens_in_flight_counts_like_what_happens_later(at: float, events: list[ClusterEvent]) -> None:
    """The pod is rejected after a wait of five seconds."""
    result = scenario(plugin("A", permit=Wait(5), events=events)).at(at, create(make_node("b"))).run(until=5.5)
    assert len(result.decisions) == 1 + len(events)


def test_what_happened_before_the_pod_was_popped_does_not_count() -> None:
    rejecting = plugin("A", filter=unschedulable("no"), events=[NODE_ADD])
    result = scenario(rejecting, pods=[]).at(1.0, create(make_node("b"))).at(2.0, create(make_pod())).run()
    assert times(result) == [2.0]


def test_an_event_that_frees_a_pending_pod_skips_the_rest() -> None:
    pending = plugin("A", filter=Status(Code.PENDING, ("soon",)), events=[NODE_ADD])
    result = scenario(pending).at(0.25, create(make_node("b"))).run(until=0.5)
    assert times(result) == [0, 0.25]
    assert result.queued("pod").pending_plugins == {"A"}


def test_a_pod_that_changes_while_it_waits_is_tried_as_it_is_then() -> None:
    """Its own change does not wake it, as in kube-scheduler: it was assumed at that time."""

    def permit(state: CycleState, pod: PendingPod, node_name: str) -> Wait | None:
        return None if pod.labels.get("good") else Wait(5)

    events = [NODE_ADD, ClusterEvent("Pod", ActionType.UPDATE_POD_LABEL)]
    timeline = scenario(plugin("A", permit=permit, events=events))
    timeline.at(2.0, patch(make_pod(), {"metadata": {"labels": {"good": "yes"}}})).at(7.0, create(make_node("b")))
    result = timeline.run()
    assert times(result) == [0, 7]
    assert result.state_of("pod") == "bound"


def test_a_pod_deleted_in_the_pool_is_gone() -> None:
    result = scenario(plugin("A", filter=unschedulable("no"))).at(1.0, delete(make_pod())).run()
    assert result.waiting == {}


def test_a_pod_bound_by_somebody_else_in_the_pool_is_gone() -> None:
    def bind(cluster: MemoryCluster) -> None:
        cluster.assign("default", "pod", cluster.read(Pod, "pod", "default").metadata.uid, "a")

    refusing = plugin("A", filter=unschedulable("no"))
    result = scenario(refusing).at(1.0, bind).run()
    assert result.waiting == {}
    assert [pod.name for pod in held(refusing).pods.values()] == ["pod"]


def test_a_pod_of_the_same_name_is_another_pod() -> None:
    rejecting = plugin("A", filter=lambda state, pod, node: None if pod.labels else unschedulable("no"))
    timeline = scenario(rejecting).at(1.0, delete(make_pod()))
    new = make_pod(labels={"new": "yes"})
    timeline.at(2.0, create(replace(new, metadata=replace(new.metadata, uid="another"))))
    result = timeline.run()
    assert times(result) == [0, 2]
    assert result.pod("pod").metadata.uid == "another"
    assert result.state_of("pod") == "bound"


@pytest.mark.parametrize(("priority", "woken"), [(0, True), (5, True), (6, False)])
def test_a_nomination_that_goes_away_wakes_those_it_kept_out(priority: int, woken: bool) -> None:
    gone = ClusterEvent("Pod", ActionType.DELETE)
    gate = plugin("Gate", pre_enqueue=lambda pod: unschedulable() if pod.name == "nominated" else None)
    rejecting = plugin("A", filter=unschedulable("no"), events=[gone])
    pods = [make_pod("nominated", priority=5, nominated_node_name="a"), make_pod(priority=priority)]
    result = scenario(gate, rejecting, pods=pods).at(2.0, delete(make_pod("nominated"))).run()
    assert times(result) == ([0, 2] if woken else [0])


def test_heartbeats_wake_nobody() -> None:
    rejecting = plugin("A", filter=unschedulable("no"), events=[ClusterEvent("Node", ActionType.ALL)])
    beat = {
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:09Z"}]}
    }
    first = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    timeline = scenario(rejecting).at(0.0, patch(make_node("a"), first)).at(5.0, patch(make_node("a"), beat))
    assert times(timeline.run()) == [0]
