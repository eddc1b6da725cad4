"""Filter: the first rejection in configured order is the node's reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kframework import (
    ActionType,
    ClusterEvent,
    Code,
    CycleState,
    NodeInfo,
    NodeTable,
    PendingPod,
    Skip,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from kframework.testing import make_node, make_pod
from kframework.testing.scenario import create
from kframework.values.scores import Rows, Scores
from tests.extension_points.scripted import plugin, run, scenario

NODE_ADD = ClusterEvent("Node", ActionType.ADD)


@pytest.mark.parametrize("reads", [None, "node", "pods"])
@pytest.mark.parametrize(
    ("answer", "place", "reason", "message", "rejectors", "pending"),
    [
        (unschedulable("full"), "unschedulable", "Unschedulable", "0/2 nodes are available: 2 full.", {"A"}, set()),
        (unresolvable("full"), "unschedulable", "Unschedulable", "0/2 nodes are available: 2 full.", {"A"}, set()),
        (
            unschedulable("one", "two"),
            "unschedulable",
            "Unschedulable",
            "0/2 nodes are available: 2 one, 2 two.",
            {"A"},
            set(),
        ),
        (unschedulable(), "unschedulable", "Unschedulable", "0/2 nodes are available:", {"A"}, set()),
        (
            Status(Code.PENDING, ("soon",)),
            "unschedulable",
            "Unschedulable",
            "0/2 nodes are available: 2 soon.",
            {"A"},
            {"A"},
        ),
        (error("broken"), "backoff", "SchedulerError", 'running "A" filter plugin: broken', set(), set()),
        (Skip, "backoff", "SchedulerError", 'running "A" filter plugin: Skip', set(), set()),
        (Status(Code.WAIT), "backoff", "SchedulerError", 'running "A" filter plugin: Wait', set(), set()),
        (
            ValueError("broken"),
            "backoff",
            "SchedulerError",
            "plugin 'A', hook filter: ValueError: broken",
            set(),
            set(),
        ),
        (
            True,
            "backoff",
            "SchedulerError",
            "plugin 'A', hook filter: answered True, which is not a Status",
            set(),
            set(),
        ),
    ],
)
def test_pod_that_fits_no_node_is_unschedulable(
    answer: object,
    place: str,
    reason: str,
    message: str,
    rejectors: set[str],
    pending: set[str],
    reads: str | None,
) -> None:
    result = run(plugin("A", filter=answer, reads=reads), nodes=("a", "b"))  # type: ignore[arg-type]  # one of the three
    condition = result.condition_of("pod")
    assert condition is not None
    assert result.state_of("pod") == place
    assert (condition.reason, condition.message) == (reason, message)
    assert result.events_on("pod") == [("FailedScheduling", message)]
    assert result.queued("pod").rejectors == rejectors
    assert result.queued("pod").pending_plugins == pending


@pytest.mark.parametrize("answer", [None, Status(Code.SUCCESS)])
def test_pod_is_bound_to_a_node_that_passes(answer: Status | None) -> None:
    assert run(plugin("A", filter=answer)).state_of("pod") == "bound"


def refusing(*names: str, reason: str) -> Callable[..., Status | None]:
    return lambda state, pod, node: unschedulable(reason) if node.name in names else None


def test_message_counts_the_first_rejection_of_each_node() -> None:
    first = plugin("A", filter=refusing("a", "b", reason="old"))
    second = plugin("B", filter=refusing("b", "c", "d", "e", reason="full"), reads="pods")
    third = plugin("C", filter=refusing(*"abcdef", reason="far"))
    result = run(first, second, third, nodes=tuple("abcdef"))
    assert result.message_of("pod") == "0/6 nodes are available: 1 far, 2 old, 3 full."
    assert result.queued("pod").rejectors == {"A", "B", "C"}


def test_reasons_are_sorted_as_text_with_their_counts() -> None:
    names = tuple(f"n{number:02}" for number in range(12))
    result = run(
        plugin("A", filter=refusing(*names[:10], reason="ten")), plugin("B", filter=unschedulable("two")), nodes=names
    )
    assert result.message_of("pod") == "0/12 nodes are available: 10 ten, 2 two."


@pytest.mark.parametrize("answer", [error("broken"), ValueError("broken")])
def test_fault_on_one_node_fails_only_that_attempt(answer: object) -> None:
    def broken(state: CycleState, pod: PendingPod, node: NodeInfo) -> object:
        if pod.name != "victim" or node.name != "b":
            return None
        if isinstance(answer, Exception):
            raise answer
        return answer

    result = run(plugin("A", filter=broken), nodes=("a", "b"), pods=("victim", "other"))
    assert result.state_of("victim") == "backoff"
    assert result.state_of("other") == "bound"
    assert "broken" in result.message_of("victim")


def test_unschedulable_pod_is_retried_on_an_event_of_its_rejector() -> None:
    picky = plugin(
        "A", filter=lambda state, pod, node: None if node.name == "b" else unschedulable("no"), events=[NODE_ADD]
    )
    result = scenario(picky).at(20.0, create(make_node("b"))).run()
    assert result.node_of("pod") == "b"
    assert [decision.popped_at - result.decisions[0].popped_at for decision in result.decisions] == [0.0, 20.0]


def odd_rows(state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
    chosen = np.arange(nodes.capacity)[rows]
    return np.array([int(nodes[row].name[1:]) % 2 for row in chosen.tolist()], dtype=np.int64)


@pytest.mark.parametrize("reads", [None, "node"])
@pytest.mark.parametrize("count", [3, 30])
def test_columnar_filter_answers_bits_that_filter_status_converts(count: int, reads: str | None) -> None:
    columnar = plugin(
        "A",
        filter_nodes=odd_rows,
        filter_status=lambda pod, bits: unschedulable(f"odd {bits}"),
        reads=reads,  # type: ignore[arg-type]  # one of the two
    )
    rest = plugin("B", filter=unschedulable("even"))
    names = tuple(f"n{number}" for number in range(count))
    result = run(columnar, rest, nodes=names)
    odd = count // 2
    parts = sorted([f"{odd} odd 1", f"{count - odd} even"])
    assert result.message_of("pod") == f"0/{count} nodes are available: {', '.join(parts)}."


def test_failing_columnar_filter_falls_back_to_the_scalar_form() -> None:
    twin = plugin("A", filter=None, filter_nodes=ValueError("columns"), filter_status=unschedulable())
    result = run(twin, nodes=tuple(f"n{number}" for number in range(30)))
    assert result.state_of("pod") == "bound"


def test_failing_filter_status_is_a_plugin_fault() -> None:
    columnar = plugin("A", filter_nodes=odd_rows, filter_status=ValueError("wordless"))
    result = run(columnar, nodes=("n1", "n3"))
    assert result.message_of("pod") == "plugin 'A', hook filter_status: ValueError: wordless"


def crowded(state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
    """Let one pod live on a node."""
    return unschedulable("crowded") if len(node.pods) else None


@pytest.mark.parametrize(("priority", "node"), [(1, None), (10, None), (11, "a")])
def test_pod_must_fit_with_nominated_pods_of_equal_or_higher_priority(priority: int, node: str | None) -> None:
    """The nominated pod is gated, so it only keeps its place."""
    gate = plugin("Gate", pre_enqueue=lambda pod: unschedulable() if pod.name == "nominated" else None)
    keeper = plugin("Keeper", filter=crowded)
    nominated = make_pod("nominated", priority=10, nominated_node_name="a")
    result = run(gate, keeper, pods=[nominated, make_pod("pod", priority=priority)])
    assert result.node_of("pod") == node
    assert result.message_of("pod") == ("" if node else "0/1 nodes are available: 1 crowded.")


def test_pod_must_also_fit_without_nominated_pods() -> None:
    """What only fits beside a pod that is not there yet does not fit (inter-pod affinity)."""
    sociable = plugin("S", filter=lambda state, pod, node: None if len(node.pods) else unschedulable("lonely"))
    gate = plugin("Gate", pre_enqueue=lambda pod: unschedulable() if pod.name == "nominated" else None)
    nominated = make_pod("nominated", priority=10, nominated_node_name="a")
    result = run(gate, sociable, pods=[nominated, make_pod("pod", priority=1)])
    assert result.message_of("pod") == "0/1 nodes are available: 1 lonely."


def test_nominated_node_is_tried_first_and_alone() -> None:
    asked: list[str] = []

    def note(state: CycleState, pod: PendingPod, node: NodeInfo) -> None:
        asked.append(node.name)

    result = run(plugin("A", filter=note), nodes=tuple("abcd"), pods=[make_pod(nominated_node_name="c")])
    assert result.node_of("pod") == "c"
    assert set(asked) == {"c"}
    assert result.decisions[0].evaluated == 1


def test_other_nodes_are_searched_if_the_nominated_node_fails() -> None:
    refuse = plugin("A", filter=refusing("c", "d", reason="no"))
    result = run(refuse, nodes=tuple("abcd"), pods=[make_pod(nominated_node_name="c")])
    assert result.node_of("pod") in ("a", "b")


@pytest.mark.parametrize("nominated", ["c", "gone"])
def test_failed_nominated_node_is_counted_once(nominated: str) -> None:
    result = run(
        plugin("A", filter=unschedulable("no")), nodes=tuple("abcd"), pods=[make_pod(nominated_node_name=nominated)]
    )
    assert result.message_of("pod") == "0/4 nodes are available: 4 no."


def test_nominated_node_outside_the_pre_filter_set_is_tried() -> None:
    pre_filter_result = plugin("A", pre_filter={"a"})
    result = run(pre_filter_result, nodes=("a", "b"), pods=[make_pod(nominated_node_name="b")])
    assert result.node_of("pod") in ("a", "b")
