"""Groups and single pods beside each other, as in kube-scheduler's interleaving_test: neither blocks the other."""

from __future__ import annotations

import pytest

from kframework.config.configuration import Configuration
from tests.conformance.groups.story import Story, group, node, pods
from tests.support.groups import GROUPS, PLACEMENTS

pytestmark = pytest.mark.parametrize("config", [GROUPS, PLACEMENTS], ids=["groups", "placements"])


def test_more_important_pod_is_scheduled_before_a_gang(config: Configuration) -> None:
    story = Story(node(), group("low", 3, 10), config=config)
    story.create(*pods("g1 g2 g3", "low", priority=10), *pods("high", cpu=2, priority=100))
    story.expect(scheduled="high", unschedulable="g1 g2 g3")
    story.expect_condition("low", "False", "Unschedulable")
    assert story.order()[0] == "high"


def test_more_important_gang_is_scheduled_before_pods(config: Configuration) -> None:
    story = Story(node(), group("high", 3, 100), config=config)
    story.create(*pods("s1 s2", priority=10), *pods("g1 g2 g3", "high", priority=100))
    story.expect(scheduled="g1 g2 g3 s1", unschedulable="s2")
    assert story.order()[:3] == ["g1", "g2", "g3"]


def test_older_pod_is_scheduled_before_a_gang_of_its_priority(config: Configuration) -> None:
    story = Story(node(), group("pg", 3, 10), config=config)
    story.create(*pods("s1", cpu=2, priority=10), *pods("g1 g2 g3", "pg", priority=10))
    story.expect(scheduled="s1", unschedulable="g1 g2 g3")


def test_older_gang_is_scheduled_before_pods_of_its_priority(config: Configuration) -> None:
    story = Story(node(), group("pg", 3, 10), config=config)
    story.create(*pods("g1 g2 g3", "pg", priority=10), *pods("s1 s2", priority=10))
    story.expect(scheduled="g1 g2 g3 s1", unschedulable="s2")


@pytest.mark.parametrize("cpu", [1, 2])
def test_gang_without_its_quorum_holds_no_pod_back(config: Configuration, cpu: int) -> None:
    story = Story(node(), group("pg", 3, 10), *pods("g1 g2", "pg", priority=10), config=config)
    story.create(*pods("s1", cpu=cpu, priority=10))
    story.expect(scheduled="s1", gated="g1 g2")
    story.create(*pods("g3", "pg", priority=10))
    if cpu == 1:
        story.expect(scheduled="s1 g1 g2 g3")
    else:
        story.expect(scheduled="s1", unschedulable="g1 g2 g3")


@pytest.mark.parametrize("cpu", [1, 2])
def test_less_important_pod_runs_until_the_gang_has_its_quorum(config: Configuration, cpu: int) -> None:
    story = Story(node(), group("high", 3, 100), *pods("g1 g2", "high", priority=100), config=config)
    story.create(*pods("s1", cpu=cpu, priority=10))
    story.expect(scheduled="s1", gated="g1 g2")
    story.create(*pods("g3", "high", priority=100))
    if cpu == 1:
        story.expect(scheduled="s1 g1 g2 g3")
    else:
        story.expect(scheduled="g1 g2 g3")
        assert story.victims() == {"s1"}


def test_gang_that_fails_as_a_whole_blocks_no_pod(config: Configuration) -> None:
    story = Story(node(cpu=2), group("pg", 3, 10), config=config)
    story.create(*pods("g1 g2 g3", "pg", priority=10), *pods("s1", priority=10))
    story.expect(scheduled="s1", unschedulable="g1 g2 g3")


def test_pod_that_fails_blocks_no_less_important_gang(config: Configuration) -> None:
    story = Story(node(cpu=3), group("low", 3, 10), config=config)
    story.create(*pods("s1", cpu=4, priority=100), *pods("g1 g2 g3", "low", priority=10))
    story.expect(scheduled="g1 g2 g3", unschedulable="s1")


def test_group_without_a_minimum_is_scheduled_in_part_between_pods(config: Configuration) -> None:
    story = Story(node(), group("pg", 0, 10), config=config)
    first, second = pods("s1 s2", priority=10)
    story.create_in_order(first, *pods("b1 b2 b3", "pg", cpu=2, priority=10), second)
    story.expect(scheduled="s1 b1 s2", unschedulable="b2 b3")


def test_gated_pod_blocks_no_gang(config: Configuration) -> None:
    story = Story(node(cpu=2), *pods("s1", cpu=2, priority=100, gates=["test"]), group("pg", 2, 100), config=config)
    story.create(*pods("g1 g2", "pg", priority=100))
    story.expect(scheduled="g1 g2", gated="s1")
    story.ungate("s1")
    story.expect(scheduled="g1 g2", unschedulable="s1")
