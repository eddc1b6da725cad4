"""Drained nodes lose their pods as far as budgets allow, and the pods are scheduled again elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kframework import InputError, Simulation
from kframework.capacity.drain import Drainer
from kframework.objects import (
    ApiObject,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
)
from kframework.objects.label_selectors import parse_label_selector
from kframework.simulation.controllers import STANDARD_CONTROLLERS
from kframework.testing import make_node, make_pod

NODES = [make_node("a"), make_node("b")]


def drained(objects: Sequence[ApiObject], nodes: Sequence[str], selector: str = "") -> tuple[dict[str, str], Drainer]:
    """Return the nodes of the pods after a drain."""
    drain = Drainer()
    with Simulation(objects, controllers=(*STANDARD_CONTROLLERS, *drain.controllers)) as simulation:
        drain.drain(simulation.run(), nodes)
        if selector:
            drain.evict(simulation, parse_label_selector(selector))
        simulation.run()
        return {pod.metadata.name: pod.spec.node_name for pod in simulation.objects(Pod)}, drain


def budget(selected: str, minimum: int, name: str = "keep") -> PodDisruptionBudget:
    selector = LabelSelector(match_labels={"app": selected})
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodDisruptionBudgetSpec(min_available=minimum, selector=selector),
    )


def test_pods_of_a_drained_node_go_elsewhere_and_none_come_to_it() -> None:
    nodes, drain = drained([*NODES, *(make_pod(f"p{n}", node_name="a") for n in range(3))], ["a"])
    assert nodes == {"p0": "b", "p1": "b", "p2": "b"} and not drain.blocked


def test_pods_without_another_node_are_pending() -> None:
    nodes, _ = drained([*NODES, make_pod("large", cpu=3, node_name="a"), make_pod("full", cpu=3, node_name="b")], ["a"])
    assert nodes == {"large": "", "full": "b"}


def test_pods_that_belong_to_their_node_stay() -> None:
    owner = OwnerReference(api_version="apps/v1", kind="DaemonSet", name="agent", uid="agent", controller=True)
    mirror = make_pod("static", node_name="a", annotations={"kubernetes.io/config.mirror": "x"})
    nodes, _ = drained([*NODES, make_pod("agent", node_name="a", owner=owner), mirror], ["a"])
    assert nodes == {"agent": "a", "static": "a"}


def test_pods_are_evicted_by_their_labels() -> None:
    objects = [make_node("b"), make_pod("web", node_name="b", labels={"app": "web"}), make_pod("db", node_name="b")]
    with_web, _ = drained([*objects, make_node("c", cpu=8)], [], "app=web")
    assert with_web == {"db": "b", "web": "c"}


def test_a_budget_lets_pods_go_one_after_another() -> None:
    pods = [make_pod(f"p{n}", node_name="a", labels={"app": "web"}) for n in range(3)]
    nodes, drain = drained([*NODES, *pods, budget("web", 2)], ["a"])
    assert set(nodes.values()) == {"b"} and not drain.blocked


@pytest.mark.parametrize(
    ("budgets", "obstacle"),
    [
        ([budget("web", 1)], "PodDisruptionBudget keep"),
        ([budget("web", 0), budget("web", 0, "too")], "more than one PodDisruptionBudget"),
    ],
)
def test_a_pod_that_may_not_be_evicted_stays_and_is_named(budgets: list[ApiObject], obstacle: str) -> None:
    nodes, drain = drained([*NODES, make_pod("p", node_name="a", labels={"app": "web"}), *budgets], ["a"])
    assert nodes == {"p": "a"} and obstacle in drain.blocked["default/p"]


def test_an_unknown_node_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"there is no node 'node-1' to drain.*node-a"):
        drained([make_node("node-a")], ["node-1"])
