"""The budget of a shadow: within it all pods are decided, beyond it a share of them that is drawn."""

from __future__ import annotations

from random import Random

from kframework.core.shadow.budget import Budget


def decide(budget: Budget, pods: int, seconds: float, cost: float, start: float = 0.0) -> float:
    """Offer pods at even intervals; return the time spent on those that are admitted."""
    spent = 0.0
    for number in range(pods):
        if budget.admits(start + seconds * number / pods):
            budget.spend(cost)
            spent += cost
    return spent


def test_all_pods_are_decided_within_the_budget() -> None:
    budget = Budget(0.1, Random(0), 0.0)
    assert round(decide(budget, 1000, 10.0, 0.0005), 6) == 0.5
    assert budget.share == 1.0


def test_no_more_than_the_budget_is_spent_and_the_share_says_how_many_are_decided() -> None:
    budget = Budget(0.1, Random(0), 0.0)
    decide(budget, 1000, 1.0, 0.001)
    assert 0.8 < decide(budget, 10_000, 10.0, 0.001, start=1.0) <= 1.1
    assert 0.08 < budget.share < 0.12


def test_decision_that_takes_too_long_is_paid_for_before_the_next() -> None:
    budget = Budget(0.1, Random(0), 0.0)
    assert budget.admits(0.0)
    budget.spend(1.0)
    assert not budget.admits(8.9)
    assert budget.admits(9.1)


def test_same_seed_draws_the_same_pods() -> None:
    first, second = (sample(Budget(0.1, Random(7), 0.0)) for _ in range(2))
    assert first == second
    assert 0 < sum(first) < len(first)


def sample(budget: Budget) -> list[bool]:
    """Offer pods that take a millisecond each."""
    admitted = []
    for number in range(3000):
        admitted.append(budget.admits(number / 1000))
        if admitted[-1]:
            budget.spend(0.001)
    return admitted
