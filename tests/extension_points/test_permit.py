"""Permit: the last word before binding, or a wait for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kframework import (
    ActionType,
    ClusterEvent,
    Code,
    CycleState,
    PendingPod,
    Plugin,
    Skip,
    Status,
    Wait,
    error,
    unresolvable,
    unschedulable,
)
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.simulation.running import Action
from kframework.testing import make_node, make_pod
from kframework.testing.scenario import ScenarioResult, create, delete, patch
from tests.extension_points.scripted import held, plugin, run, scenario

NODE_ADD = ClusterEvent("Node", ActionType.ADD)


def decide(waiting: type[Plugin], verdict: Callable[..., bool], *expected: bool) -> Action:
    """Pass a verdict on the pod that waits, as the plugin would; check whether it was the first."""

    def act(cluster: MemoryCluster) -> None:
        (pod,) = held(waiting).waiting_pods()
        for first in expected:
            assert verdict(pod) is first

    return act


@pytest.mark.parametrize("answer", [None, Status(Code.SUCCESS)])
def test_pod_is_bound_if_permit_succeeds(answer: object) -> None:
    result = run(plugin("A", permit=answer))
    assert result.state_of("pod") == "bound"
    assert result.bindings[0].waited == 0.0
    assert result.pod("pod").status.nominated_node_name == ""


@pytest.mark.parametrize(
    ("answer", "place", "reason", "message", "rejectors", "pending"),
    [
        (
            unschedulable("not now"),
            "unschedulable",
            "Unschedulable",
            "0/1 nodes are available: 1 not now.",
            {"B"},
            set(),
        ),
        (unresolvable("never"), "unschedulable", "Unschedulable", "0/1 nodes are available: 1 never.", {"B"}, set()),
        (
            Status(Code.PENDING, ("soon",)),
            "unschedulable",
            "Unschedulable",
            "0/1 nodes are available: 1 soon.",
            {"B"},
            {"B"},
        ),
        (error("broken"), "backoff", "SchedulerError", 'running Permit plugin "B": broken', set(), set()),
        (Skip, "backoff", "SchedulerError", 'running Permit plugin "B": Skip', set(), set()),
        (
            ValueError("broken"),
            "backoff",
            "SchedulerError",
            "plugin 'B', hook permit: ValueError: broken",
            set(),
            set(),
        ),
        (
            "no",
            "backoff",
            "SchedulerError",
            "plugin 'B', hook permit: answered 'no', which is not a Status",
            set(),
            set(),
        ),
    ],
)
@pytest.mark.parametrize("earlier", [None, Wait(10)])
def test_permit_rejection_undoes_the_reservation_and_drops_waits(
    answer: object, place: str, reason: str, message: str, rejectors: set[str], pending: set[str], earlier: object
) -> None:
    journal: list[str] = []
    plugins = [
        plugin("A", permit=earlier, reserve=None, unreserve=None, journal=journal),
        plugin("B", permit=answer, reserve=None, unreserve=None, journal=journal),
        plugin("C", permit=None, journal=journal),
    ]
    result = run(*plugins, pods=[make_pod(nominated_node_name="a")])
    assert journal == ["A.reserve", "B.reserve", "A.permit", "B.permit", "B.unreserve", "A.unreserve"]
    condition = result.condition_of("pod")
    assert condition is not None
    assert (condition.reason, condition.message) == (reason, message)
    assert result.events_on("pod") == [("FailedScheduling", message)]
    assert result.state_of("pod") == place
    assert result.queued("pod").rejectors == rejectors
    assert result.queued("pod").pending_plugins == pending
    assert result.pod("pod").status.nominated_node_name == ""
    assert list(held(plugins[0]).pods) == []
    assert list(held(plugins[0]).waiting_pods()) == []


def test_other_pods_are_scheduled_while_a_pod_waits_in_permit() -> None:
    waiting = plugin("A", permit=lambda state, pod, name: Wait(10) if pod.name == "pod" else None)
    seen: list[tuple[str, str, tuple[str, ...]]] = []

    def look(cluster: MemoryCluster) -> None:
        pods = held(waiting).waiting_pods()
        seen.extend((pod.pod.name, pod.node_name, tuple(pod.pending_plugins)) for pod in pods)

    timeline = scenario(waiting, pods=("pod", "other")).at(1.0, look)
    result = timeline.run(until=2.0)
    assert seen == [("pod", "a", ("A",))]
    assert result.state_of("other") == "bound"
    assert result.state_of("pod") == "neither", "it is in flight"
    assert result.pod("pod").status.nominated_node_name == "a", "the node is announced"
    assert len(held(waiting).pods) == 2, "it keeps its place"


def test_waiting_pod_is_bound_when_allowed() -> None:
    waiting = plugin("A", permit=Wait(10))
    result = scenario(waiting).at(4.0, decide(waiting, lambda pod: pod.allow("A"), True, False)).run()
    assert result.state_of("pod") == "bound"
    assert result.bindings[0].waited == 4.0
    assert result.events_on("pod") == [("Scheduled", "Successfully assigned default/pod to a")]
    assert result.pod("pod").status.nominated_node_name == "", "the API server takes the announcement back"


def test_pod_is_bound_when_all_permit_plugins_allow() -> None:
    first, second = plugin("A", permit=Wait(10)), plugin("B", permit=Wait(20))
    timeline = scenario(first, second)
    timeline.at(2.0, decide(first, lambda pod: pod.allow("B"), True))
    timeline.at(5.0, decide(first, lambda pod: pod.allow("A"), True))
    result = timeline.run()
    assert result.bindings[0].waited == 5.0


def test_allow_of_a_plugin_that_does_not_wait_is_ignored() -> None:
    waiting = plugin("A", permit=Wait(10))
    result = scenario(waiting).at(2.0, decide(waiting, lambda pod: pod.allow("B"), True)).run(until=3.0)
    assert result.state_of("pod") == "neither"


def test_verdict_given_in_a_hook_takes_effect_at_once() -> None:
    """A gang of two: the second member lets the first go."""

    def permit(state: CycleState, pod: PendingPod, node_name: str) -> Wait | None:
        waiting = list(held(gang).waiting_pods())
        if not waiting:
            return Wait(10)
        assert [each.allow("Gang") for each in waiting] == [True]
        return None

    gang = plugin("Gang", permit=permit)
    result = run(gang, pods=("one", "two"))
    assert (result.state_of("one"), result.state_of("two")) == ("bound", "bound")
    assert result.seconds < 1.0


def rejected(timeline_result: ScenarioResult, message: str, rejectors: set[str]) -> None:
    condition = timeline_result.condition_of("pod")
    assert condition is not None
    assert (condition.reason, condition.message) == ("Unschedulable", message)
    assert timeline_result.events_on("pod") == [("FailedScheduling", message)]
    assert timeline_result.queued("pod").rejectors == rejectors
    assert timeline_result.state_of("pod") == "unschedulable"
    assert timeline_result.pod("pod").status.nominated_node_name == ""


def test_rejected_waiting_pod_is_requeued_and_undone() -> None:
    journal: list[str] = []
    waiting = plugin("A", permit=Wait(10), reserve=None, unreserve=None, journal=journal)
    other = plugin("B", reserve=None, unreserve=None, journal=journal)
    timeline = scenario(waiting, other)
    timeline.at(4.0, decide(waiting, lambda pod: pod.reject("A", "not wanted"), True, False))
    result = timeline.run()
    rejected(result, "0/1 nodes are available: 1 not wanted.", {"A"})
    assert journal == ["A.reserve", "B.reserve", "A.permit", "B.unreserve", "A.unreserve"]
    assert list(held(waiting).pods) == []
    assert result.bindings[0].code == Code.UNSCHEDULABLE


@pytest.mark.parametrize(
    ("timeouts", "seconds", "message"),
    [
        ([10], 10.0, "rejected due to timeout after waiting 10s at plugin P0"),
        ([0.25], 0.25, "rejected due to timeout after waiting 250ms at plugin P0"),
        ([20, 5], 5.0, "rejected due to timeout after waiting 5s at plugin P1"),
        ([90], 90.0, "rejected due to timeout after waiting 1m30s at plugin P0"),
        ([86400], 900.0, "rejected due to timeout after waiting 15m0s at plugin P0"),
    ],
)
def test_earliest_permit_timeout_rejects_the_pod(timeouts: list[float], seconds: float, message: str) -> None:
    plugins = [plugin(f"P{number}", permit=Wait(timeout)) for number, timeout in enumerate(timeouts)]
    result = scenario(*plugins).run(until=1000.0 if seconds > 400 else seconds + 0.5)
    assert result.bindings[0].waited == seconds
    first = result.events_on("pod")[0]
    assert first == ("FailedScheduling", f"0/1 nodes are available: 1 {message}.")
    if seconds < 300:
        rejected(result, first[1], {f"P{timeouts.index(min(timeouts))}"})


@pytest.mark.parametrize("events", [[NODE_ADD], []])
def test_events_during_the_permit_wait_requeue_the_rejected_pod(events: list[ClusterEvent]) -> None:
    waiting = plugin("A", permit=Wait(10), events=events)
    result = scenario(waiting).at(4.0, create(make_node("b"))).run(until=10.5)
    assert len(result.decisions) == 1 + len(events)


def test_pod_deleted_while_waiting_is_unreserved() -> None:
    journal: list[str] = []
    waiting = plugin("A", permit=Wait(10), unreserve=None, journal=journal)
    result = scenario(waiting).at(4.0, delete(make_pod())).run()
    assert result.bindings[0].waited == 4.0
    assert result.bindings[0].message == "0/1 nodes are available: 1 removed."
    assert journal == ["A.permit", "A.unreserve"]
    assert list(held(waiting).pods) == []
    assert result.waiting == {}


def test_room_of_a_pod_deleted_while_waiting_is_free_at_once() -> None:
    """Its deletion is an event on which the other pod was waiting."""
    waiting = plugin("A", permit=lambda state, pod, name: Wait(100) if pod.name == "pod" else None)
    gone = ClusterEvent("Pod", ActionType.DELETE)
    lonely = plugin(
        "L", filter=lambda state, pod, node: unschedulable("taken") if len(node.pods) else None, events=[gone]
    )
    result = scenario(waiting, lonely, pods=("pod", "other")).at(4.0, delete(make_pod())).run()
    assert result.node_of("other") == "a"
    assert result.seconds == 4.0


def test_pod_update_does_not_end_the_permit_wait() -> None:
    waiting = plugin("A", permit=Wait(10))
    timeline = scenario(waiting).at(4.0, patch(make_pod(), {"metadata": {"labels": {"x": "y"}}}))
    timeline.at(5.0, decide(waiting, lambda pod: pod.allow("A"), True))
    assert timeline.run().bindings[0].waited == 5.0


def test_late_nominated_node_name_is_cleared_after_a_rejection() -> None:
    """The rejection comes while the write of the announced node is still under way."""

    def slow(cluster: MemoryCluster) -> None:
        cluster.faults.append(lambda method, *_: Fault(delay=3.0) if method == "patch_pod_status" else None)

    waiting = plugin("A", permit=Wait(1))
    result = scenario(waiting).at(0.0, slow).run(until=20.0)
    assert result.pod("pod").status.nominated_node_name == ""
