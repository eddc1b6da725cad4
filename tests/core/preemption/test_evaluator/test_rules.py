from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from kframework import Code, PendingPod, PodInfo, Status
from kframework.clock import Seeds
from kframework.core.preemption.evaluator import Evaluator, OngoingPreemptions
from kframework.framework.answers import Candidate
from kframework.state.cluster import ClusterState
from kframework.testing import make_node, make_pod
from tests.core.preemption.test_evaluator.stopped import full, unfit


def candidate(node: str, *victims: tuple[int, str | None], violations: int = 0) -> Candidate:
    cluster = ClusterState()
    pods = [make_pod(f"{node}-{n}", priority=priority, start_time=at) for n, (priority, at) in enumerate(victims)]
    return Candidate(node, tuple(PodInfo(pod, cluster.interner) for pod in pods), violations)


DAYS = [f"2026-01-0{day}T00:00:00Z" for day in range(1, 5)]


def test_cheapest_candidate_has_the_smallest_key() -> None:
    """Each of these costs less than the next by one criterion, and more by all that come after it."""
    ranked = [
        candidate("z", (9, DAYS[0]), (9, DAYS[0]), (9, DAYS[0])),
        candidate("y", (1, DAYS[0]), (1, DAYS[0]), (1, DAYS[0]), violations=1),
        candidate("x", (2, DAYS[0]), violations=1),
        candidate("n", (2, DAYS[3]), (-(2**31), None), violations=1),
        candidate("w", (2, None), (-7, None), violations=1),
        candidate("v", (2, None), (0, DAYS[0]), violations=1),
        candidate("u", (2, DAYS[3]), (0, DAYS[0]), violations=1),
        candidate("a", (2, DAYS[2]), (0, DAYS[3]), violations=1),
        candidate("b", (2, DAYS[2]), (0, DAYS[3]), violations=1),
        candidate("0", (2, DAYS[3]), (2, DAYS[0]), violations=1),
    ]
    key = Evaluator(ClusterState(), OngoingPreemptions(), Random(0), lambda: None).key
    for cheaper, dearer in pairwise(ranked):
        assert key(cheaper) < key(dearer), dearer


@pytest.mark.parametrize(
    ("percentage", "absolute", "looked_at"), [(100, 0, 20), (10, 5, 5), (50, 5, 10), (10, 100, 20), (5, 0, 1)]
)
def test_number_of_candidates_is_a_share_of_the_potential_nodes(percentage: int, absolute: int, looked_at: int) -> None:
    nodes, pods = full(*(f"n{n}" for n in range(20)))
    cordoned = make_node("cordoned", cpu="50m")  # too small for the pod: no preemption helps
    found = unfit([*nodes, cordoned], pods, make_pod("x", priority=1)).candidates(percentage, absolute)
    assert len(found.candidates) == looked_at
    assert found.status == Status(Code.SUCCESS)


def test_zero_candidates_requested_gives_none() -> None:
    """A tenth of nine nodes is none: kube-scheduler drops whatever its dry runs find."""
    nodes, pods = full(*(f"n{n}" for n in range(9)))
    unhelpful = make_pod("equal", cpu=1, node_name="n8", priority=1)
    found = unfit(nodes, [*pods[:8], unhelpful], make_pod("x", priority=1)).candidates(10, 0)
    text = "1 No preemption victims found for incoming pod, 8 Preemption is not helpful for scheduling."
    assert found.candidates == ()
    assert found.status == Status(Code.UNSCHEDULABLE, (f"0/9 nodes are available: {text}",))


def test_start_offset_is_random_once_and_then_increases_by_one() -> None:
    nodes, pods = full(*(f"n{n}" for n in range(20)))
    stopped = unfit(nodes, pods, make_pod("x", priority=1))
    start = Seeds(0).generator("preemption offset").randrange(20)
    first = [stopped.candidates(0, 1).candidates[0].node for _ in range(25)]
    assert first == [f"n{(start + n) % 20}" for n in range(25)]


def test_reasons_without_candidate_are_counted_over_all_nodes() -> None:
    nodes = [
        make_node("equals", cpu=1),
        make_node("tight", cpu=2),
        make_node("tiny", cpu="50m"),
        make_node("cordoned", cpu="50m"),
    ]
    pods = [
        make_pod("a", cpu=1, node_name="equals", priority=5),
        make_pod("b", cpu="1500m", node_name="tight", priority=5),
        make_pod("c", cpu="500m", node_name="tight"),
    ]
    found = unfit(nodes, pods, make_pod("x", cpu=1, priority=5)).candidates()
    text = (
        "0/4 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )
    assert found.status == Status(Code.UNSCHEDULABLE, (text,))
    assert not found.candidates


def test_errors_are_reported_if_there_is_no_candidate() -> None:
    stopped = unfit(*full("fragile", "sticky"), make_pod("x", priority=1), plugins=("Breaks",))
    found = stopped.candidates()
    assert found.status.code == Code.ERROR
    assert sorted(found.status.message.strip("[]").split(", ")) == [
        'running AddPod on PreFilter plugin "Breaks": glued',
        'running RemovePod on PreFilter plugin "Breaks": broken',
    ]


def test_errors_are_ignored_if_there_is_a_candidate() -> None:
    found = unfit(*full("fragile", "sound"), make_pod("x", priority=1), plugins=("Breaks",)).candidates()
    assert [each.node for each in found.candidates] == ["sound"]
    assert found.status == Status(Code.SUCCESS)


def test_preemption_of_another_pod_raises_runtime_error() -> None:
    stopped = unfit(*full("n"), make_pod("x", priority=1))
    other = PendingPod(make_pod("y", priority=1), stopped.engine.cluster.interner)
    with pytest.raises(RuntimeError, match="pod default/y"):
        stopped.evaluator.candidates(stopped.search.state, other, stopped.diagnosis)
    stopped.engine.current_search = None
    with pytest.raises(RuntimeError, match="pod default/x"):
        stopped.victims("n")
