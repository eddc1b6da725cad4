"""PreEnqueue: anything but Success gates the pod; only an event of the gating plugin opens the gate."""

from __future__ import annotations

import pytest

from kframework import ActionType, ClusterEvent, Code, PendingPod, Skip, Status, error, unresolvable, unschedulable
from kframework.in_memory.cluster import MemoryCluster
from kframework.simulation.simulation import Simulation
from kframework.testing import make_node, make_pod
from kframework.testing.scenario import create, patch
from tests.extension_points.scripted import held, plugin, run, scenario

NODE_ADD = ClusterEvent("Node", ActionType.ADD)


@pytest.mark.parametrize("answer", [None, Status(Code.SUCCESS)])
def test_pod_is_queued_if_pre_enqueue_succeeds(answer: Status | None) -> None:
    assert run(plugin("Gate", pre_enqueue=answer)).state_of("pod") == "bound"


@pytest.mark.parametrize(
    "answer",
    [
        unschedulable("closed"),
        unresolvable("closed"),
        error("closed"),
        Skip,
        Status(Code.PENDING),
        Status(Code.WAIT),
        "closed",
        ValueError("closed"),
    ],
)
def test_answer_other_than_success_gates_the_pod(answer: object) -> None:
    gated = plugin("Gate", pre_enqueue=lambda pod: answer_for(pod, answer))
    result = run(gated, pods=("pod", "other"), until=None)
    assert result.state_of("pod") == "gated"
    assert result.queued("pod").gating_plugin == "Gate"
    assert result.queued("pod").rejectors == {"Gate"}
    assert result.queued("pod").attempts == 0
    assert result.condition_of("pod") is None, "the API server says that a pod is gated"
    assert result.events_on("pod") == []
    assert result.node_of("other") == "a"


def answer_for(pod: PendingPod, answer: object) -> object:
    if pod.name != "pod":
        return None
    if isinstance(answer, Exception):
        raise answer
    return answer


def test_first_pre_enqueue_rejection_gates_the_pod() -> None:
    journal: list[str] = []
    first = plugin("First", pre_enqueue=None, journal=journal)
    second = plugin("Second", pre_enqueue=unschedulable(), journal=journal)
    third = plugin("Third", pre_enqueue=unschedulable(), journal=journal)
    result = run(first, second, third)
    assert result.queued("pod").gating_plugin == "Second"
    assert journal[-2:] == ["First.pre_enqueue", "Second.pre_enqueue"]


@pytest.mark.parametrize(
    ("events", "opened"),
    [((NODE_ADD,), True), ((), False), ((ClusterEvent("Pod", ActionType.DELETE),), False), (None, True)],
)
@pytest.mark.parametrize(("minor", "flushed"), [("1.36", False), ("1.37", True)])
def test_pre_enqueue_runs_again_for_events_of_the_gating_plugin_and_for_the_flush_since_1_37(
    events: tuple[ClusterEvent, ...] | None, opened: bool, minor: str, flushed: bool
) -> None:
    gate: list[str] = []
    gating = plugin("Gate", pre_enqueue=lambda pod: None if gate else unschedulable(), events=events)
    bystander = plugin("Bystander", filter=None, events=[NODE_ADD])
    timeline = scenario(gating, bystander, minor=minor).at(1.0, lambda cluster: gate.append("open"))
    result = timeline.at(2.0, create(make_node("b"))).run(until=400.0)
    assert result.state_of("pod") == ("bound" if opened or flushed else "gated")
    tried_after = [decision.popped_at - decision.queued_at for decision in result.decisions]
    assert tried_after == ([2.0] if opened else [330.0] if flushed else [])


def test_pod_stays_gated_if_pre_enqueue_rejects_again() -> None:
    gating = plugin("Gate", pre_enqueue=unschedulable(), events=[NODE_ADD])
    result = scenario(gating).at(1.0, create(make_node("b"))).run()
    assert result.state_of("pod") == "gated"


def test_pod_update_runs_pre_enqueue_again_if_registered() -> None:
    label = ClusterEvent("Pod", ActionType.UPDATE_POD_LABEL)
    gating = plugin("Gate", pre_enqueue=lambda pod: None if pod.labels.get("open") else unschedulable(), events=[label])
    timeline = scenario(gating)
    timeline.at(1.0, patch(make_pod(), {"metadata": {"labels": {"open": "true"}}}))
    result = timeline.run()
    assert result.state_of("pod") == "bound"


def test_activation_runs_pre_enqueue_again() -> None:
    gate: list[str] = []
    gating = plugin("Gate", pre_enqueue=lambda pod: None if gate else unschedulable())

    def activate(cluster: MemoryCluster) -> None:
        handle = held(gating)
        handle.activate([queued for queued in timeline_pods if queued.name == "pod"])

    timeline_pods: list[PendingPod] = []
    noticing = plugin("Noticing", pre_enqueue=lambda pod: timeline_pods.append(pod))
    timeline = scenario(noticing, gating)
    timeline.at(1.0, activate).at(2.0, lambda cluster: gate.append("open")).at(3.0, activate)
    result = timeline.run()
    assert result.state_of("pod") == "bound"
    assert result.decisions[0].popped_at - result.decisions[0].queued_at == 3.0


def test_pre_enqueue_runs_on_entering_backoff_but_not_on_leaving() -> None:
    journal: list[str] = []
    gate = plugin("Gate", pre_enqueue=None, journal=journal)
    failing = plugin("Failing", filter=unschedulable("no"), events=[NODE_ADD])
    result = scenario(gate, failing).at(1.0, create(make_node("b"))).run()
    assert result.state_of("pod") == "unschedulable"
    assert len(result.decisions) == 2
    assert journal.count("Gate.pre_enqueue") == 2


def test_outcome_of_a_gated_pod_says_which_plugin_gates_it_and_why() -> None:
    gate = plugin("Gate", pre_enqueue=unschedulable("the quota is used up"))
    simulation = Simulation([make_node("a"), make_pod("p")], plugins=[gate]).run()
    assert simulation.outcomes[0].message == "gated by Gate: the quota is used up"
