from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from kframework import Code, PendingPod, PodInfo, Status
from kframework.objects import LabelSelector, LabelSelectorRequirement, PodDisruptionBudget
from kframework.plugin import Candidate
from kframework.preemption import Evaluator
from kframework.seeds import Seeds
from kframework.state.cluster import ClusterState
from kframework.state.preempting import Preempting
from kframework.testing import make_node, make_pod
from tests.test_preemption.stopped import WEB, budget, full, told, unfit


def test_more_important_pods_are_reprieved_first() -> None:
    running = [
        make_pod("old", cpu=1, node_name="n", priority=1, start_time="2026-01-01T00:00:00Z"),
        make_pod("young", cpu=1, node_name="n", priority=1, start_time="2026-01-02T00:00:00+00:00"),
        make_pod("not-started", cpu=1, node_name="n", priority=1),
        make_pod("higher", cpu=1, node_name="n", priority=2, start_time="2026-01-03T00:00:00Z"),
    ]
    stopped = unfit([make_node("n", cpu=4)], running, make_pod("x", cpu=2, priority=3))
    assert told(stopped.victims("n")) == (["default/young", "default/not-started"], 0)


def test_terminating_pods_count_as_victims() -> None:
    going = make_pod("going", cpu=4, node_name="n", deletion_timestamp="2026-01-01T00:00:00Z")
    stopped = unfit([make_node("n", cpu=4)], [going], make_pod("x", cpu=2, priority=3))
    assert told(stopped.victims("n")) == (["default/going"], 0)


def test_equal_priority_is_not_preempted() -> None:
    stopped = unfit([make_node("n", cpu=4)], [make_pod("a", cpu=4, node_name="n")], make_pod("x", priority=0))
    assert stopped.victims("n") == Status(
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("No preemption victims found for incoming pod",)
    )


EVERYTHING = LabelSelector()
UNREADABLE = LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator="Near"),))


@pytest.mark.parametrize(
    ("budgets", "victims", "violations"),
    [
        ([], ["b", "c"], 0),
        ([budget("web", WEB, 3)], ["b", "c"], 0),
        ([budget("web", WEB, 2)], ["a", "b"], 0),
        ([budget("web", WEB, 1)], ["a", "c"], 1),
        ([budget("web", WEB, 0)], ["b", "c"], 2),
        ([budget("web", WEB, 0), budget("too", WEB, 3)], ["b", "c"], 2),
        ([budget("web", WEB, 0, disrupted=("a", "b"))], ["a", "b"], 0),
        ([budget("web", WEB, 0, namespace="other")], ["b", "c"], 0),
        ([budget("all", EVERYTHING, 0)], ["b", "c"], 0),
        ([budget("none", None, 0)], ["b", "c"], 0),
        ([budget("unreadable", UNREADABLE, 0)], ["b", "c"], 0),
    ],
)
def test_pods_whose_budget_is_used_up_are_reprieved_first(
    budgets: list[PodDisruptionBudget], victims: list[str], violations: int
) -> None:
    running = [
        make_pod(name, cpu=1, node_name="n", labels={"app": "web"}, start_time=f"2026-01-0{day}T00:00:00Z")
        for day, name in enumerate("abc", 1)
    ]
    stopped = unfit([make_node("n", cpu=3)], running, make_pod("x", cpu=2, priority=1), budgets=budgets)
    assert told(stopped.victims("n")) == ([f"default/{name}" for name in victims], violations)


def test_a_pod_without_labels_has_no_budget() -> None:
    no_app = LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator="DoesNotExist"),))
    stopped = unfit(
        [make_node("n", cpu=1)],
        [make_pod("a", cpu=1, node_name="n")],
        make_pod("x", cpu=1, priority=1),
        budgets=[budget("bare", no_app)],
    )
    assert told(stopped.victims("n")) == (["default/a"], 0)


def test_budgets_are_read_again_when_they_change() -> None:
    web = make_pod("a", cpu=1, node_name="n", labels={"app": "web"})
    stopped = unfit([make_node("n", cpu=1)], [web], make_pod("x", cpu=1, priority=1), budgets=[budget("web", WEB)])
    assert told(stopped.victims("n")) == (["default/a"], 1)
    loosened = budget("web", WEB, allowed=1)
    stopped.engine.cluster.objects(PodDisruptionBudget).put(loosened.metadata, loosened)
    assert told(stopped.victims("n")) == (["default/a"], 0)


def test_room_kept_for_a_nominated_pod_is_not_given_away() -> None:
    running = [make_pod(name, cpu=1, node_name="n") for name in "abc"]
    nominated = make_pod("next", cpu=1, priority=1, nominated_node_name="n")
    preemptor = make_pod("x", cpu=1, priority=1)
    stopped = unfit([make_node("n", cpu=3)], running, preemptor, nominated=[nominated])
    assert told(stopped.victims("n")) == (["default/b", "default/c"], 0)


def candidate(node: str, *victims: tuple[int, str | None], violations: int = 0) -> Candidate:
    cluster = ClusterState()
    pods = [make_pod(f"{node}-{n}", priority=priority, start_time=at) for n, (priority, at) in enumerate(victims)]
    return Candidate(node, tuple(PodInfo(pod, cluster.interned) for pod in pods), violations)


DAYS = [f"2026-01-0{day}T00:00:00Z" for day in range(1, 5)]


def test_the_cheapest_candidate_has_the_smallest_key() -> None:
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
    key = Evaluator(ClusterState(), Preempting(), Random(0), lambda: None).key
    for cheaper, dearer in pairwise(ranked):
        assert key(cheaper) < key(dearer), dearer  # type: ignore[operator]  # keys compare with each other


@pytest.mark.parametrize(
    ("percentage", "absolute", "looked_at"), [(100, 0, 20), (10, 5, 5), (50, 5, 10), (10, 100, 20), (5, 0, 1)]
)
def test_enough_is_a_share_of_the_nodes_where_preemption_may_help(
    percentage: int, absolute: int, looked_at: int
) -> None:
    nodes, pods = full(*(f"n{n}" for n in range(20)))
    cordoned = make_node("cordoned", cpu="50m")  # too small for the pod: no preemption helps
    found = unfit([*nodes, cordoned], pods, make_pod("x", priority=1)).candidates(percentage, absolute)
    assert len(found.candidates) == looked_at
    assert found.status == Status(Code.SUCCESS)


def test_the_search_goes_on_until_a_candidate_breaks_no_budget() -> None:
    nodes, pods = full(*(f"n{n}" for n in range(10)))
    guarded = [make_pod(f"on-n{n}", cpu=1, node_name=f"n{n}", labels={"app": "web"}) for n in range(9)]
    stopped = unfit(nodes, [*guarded, pods[9]], make_pod("x", priority=1), budgets=[budget("web", WEB)])
    (first, second, third) = stopped.candidates(0, 2).candidates
    assert first.node == "n9"
    assert (second.pdb_violations, third.pdb_violations) == (1, 1)


def test_the_start_is_drawn_from_a_generator_of_its_own() -> None:
    nodes, pods = full(*(f"n{n}" for n in range(20)))
    stopped = unfit(nodes, pods, make_pod("x", priority=1))
    offsets = Seeds(0).generator("preemption offset")
    first = [stopped.candidates(0, 1).candidates[0].node for _ in range(5)]
    assert first == [f"n{offsets.randrange(20)}" for _ in range(5)]
    assert len(set(first)) > 1


def test_why_there_is_no_candidate_is_counted_over_all_nodes() -> None:
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


def test_errors_are_told_when_there_is_no_candidate() -> None:
    stopped = unfit(*full("fragile", "sticky"), make_pod("x", priority=1), plugins=("Breaks",))
    found = stopped.candidates()
    assert found.status.code == Code.ERROR
    assert sorted(found.status.message.strip("[]").split(", ")) == [
        'running AddPod on PreFilter plugin "Breaks": glued',
        'running RemovePod on PreFilter plugin "Breaks": broken',
    ]


def test_errors_do_not_matter_beside_a_candidate() -> None:
    found = unfit(*full("fragile", "sound"), make_pod("x", priority=1), plugins=("Breaks",)).candidates()
    assert [each.node for each in found.candidates] == ["sound"]
    assert found.status == Status(Code.SUCCESS)


def test_a_node_that_needs_no_victim_is_an_error() -> None:
    nodes, pods = full("n")
    stopped = unfit(nodes, pods, make_pod("x", cpu=1, priority=1))
    stopped.engine.cluster.put_node(make_node("n", cpu=2))
    assert stopped.victims("n") == Status(Code.ERROR, ('expected at least one victim pod on node "n"',))


def test_only_the_pod_of_the_cycle_may_ask() -> None:
    stopped = unfit(*full("n"), make_pod("x", priority=1))
    other = PendingPod(make_pod("y", priority=1), stopped.engine.cluster.interned)
    with pytest.raises(RuntimeError, match="pod default/y"):
        stopped.evaluator.candidates(stopped.search.state, other, stopped.diagnosis)
    stopped.engine.current = None
    with pytest.raises(RuntimeError, match="pod default/x"):
        stopped.victims("n")
