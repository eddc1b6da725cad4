"""Explanations of pods in groups, from simulations that ran for a while."""

from __future__ import annotations

from kframework import Simulation
from kframework.config.configuration import Configuration
from kframework.explain.explanation import Explanation, GroupExplanation
from kframework.objects import ApiObject
from kframework.testing import make_node
from tests.support.groups import GROUPS


def explain(objects: list[ApiObject], pod: str, config: Configuration = GROUPS) -> Explanation:
    with Simulation(objects, config=config) as simulation:
        simulation.run(5)
        return simulation.explain(pod).explanation


def group_of(objects: list[ApiObject], pod: str, config: Configuration = GROUPS) -> GroupExplanation:
    group = explain(objects, pod, config).group
    assert group is not None
    return group


def bound(objects: list[ApiObject], config: Configuration = GROUPS) -> int:
    """Return how many pods of groups are bound in the end."""
    with Simulation(objects, config=config) as simulation:
        simulation.run(5)
        return sum(each.node is not None for each in simulation.outcomes if each.group)


def rack(name: str, count: int, cpu: int = 2) -> list[ApiObject]:
    return [make_node(f"{name}-{number}", cpu=cpu, labels={"rack": name}) for number in range(count)]
