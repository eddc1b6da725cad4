"""Reserve and Unreserve: books beside the scheduler's own, undone in reverse order by all."""

from __future__ import annotations

import pytest

from kframework import (
    ActionType,
    ClusterEvent,
    Code,
    CycleState,
    PendingPod,
    Skip,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from kframework.testing import make_node, make_pod
from kframework.testing.scenario import ScenarioResult, create
from tests.extension_points.scripted import held, plugin, run, scenario

NODE_ADD = ClusterEvent("Node", ActionType.ADD)


def test_reserve_runs_in_order_without_unreserve_on_success() -> None:
    journal: list[str] = []
    plugins = [plugin(name, reserve=None, unreserve=None, journal=journal) for name in "ABC"]
    assert run(*plugins).state_of("pod") == "bound"
    assert journal == ["A.reserve", "B.reserve", "C.reserve"]


@pytest.mark.parametrize(
    ("answer", "place", "reason", "message", "rejectors", "pending"),
    [
        (unschedulable("taken"), "unschedulable", "Unschedulable", "0/1 nodes are available: 1 taken.", {"B"}, set()),
        (unresolvable("taken"), "unschedulable", "Unschedulable", "0/1 nodes are available: 1 taken.", {"B"}, set()),
        (unschedulable("x", "y"), "unschedulable", "Unschedulable", "0/1 nodes are available: 1 x, 1 y.", {"B"}, set()),
        (
            Status(Code.PENDING, ("soon",)),
            "unschedulable",
            "Unschedulable",
            "0/1 nodes are available: 1 soon.",
            {"B"},
            {"B"},
        ),
        (error("broken"), "backoff", "SchedulerError", 'running Reserve plugin "B": broken', set(), set()),
        (Skip, "backoff", "SchedulerError", 'running Reserve plugin "B": Skip', set(), set()),
        (
            ValueError("broken"),
            "backoff",
            "SchedulerError",
            "plugin 'B', hook reserve: ValueError: broken",
            set(),
            set(),
        ),
        (7, "backoff", "SchedulerError", "plugin 'B', hook reserve: answered 7, which is not a Status", set(), set()),
    ],
)
def test_failing_reserve_unreserves_all_plugins(
    answer: object, place: str, reason: str, message: str, rejectors: set[str], pending: set[str]
) -> None:
    journal: list[str] = []
    plugins = [
        plugin("A", reserve=None, unreserve=None, journal=journal),
        plugin("B", reserve=answer, unreserve=None, journal=journal),
        plugin("C", reserve=None, unreserve=None, permit=None, journal=journal),
        plugin("D", unreserve=None, journal=journal),
    ]
    result = run(*plugins, nodes=("a", "b"), pods=[make_pod(nominated_node_name="b")])
    assert journal == ["A.reserve", "B.reserve", "D.unreserve", "C.unreserve", "B.unreserve", "A.unreserve"]
    condition = result.condition_of("pod")
    assert condition is not None
    assert (condition.status, condition.reason, condition.message) == ("False", reason, message)
    assert result.events_on("pod") == [("FailedScheduling", message)]
    assert result.state_of("pod") == place
    assert result.queued("pod").rejectors == rejectors
    assert result.queued("pod").pending_plugins == pending
    assert result.pod("pod").status.nominated_node_name == "", "the nomination is taken back"
    assert list(held(plugins[0]).pods) == [], "the pod has been forgotten"
    assert result.decisions[0].node == ""


def test_failing_unreserve_does_not_stop_the_others() -> None:
    journal: list[str] = []
    plugins = [
        plugin("A", unreserve=None, journal=journal),
        plugin("B", unreserve=ValueError("broken"), journal=journal),
        plugin("C", reserve=unschedulable("no"), journal=journal),
    ]
    result = run(*plugins)
    assert journal == ["C.reserve", "B.unreserve", "A.unreserve"]
    assert result.message_of("pod") == "0/1 nodes are available: 1 no."


def refuse_first(state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
    return unschedulable("no") if pod.name == "first" else None


def test_pod_rejected_by_reserve_keeps_no_room() -> None:
    crowded = plugin("Crowded", filter=lambda state, pod, node: unschedulable("full") if len(node.pods) else None)
    result = run(crowded, plugin("R", reserve=refuse_first), pods=("first", "second"))
    assert (result.state_of("first"), result.state_of("second")) == ("unschedulable", "bound")


def test_reserve_rejection_emits_no_event() -> None:
    """Unlike a failed binding: a pod that waits for pods to go is not woken."""
    gone = ClusterEvent("Pod", ActionType.DELETE)
    waiting = plugin(
        "W", filter=lambda state, pod, node: unschedulable("no") if pod.name == "second" else None, events=[gone]
    )
    second = make_pod("second", priority=9)
    result = run(waiting, plugin("R", reserve=refuse_first), pods=[second, make_pod("first")])
    assert len(result.decisions_on("second")) == 1


@pytest.mark.parametrize("events", [[NODE_ADD], []])
def test_event_of_the_reserve_plugin_requeues_the_pod(events: list[ClusterEvent]) -> None:
    result: ScenarioResult = (
        scenario(plugin("R", reserve=unschedulable("no"), events=events)).at(9.0, create(make_node("b"))).run()
    )
    assert len(result.decisions) == 1 + len(events)
