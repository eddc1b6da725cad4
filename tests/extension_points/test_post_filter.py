"""PostFilter: a way out when no node fits; the attempt fails all the same, with what was said in its message."""

from __future__ import annotations

import pytest

from kframework import (
    ClearNomination,
    Code,
    CycleState,
    Diagnosis,
    NodeInfo,
    Nominate,
    PendingPod,
    Plugin,
    Preempt,
    Skip,
    Status,
    Wait,
    error,
    unresolvable,
    unschedulable,
)
from kframework.framework.answers import Candidate
from kframework.testing import make_pod
from kframework.testing.scenario import ScenarioResult
from tests.extension_points.scripted import held, plugin, run, scenario

FULL = plugin("Full", filter=unschedulable("full"))
NOT_FIT = "0/1 nodes are available: 1 full."


def post(name: str, answer: object) -> type[Plugin]:
    return plugin(name, post_filter=answer)


def nominated(result: ScenarioResult) -> str:
    return result.pod("pod").status.nominated_node_name


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([None], NOT_FIT),
        ([Status(Code.SUCCESS)], NOT_FIT),
        ([Status(Code.SUCCESS, ("nominated",))], f"{NOT_FIT} nominated"),
        ([unschedulable("no help")], f"{NOT_FIT} no help"),
        ([unschedulable("one", "two"), unschedulable("three")], f"{NOT_FIT} one, two, three"),
        ([Status(Code.PENDING, ("soon",)), unschedulable("no help")], f"{NOT_FIT} soon, no help"),
        ([unschedulable("dropped"), Status(Code.SUCCESS)], NOT_FIT),
        ([unschedulable("dropped"), unresolvable("never"), unschedulable("not asked")], f"{NOT_FIT} never"),
        ([unschedulable("dropped"), error("broken"), unschedulable("not asked")], f"{NOT_FIT} broken"),
        ([Skip], NOT_FIT),
        (
            [unschedulable("dropped"), ValueError("broken")],
            f"{NOT_FIT} plugin 'P1', hook post_filter: ValueError: broken",
        ),
        (
            ["broken"],
            f"{NOT_FIT} plugin 'P0', hook post_filter: answered 'broken', which the contract does not allow",
        ),
    ],
)
def test_post_filter_message_is_part_of_the_event(answers: list[object], message: str) -> None:
    plugins = [post(f"P{number}", answer) for number, answer in enumerate(answers)]
    result = run(FULL, *plugins)
    condition = result.condition_of("pod")
    assert condition is not None
    assert (condition.reason, condition.message) == ("Unschedulable", message)
    assert result.events_on("pod") == [("FailedScheduling", message)]
    assert result.state_of("pod") == "unschedulable"
    assert result.queued("pod").rejectors == {"Full"}, "PostFilter adds no rejectors"


@pytest.mark.parametrize(
    ("answers", "node"),
    [
        ([], ""),
        ([None], "before"),
        ([unschedulable("no")], "before"),
        ([error("broken")], "before"),
        ([ValueError("broken")], "before"),
        ([Status(Code.SUCCESS)], "before"),
        ([Nominate("a")], "a"),
        ([ClearNomination()], ""),
        ([Nominate("a", unschedulable()), ClearNomination()], ""),
        ([ClearNomination(), Nominate("a", unschedulable())], "a"),
        ([Nominate("a", unschedulable()), unschedulable("keeps what was found")], "a"),
        ([Nominate("a", unschedulable()), None], "a"),
        ([Nominate("a", unschedulable()), Status(Code.SUCCESS)], "before"),
        ([Nominate("a", unschedulable()), unresolvable("drops it")], "before"),
        ([Nominate("a", unschedulable()), error("drops it")], "before"),
        ([Nominate("a", error("drops it"))], "before"),
        ([Nominate("a", unresolvable("its own counts"))], "a"),
        ([Preempt((), key=lambda candidate: 0)], "before"),
    ],
)
def test_post_filter_result_sets_keeps_or_clears_the_nomination(answers: list[object], node: str) -> None:
    plugins = [post(f"P{number}", answer) for number, answer in enumerate(answers)]
    result = run(FULL, *plugins, pods=[make_pod(nominated_node_name="before")])
    assert nominated(result) == node


def test_post_filter_is_not_called_if_a_node_is_feasible_or_an_error_occurs() -> None:
    journal: list[str] = []
    asked = plugin("P", post_filter=None, journal=journal)
    for failing in (
        plugin("A", filter=error("broken")),
        plugin("A", pre_filter=error("broken")),
        plugin("A", reserve=unschedulable("no")),
        plugin("A", permit=unschedulable("no")),
        plugin("A", pre_bind=unschedulable("no")),
    ):
        run(failing, asked)
    run(asked, nodes=())
    assert journal == []


@pytest.mark.parametrize(
    ("rejecting", "seen"),
    [
        (plugin("A", pre_filter=unschedulable("odd")), [("a", 2, "odd"), ("b", 2, "odd")]),
        (plugin("A", pre_filter=unresolvable("odd")), [("a", 3, "odd"), ("b", 3, "odd")]),
        (plugin("A", filter=unschedulable("full")), [("a", 2, "full"), ("b", 2, "full")]),
        (
            plugin("A", pre_filter={"a"}, filter=unschedulable("full")),
            [("a", 2, "full"), ("b", 3, "node(s) didn't satisfy plugin(s) [A]")],
        ),
        (
            plugin("A", pre_filter=set()),
            [("a", 3, "node(s) didn't satisfy plugin A"), ("b", 3, "node(s) didn't satisfy plugin A")],
        ),
    ],
)
def test_diagnosis_has_the_rejection_of_each_node(rejecting: type[Plugin], seen: list[tuple[str, int, str]]) -> None:
    told: list[tuple[str, int, str]] = []

    def look(state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> None:
        for row in diagnosis.nodes.order.tolist():
            status = diagnosis[row]
            told.append((diagnosis.nodes[row].name, int(status.code), status.message))

    run(rejecting, post("P", look), nodes=("a", "b"))
    assert told == seen


def test_diagnosis_lists_nodes_where_preemption_may_help() -> None:
    listed: list[str] = []

    def look(state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> None:
        listed.extend(diagnosis.nodes[row].name for row in diagnosis.rows(Code.UNSCHEDULABLE))
        assert diagnosis.rejectors == ("A",)
        assert diagnosis.pre_filter_message == ""

    def mixed(state: CycleState, pod: PendingPod, node: NodeInfo) -> Status:
        return unresolvable("old") if node.name == "b" else unschedulable("full")

    run(plugin("A", filter=mixed), post("P", look), nodes=("a", "b", "c"))
    assert listed == ["a", "c"]


def test_nominated_node_is_kept_for_the_pod() -> None:
    """The less important pod finds no room beside the nominated one."""
    crowded = plugin(
        "Crowded",
        filter=lambda state, pod, node: unschedulable("crowded") if len(node.pods) or pod.name == "pod" else None,
    )
    result = run(crowded, post("P", Nominate("a")), pods=[make_pod(priority=5), make_pod("later")])
    assert nominated(result) == "a"
    assert result.message_of("later") == "0/1 nodes are available: 1 crowded."


def preempting(*names: str) -> type[Plugin]:
    """Propose to evict the pods on these nodes, fewest first."""

    def propose(state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> Preempt | None:
        if pod.name != "pod":
            return None
        nodes = [diagnosis.nodes.find(name) for name in names]
        candidates = tuple(Candidate(node.name, tuple(node.pods)) for node in nodes if node is not None)
        return Preempt(candidates, key=lambda candidate: len(candidate.victims))

    return plugin("Preempting", post_filter=propose)


def test_cheapest_candidate_is_evicted_and_its_node_nominated() -> None:
    lonely = plugin(
        "Lonely", filter=lambda state, pod, node: unschedulable("taken") if len(node.pods) else None, events=None
    )
    victims = [make_pod(name, node_name=node) for name, node in (("x", "a"), ("y", "a"), ("z", "b"))]
    result = scenario(lonely, preempting("a", "b"), nodes=("a", "b"), pods=[*victims, make_pod(priority=9)]).run()
    assert result.node_of("pod") == "b"
    assert [pod.metadata.name for pod in result.cluster.objects(type(victims[0]))] == ["x", "y", "pod"]
    first = result.decisions_on("pod")[0]
    assert (first.nominated, first.victims) == ("b", ("default/z",))
    uid = result.pod("pod").metadata.uid
    assert ("Preempted", f"Preempted by pod {uid} on node b") in result.events_on("z")
    assert first.message == "0/2 nodes are available: 2 taken."


def test_victim_has_disruption_target_condition_before_deletion() -> None:
    lonely = plugin("Lonely", filter=lambda state, pod, node: unschedulable("taken") if len(node.pods) else None)
    result = run(lonely, preempting("a"), pods=[make_pod("x", node_name="a"), make_pod(priority=9)])
    condition = result.condition_of("x", "DisruptionTarget")
    assert condition is not None, "its grace has not run out yet"
    assert (condition.status, condition.reason) == ("True", "PreemptionByScheduler")
    assert condition.message == "default-scheduler: preempting to accommodate a higher priority pod"
    event = next(event for event in result.events if event.reason == "Preempted")
    assert (event.action, event.type) == ("Preempting", "Normal")
    assert event.related is not None and event.related.name == "pod"


def test_victim_waiting_in_permit_is_rejected_without_deletion() -> None:
    waiting = plugin("Waiting", permit=lambda state, pod, name: Wait(100) if pod.name == "x" else None)
    lonely = plugin("Lonely", filter=lambda state, pod, node: unschedulable("taken") if len(node.pods) else None)
    result = run(waiting, lonely, preempting("a"), pods=[make_pod("x", priority=9), make_pod("pod", priority=1)])
    assert held(waiting).waiting_pod(result.pod("x").metadata.uid) is None
    assert result.state_of("x") == "backoff", "an error: it is no rejection"
    uid = result.pod("pod").metadata.uid
    note = f"Preempted by pod {uid} on node a (in kube-scheduler memory)."
    assert ("Preempted", note) in result.events_on("x")
    assert result.message_of("x").startswith("waiting on permit for pod: ")


def test_failing_candidate_key_is_a_plugin_fault() -> None:
    def propose(state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> Preempt:
        def key(candidate: Candidate) -> int:
            raise ValueError("no key")

        return Preempt((Candidate("a", ()),), key=key)

    result = run(FULL, post("P", propose), pods=[make_pod(nominated_node_name="before")])
    assert result.message_of("pod") == f"{NOT_FIT} plugin 'P', hook post_filter: ValueError: no key"
    assert nominated(result) == "before"
