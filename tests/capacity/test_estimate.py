"""The estimate fills nodes by requests, takes the best price first, and respects labels, taints and what was tried."""

from __future__ import annotations

from collections.abc import Sequence

from kframework.capacity.estimate import estimate_nodes
from kframework.objects import Node, Pod
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod
from kframework.testing import make_node, make_pod


def pending(pods: Sequence[Pod]) -> list[PendingPod]:
    interner = TemplateInterner()
    return [PendingPod(pod, interner) for pod in pods]


def estimated(shapes: Sequence[tuple[Node, float]], pods: Sequence[Pod]) -> list[int]:
    planned = estimate_nodes([node for node, _ in shapes], [price for _, price in shapes], pending(pods), ())
    return [planned[shape] for shape in range(len(shapes))]


def test_many_like_pods_take_many_nodes_at_once() -> None:
    assert estimated([(make_node("n", cpu=4), 1.0)], [make_pod(f"p{n}", cpu=3) for n in range(1000)]) == [1000]


def test_the_number_of_pods_of_a_node_is_limited() -> None:
    assert estimated([(make_node("n", pods=3), 1.0)], [make_pod(f"p{n}", cpu=None, memory=None) for n in range(7)]) == [
        3
    ]


def test_small_pods_fill_what_large_ones_leave() -> None:
    pods = [*(make_pod(f"l{n}", cpu=3) for n in range(4)), *(make_pod(f"s{n}", cpu=1) for n in range(4))]
    assert estimated([(make_node("n", cpu=4), 1.0)], pods) == [4]


def test_the_shape_with_the_best_price_for_its_pods_is_taken() -> None:
    shapes = [(make_node("small", cpu=4), 1.0), (make_node("large", cpu=16), 5.0)]
    assert estimated(shapes, [make_pod(f"p{n}", cpu=4) for n in range(8)]) == [8, 0]
    assert estimated(shapes, [make_pod(f"p{n}", cpu=8) for n in range(4)]) == [0, 2]


def test_a_shape_that_did_not_help_is_left_out() -> None:
    pods = pending([make_pod("p")])
    assert not estimate_nodes([make_node("n")], [1.0], pods, {(pods[0].template, 0)})
