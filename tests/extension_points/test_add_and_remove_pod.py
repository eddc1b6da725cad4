"""AddPod and RemovePod: what PreFilter stored is kept true while pods come and go in a what-if."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kframework import CycleState, NodeInfo, PendingPod, PodInfo, Skip, Status, error, unschedulable
from kframework.framework.answers import Diagnosis
from kframework.framework.cycle_state import StateKey
from kframework.testing import make_pod
from tests.extension_points.scripted import held, plugin, run

Extension = Callable[[CycleState, PendingPod, PodInfo, NodeInfo], Status | None]


class Count:
    """The number of pods on a node, as `pre_filter` counted them."""

    def __init__(self, pods: int = 0) -> None:
        self.pods = pods

    def clone(self) -> Count:
        return Count(self.pods)


COUNT = StateKey[Count]("Counting")
GATE = plugin("Gate", pre_enqueue=lambda pod: unschedulable() if pod.name == "nominated" else None)
PODS = [make_pod("nominated", priority=10, nominated_node_name="a"), make_pod()]


def count_pods(state: CycleState, *_: object) -> None:
    state[COUNT] = Count()


def one_more(state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> None:
    state[COUNT].pods += 1


def one_less(state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> None:
    state[COUNT].pods -= 1


def none_but_one(state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
    return unschedulable(f"{state[COUNT].pods} on it") if state[COUNT].pods else None


def test_nominated_pod_is_added_to_the_state_of_one_filter_call_only() -> None:
    counting = plugin("C", pre_filter=count_pods, add_pod=one_more, filter=none_but_one)
    result = run(GATE, counting, nodes=("a", "b"), pods=PODS)
    assert result.node_of("pod") == "b"
    alone = run(GATE, counting, pods=PODS)
    assert alone.message_of("pod") == "0/1 nodes are available: 1 1 on it."


def test_state_is_unchanged_without_add_pod() -> None:
    unaware = plugin("C", pre_filter=count_pods, filter=none_but_one)
    assert run(GATE, unaware, pods=PODS).node_of("pod") == "a"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (error("broken"), 'running AddPod on PreFilter plugin "C": broken'),
        (unschedulable("broken"), 'running AddPod on PreFilter plugin "C": broken'),
        (ValueError("broken"), "plugin 'C', hook add_pod: ValueError: broken"),
    ],
)
def test_add_pod_answer_other_than_success_is_an_error(answer: object, message: str) -> None:
    result = run(GATE, plugin("C", pre_filter=None, add_pod=answer, filter=None), pods=PODS)
    condition = result.condition_of("pod")
    assert condition is not None
    assert (condition.reason, condition.message) == ("SchedulerError", message)
    assert result.state_of("pod") == "backoff"


def test_add_pod_is_not_called_for_a_plugin_that_skipped() -> None:
    skipping = plugin("C", pre_filter=Skip, add_pod=error("not asked"), filter=error("not asked"))
    assert run(GATE, skipping, pods=PODS).node_of("pod") == "a"


@pytest.mark.parametrize(
    ("undo", "says"), [(True, "0 pods, fits"), (False, "1 pods, full")], ids=["with the pod gone", "with the pod there"]
)
def test_plugin_can_filter_without_a_pod_in_a_statement(undo: bool, says: str) -> None:
    told: list[str] = []

    def look(state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> None:
        handle = held(asking)
        node = handle.nodes.find("a")
        assert node is not None
        with handle.statement() as statement:
            if undo:
                statement.remove(next(iter(node.pods)))
            status = handle.fits(state, pod, node)
            told.append(f"{len(node.pods)} pods, {'fits' if status is None else status.message}")
        assert len(node.pods) == 1, "nothing has happened"

    full = plugin("F", filter=lambda state, pod, node: unschedulable("full") if len(node.pods) else None)
    asking = plugin("P", post_filter=look)
    run(full, asking, pods=[make_pod("victim", node_name="a"), make_pod()])
    assert told == [says]
