"""Bind and PostBind: the first plugin that does not skip binds the pod; then everybody may take notice."""

from __future__ import annotations

import asyncio

import pytest

from kframework import (
    ActionType,
    ClusterError,
    ClusterEvent,
    Code,
    CycleState,
    PendingPod,
    Skip,
    Status,
    error,
    unschedulable,
)
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.objects import Node, Pod
from kframework.testing import make_node, make_pod
from kframework.testing.scenario import ScenarioResult, delete
from tests.extension_points.scripted import held, plugin, run, scenario

REFUSED = ClusterError("the pod is taken", status=403, reason="Forbidden")


def test_default_binder_binds_the_pod() -> None:
    result = run(plugin("A", post_bind=None))
    pod = result.pod("pod")
    assert pod.spec.node_name == "a"
    assert [(condition.type, condition.status) for condition in pod.status.conditions][:1] == [("PodScheduled", "True")]
    (event,) = result.events
    assert (event.reason, event.action, event.type) == ("Scheduled", "Binding", "Normal")
    assert event.note == "Successfully assigned default/pod to a"
    assert event.reporting_controller == "default-scheduler"
    assert (event.regarding.kind, event.regarding.uid) == ("Pod", pod.metadata.uid)


def test_first_bind_plugin_that_does_not_skip_decides() -> None:
    journal: list[str] = []

    async def bind(state: CycleState, pod: PendingPod, node_name: str) -> None:
        await asyncio.sleep(0.1)
        await held(binder).api.bind(pod, node_name)

    binder = plugin("B", bind=bind, journal=journal)
    first, last = plugin("A", bind=Skip, journal=journal), plugin("C", bind=None, journal=journal)
    result = run(first, binder, last)
    assert result.state_of("pod") == "bound"
    assert journal == ["A.bind", "B.bind"]


@pytest.mark.parametrize(
    ("answer", "reason", "message"),
    [
        (unschedulable("no lease"), "Unschedulable", "no lease"),
        (Status(Code.PENDING, ("no lease",)), "Unschedulable", "no lease"),
        (error("broken"), "SchedulerError", 'running Bind plugin "B": broken'),
        (Status(Code.WAIT), "SchedulerError", 'running Bind plugin "B": Wait'),
        (ValueError("broken"), "SchedulerError", "plugin 'B', hook bind: ValueError: broken"),
        (REFUSED, "SchedulerError", "plugin 'B', hook bind: ClusterError: the pod is taken"),
        (False, "SchedulerError", "plugin 'B', hook bind: answered False, which is not a Status"),
    ],
)
def test_failed_binding_undoes_the_reservation(answer: object, reason: str, message: str) -> None:
    journal: list[str] = []
    plugins = [
        plugin("A", unreserve=None, post_bind=None, journal=journal),
        plugin("B", unreserve=None, bind=answer, journal=journal),
        plugin("C", bind=None, journal=journal),
    ]
    result = run(*plugins)
    assert journal == ["B.bind", "B.unreserve", "A.unreserve"]
    condition = result.condition_of("pod")
    assert condition is not None
    assert (condition.reason, condition.message) == (reason, message)
    assert result.events_on("pod") == [("FailedScheduling", message)]
    assert result.state_of("pod") == "backoff"
    assert result.queued("pod").rejectors == frozenset()
    assert list(held(plugins[0]).pods) == []


def test_pod_is_retried_without_event_if_all_bind_plugins_skip() -> None:
    journal: list[str] = []
    skipping = plugin("A", bind=Skip, unreserve=None, journal=journal)
    result = run(skipping)
    assert journal == ["A.bind", "A.unreserve"]
    assert result.state_of("pod") == "backoff"
    assert result.queued("pod").consecutive_errors == 1
    assert result.condition_of("pod") is None
    assert result.events == []


def refused_once(cluster: MemoryCluster) -> None:
    refusals = iter([Fault(error=REFUSED)])
    cluster.faults.append(lambda method, *_: next(refusals, None) if method == "bind" else None)


def test_binding_rejected_by_the_api_is_retried_after_backoff() -> None:
    result = scenario().at(0.0, refused_once).run()
    assert result.state_of("pod") == "bound"
    assert result.decisions[1].popped_at - result.decisions[0].popped_at == 2.0
    assert result.events_on("pod")[0] == ("FailedScheduling", 'running Bind plugin "DefaultBinder": the pod is taken')


def test_room_of_a_failed_binding_is_free_at_once() -> None:
    gone = ClusterEvent("Pod", ActionType.DELETE)
    lonely = plugin(
        "L", filter=lambda state, pod, node: unschedulable("taken") if len(node.pods) else None, events=[gone]
    )

    def slow_refusal(cluster: MemoryCluster) -> None:
        faults = iter([Fault(error=REFUSED, delay=5.0)])
        cluster.faults.append(lambda method, *_: next(faults, None) if method == "bind" else None)

    result = scenario(lonely, pods=("first", "second")).at(0.0, slow_refusal).run(until=5.5)
    assert result.node_of("second") == "a"
    assert result.state_of("first") == "backoff"


def failing_at(seconds: float, status: Status, events: list[ClusterEvent]) -> ScenarioResult:
    """Let the binding fail so late that the other pod is in the pool already."""

    async def pre_bind(state: CycleState, pod: PendingPod, node_name: str) -> Status:
        await asyncio.sleep(seconds)
        return status

    failing = plugin("F", pre_bind=pre_bind)
    lonely = plugin(
        "L", filter=lambda state, pod, node: unschedulable("taken") if len(node.pods) else None, events=events
    )
    return scenario(failing, lonely, pods=("first", "second")).run(until=seconds + 0.5)


@pytest.mark.parametrize("status", [unschedulable("no"), error("no")])
def test_failed_binding_requeues_pods_that_wait_for_room(status: Status) -> None:
    woken = failing_at(5.0, status, [ClusterEvent("Pod", ActionType.DELETE)])
    assert len(woken.decisions_on("second")) == 2
    left = failing_at(5.0, status, [ClusterEvent("Pod", ActionType.ADD)])
    assert len(left.decisions_on("second")) == 1


def test_pod_bound_by_another_scheduler_is_left_alone() -> None:
    async def bind(state: CycleState, pod: PendingPod, node_name: str) -> Status:
        await held(binder).api.bind(pod, "b")
        return error("too late")

    binder = plugin("B", bind=bind)
    result = scenario(binder, nodes=("a", "b")).run()
    assert result.node_of("pod") is not None
    assert result.waiting == {}
    assert len(result.decisions) == 1


def test_node_deleted_before_the_binding_fails_only_that_pod() -> None:
    async def slow(state: CycleState, pod: PendingPod, node_name: str) -> None:
        await asyncio.sleep(5.0)

    working = plugin("W", pre_bind=slow)
    result = scenario(working, nodes=["a"], pods=["pod"]).at(2.0, delete(make_node("a"))).run()
    assert result.node_of("pod") == "a", "as with a real API server, which does not look at nodes"
    assert result.cluster.objects(Node) == []
    assert len(held(working).nodes) == 0


def test_post_bind_runs_all_plugins_in_order_despite_errors() -> None:
    journal: list[str] = []

    async def slow(state: CycleState, pod: PendingPod, node_name: str) -> None:
        await asyncio.sleep(1.0)
        journal.append("A noticed")

    plugins = [
        plugin("A", post_bind=slow, journal=journal),
        plugin("B", post_bind=ValueError("broken"), journal=journal),
        plugin("C", post_bind=None, journal=journal),
    ]
    result = scenario(*plugins).run()
    assert journal == ["A.post_bind", "A noticed", "B.post_bind", "C.post_bind"]
    assert result.state_of("pod") == "bound"
    assert result.bindings[0].code == Code.SUCCESS
    assert [point for point, *_ in result.bindings[0].steps] == ["wait_on_permit", "bind", "post_bind"]


def test_post_bind_is_not_called_for_an_unbound_pod() -> None:
    journal: list[str] = []
    run(plugin("A", bind=error("broken"), post_bind=None, journal=journal))
    assert journal == ["A.bind"]


def test_terminating_pod_is_not_scheduled() -> None:
    result = run(
        plugin("A", pre_filter=None), pods=[make_pod(deletion_timestamp="2026-01-01T00:00:00Z"), make_pod("b")]
    )
    assert result.events_on("pod") == [("FailedScheduling", "skip schedule deleting pod: default/pod")]
    assert result.condition_of("pod") is None
    assert [decision.pod for decision in result.decisions] == ["default/b"]


def test_pods_of_other_schedulers_are_not_bound() -> None:
    result = run(pods=[make_pod(scheduler_name="another")])
    assert not result.decisions and result.cluster.objects(Pod)[0].spec.node_name == ""
