"""PodDisruptionBudgets: who is covered, and in which order they are used up."""

from __future__ import annotations

import pytest

from kframework.objects import LabelSelector, LabelSelectorRequirement, PodDisruptionBudget
from kframework.testing import make_node, make_pod
from tests.core.preemption.test_evaluator.stopped import WEB, budget, told, unfit

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
