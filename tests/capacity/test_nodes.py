"""Planned nodes hold the pods, cost little more than the best plan, and emptied nodes leave every pod a place."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from random import Random

import pytest

from kframework import InputError
from kframework.capacity.nodes import PRICE, NodePlan, plan_nodes, plan_removal
from kframework.objects import (
    ApiObject,
    LabelSelector,
    ObjectMeta,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    TopologySpreadConstraint,
)
from kframework.testing import make_node, make_pod
from tests.capacity.test_fit import deployment

SMALL = make_node("small", cpu=4, annotations={PRICE: "1"})
LARGE = make_node("large", cpu=16, annotations={PRICE: "3.5"})


def counts(plan: NodePlan) -> dict[str, int]:
    return {each.shape: each.count for each in plan.added}


def test_nothing_is_added_if_all_pods_fit() -> None:
    plan = plan_nodes([make_node("a"), make_pod("p")], [SMALL])
    assert (plan.pending, plan.added, plan.unplaced) == (0, (), ())


def test_shapes_are_mixed_by_their_price() -> None:
    plan = plan_nodes([make_pod(f"p{n}", cpu=3) for n in range(6)], [SMALL, LARGE])
    assert counts(plan) == {"small": 1, "large": 1} and plan.price == 4.5 and not plan.unplaced


def test_a_workload_is_planned_for_with_what_is_pending() -> None:
    plan = plan_nodes([make_pod("p", cpu=3)], [SMALL], [make_pod("q", cpu=3)])
    assert plan.pending == 2 and counts(plan) == {"small": 2}


def test_pods_that_fit_on_no_shape_are_named() -> None:
    plan = plan_nodes([make_node("a", cpu=1), make_pod("huge", cpu=64), make_pod("p", cpu=3)], [SMALL])
    assert counts(plan) == {"small": 1}
    (huge,) = plan.unplaced
    assert huge.pod == "default/huge" and "Insufficient cpu" in huge.message


def test_labels_and_taints_of_shapes_count() -> None:
    tainted = make_node("spot", cpu=16, annotations={PRICE: "0.1"}, taints=["spot:NoSchedule"])
    labelled = make_node("ssd", cpu=4, labels={"disk": "ssd"}, annotations={PRICE: "9"})
    plan = plan_nodes([make_pod("p", node_selector={"disk": "ssd"}), make_pod("q")], [tainted, SMALL, labelled])
    assert plan.added[-1].shape == "ssd" and not plan.unplaced and "spot" not in counts(plan)


def test_rules_beyond_requests_are_obeyed() -> None:
    zones = [make_node(zone, cpu=16, zone=zone, annotations={PRICE: price}) for zone, price in (("x", "1"), ("y", "2"))]
    spread = TopologySpreadConstraint(
        max_skew=1,
        topology_key="topology.kubernetes.io/zone",
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels={"app": "web"}),
    )
    pods = [make_pod(f"p{n}", cpu=1, labels={"app": "web"}, topology_spread=[spread]) for n in range(4)]
    there = [make_node("old-x", cpu=1, zone="x"), make_node("old-y", cpu=1, zone="y")]
    plan = plan_nodes([*there, *pods], zones)
    assert counts(plan) == {"x": 1, "y": 1} and not plan.unplaced


def test_an_invalid_price_is_an_error_that_names_the_node() -> None:
    with pytest.raises(InputError, match=r"Node n.*kframework.dev/price is 'cheap', not a number"):
        plan_nodes([make_pod("p")], [make_node("n", annotations={PRICE: "cheap"})])


def cheapest(sizes: Sequence[int], offers: Sequence[tuple[int, float]]) -> float:
    """Return the price of the cheapest nodes into which pods can be packed: an exact search over all packings."""
    best = inf

    def pack(index: int, free: list[int], price: float) -> None:
        nonlocal best
        if price >= best:
            return
        if index == len(sizes):
            best = price
            return
        for node in {room: position for position, room in enumerate(free) if room >= sizes[index]}.values():
            free[node] -= sizes[index]
            pack(index + 1, free, price)
            free[node] += sizes[index]
        for cpu, added in offers:
            if cpu >= sizes[index]:
                pack(index + 1, [*free, cpu - sizes[index]], price + added)

    pack(0, [], 0.0)
    return best


def test_plans_hold_the_pods_and_cost_little_more_than_the_best() -> None:
    random, ratios = Random(7), list[float]()
    for _ in range(15):
        offers = [(cpu, round(cpu * random.uniform(0.8, 1.2), 2)) for cpu in random.sample([2, 3, 4, 6, 8], 3)]
        sizes = [random.randint(1, min(max(offers)[0], 4)) for _ in range(random.randint(2, 7))]
        shapes = [make_node(f"s{cpu}", cpu=cpu, annotations={PRICE: str(price)}) for cpu, price in offers]
        pods = [make_pod(f"p{number}", cpu=size) for number, size in enumerate(sizes)]
        plan = plan_nodes(pods, shapes)
        assert not plan.unplaced and sum(each.pods for each in plan.added) == len(pods)
        ratios.append(plan.price / cheapest(sorted(sizes, reverse=True), offers))
    # Measured: 1.12 times the price on average, 2 times at worst: the scheduler spreads pods, and does not pack them.
    assert min(ratios) >= 0.999 and sum(ratios) / len(ratios) < 1.2 and max(ratios) < 2.1, sorted(ratios)


def emptied(objects: Sequence[ApiObject], most: int | None = None) -> tuple[str, ...]:
    return plan_removal(objects, most=most).nodes


def test_nodes_are_emptied_as_long_as_every_pod_finds_another() -> None:
    nodes = [make_node(name, cpu=8) for name in "abcd"]
    pods = [make_pod(f"p{n}", cpu=2, node_name="abcd"[n % 4]) for n in range(5)]
    plan = plan_removal([*nodes, *pods])
    assert plan.nodes == ("b", "c") and {each.pod for each in plan.moved} == {"default/p1", "default/p2"}
    assert {each.node for each in plan.moved} <= {"a", "d"} and plan.price == 2.0
    assert emptied([*nodes, *pods], most=1) == ("b",)


def test_a_node_stays_whose_pods_have_no_other() -> None:
    pinned = make_pod("p", node_name="a", node_selector={"kubernetes.io/hostname": "a"})
    assert emptied([make_node("a"), make_node("b", cpu=1), make_pod("q", node_name="b", cpu=1), pinned]) == ("b",)


def test_a_node_stays_whose_pods_may_not_be_evicted() -> None:
    selector = LabelSelector(match_labels={"app": "web"})
    budget = PodDisruptionBudget(
        metadata=ObjectMeta(name="keep", namespace="default"),
        spec=PodDisruptionBudgetSpec(min_available=1, selector=selector),
    )
    pods = [make_pod("p", node_name="a", labels={"app": "web"}), make_pod("q", cpu=1, node_name="b")]
    assert emptied([make_node("a"), make_node("b"), budget, *pods]) == ("b",)


def test_pods_that_are_pending_already_keep_no_node() -> None:
    assert emptied([make_node("a"), make_node("b"), make_pod("huge", cpu=64)]) == ("a", "b")


def test_pods_of_controllers_have_new_names_on_other_nodes() -> None:
    plan = plan_removal([make_node("a"), make_node("b"), deployment("web", 2)], most=1)
    assert len(plan.nodes) == 1 and {each.node for each in plan.moved} == {"a", "b"} - set(plan.nodes)
    assert all(each.pod.startswith("default/web-") for each in plan.moved)
