"""Why a pod is on its node and not on the runner-up: recorded scores, the plugins' part in them, and other weights."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kframework.core.cycle.records import Decision
from kframework.explain.choice import MAX_WEIGHT, explain_decision, find_weight
from kframework.explain.explanation import NodeChoice
from kframework.explain.lookup import unassign
from kframework.state.inbox import Deleted, Upserted
from kframework.testing import make_node, make_pod
from tests.explain.scene import Scene

LARGE, SMALL = make_node("large", cpu=8, memory="16Gi"), make_node("small", cpu=4, memory="8Gi")
POD = make_pod("pod", cpu=1, memory="1Gi", image="shop:1")
#: It has the image of the pod.
STOCKED = make_node("stocked", cpu=4, memory="8Gi", images={"shop:1": 400_000_000})


def choice_now(scene: Scene) -> NodeChoice:
    choice = scene.explain("pod").choice
    assert choice is not None
    return choice


def choice_then(scene: Scene, decision: Decision) -> NodeChoice:
    """Explain the decision right after it."""
    pod = unassign(scene.engine.cluster.pods[decision.uid], None, scene.engine.cluster.interner)
    choice = explain_decision(scene.engine, pod, decision)
    assert choice is not None
    return choice


def last_decision(scene: Scene) -> Decision:
    return scene.history.recent(1)[0]


def test_plugins_contributions_add_up_to_the_margin() -> None:
    scene = Scene(LARGE, SMALL, POD).settle()
    choice = choice_then(scene, last_decision(scene))
    assert (choice.node, choice.runner_up, choice.at_decision) == ("large", "small", True)
    assert (choice.score, choice.runner_up_score) == (choice.total, choice.runner_up_total) == (463, 452)
    assert [(each.plugin, each.lead) for each in choice.leads] == [
        ("NodeResourcesFit", 9),
        ("NodeResourcesBalancedAllocation", 2),
    ]
    assert choice.message == (
        "large had 463 points, small 452: NodeResourcesFit gave large 9 more, NodeResourcesBalancedAllocation 2 more. "
        "No other weight of a single plugin would have made small the only best node."
    )


def test_smallest_change_of_a_weight_comes_first_and_loss_of_scores_after_others() -> None:
    scene = Scene(LARGE, STOCKED, SMALL, POD).settle()
    choice = choice_then(scene, last_decision(scene))
    assert [(each.plugin, each.weight, each.new_weight) for each in choice.weight_changes] == [
        ("ImageLocality", 1, 2),
        ("NodeResourcesFit", 1, 0),
        ("NodeResourcesBalancedAllocation", 1, 0),
    ]
    assert choice.message.endswith(
        "; ImageLocality gave stocked 10 more. "
        "With weight 2 instead of 1 for ImageLocality it would have gone to stocked."
    )


def test_scores_of_now_are_told_apart_from_the_recorded_ones() -> None:
    scene = Scene(LARGE, SMALL, POD).settle()
    scene.engine.offer(Upserted(make_pod("later", cpu=4, memory="4Gi", node_name="large")))
    scene.engine.apply_messages()
    choice = choice_now(scene)
    assert not choice.at_decision
    assert (choice.score, choice.runner_up_score) == (463, 452)
    assert choice.total is not None and choice.runner_up_total is not None and choice.total < choice.runner_up_total
    assert choice.message.startswith("At the decision large had 463 points, small 452. Now large has ")
    assert not choice.weight_changes and "weight" not in choice.message  # it would go there anyway


def test_runner_up_that_no_longer_fits_or_exists_is_named() -> None:
    scene = Scene(LARGE, SMALL, POD).settle()
    scene.engine.offer(Upserted(make_pod("later", cpu=4, node_name="small")))
    scene.engine.apply_messages()
    assert choice_now(scene).obstacle == "NodeResourcesFit rejects small: Insufficient cpu"
    scene.engine.offer(Deleted(SMALL))
    scene.engine.apply_messages()
    assert choice_now(scene).message == ("At the decision large had 463 points, small 452. Now there is no node small.")


def test_draw_among_equal_nodes_is_told() -> None:
    scene = Scene(make_node("a"), make_node("b"), POD).settle()
    decision = last_decision(scene)
    choice = choice_then(scene, decision)
    assert (choice.ties, choice.leads) == (2, ())
    assert choice.message == (
        f"{choice.node} had {choice.score} points, as many as {choice.runner_up}; "
        "it was drawn from 2 nodes with this score."
    )


def test_pod_without_a_recorded_decision_is_compared_with_the_best_other_node() -> None:
    choice = choice_now(Scene(LARGE, SMALL, STOCKED, make_pod("pod", cpu=1, node_name="small")).settle())
    assert (choice.node, choice.runner_up, choice.score, choice.ties) == ("small", "large", None, 0)
    assert choice.message.startswith("The decision is no longer known. Now small has ")


def test_only_feasible_node_is_no_choice() -> None:
    scene = Scene(LARGE, POD).settle()
    assert scene.explain("pod").choice is None
    scene.engine.offer(Upserted(SMALL))
    scene.engine.apply_messages()
    assert scene.explain("pod").choice is None


@given(
    scores=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 400)), min_size=2, max_size=6),
    weight=st.integers(1, MAX_WEIGHT),
)
def test_found_weight_is_the_nearest_that_makes_the_node_alone_the_best(
    scores: list[tuple[int, int]], weight: int
) -> None:
    column, others = (np.array(each, dtype=np.int64) for each in zip(*scores, strict=True))

    def is_best(new: int) -> bool:
        totals = others + column * new
        return bool((totals[0] > totals[1:]).all())

    good = [new for new in range(MAX_WEIGHT + 1) if is_best(new)]
    found = find_weight(others + column * weight, column, weight, 0)
    assert (found is None) == (not good)
    if found is not None:
        assert found in good
        assert abs(found - weight) == min(abs(each - weight) for each in good)
