"""Rewards of steps."""

from __future__ import annotations

import numpy as np
import pytest

from kframework.gym import Episode, Episodes, Reward, reward_bound_pods, reward_usable_room, reward_utilisation
from kframework.objects import ApiObject
from kframework.testing import make_node, make_pod


@pytest.fixture
def episode() -> Episode:
    """Two nodes, one with a small pod; a pod fits one of them, another fits both, and a third fits neither."""
    objects: list[ApiObject] = [
        make_node("a", cpu=4, memory="8Gi"),
        make_node("b", cpu=4, memory="8Gi"),
        make_pod("there", cpu=2, memory="2Gi", node_name="a"),
        make_pod("large", cpu=3, memory="1Gi"),
        make_pod("small", cpu=1, memory="1Gi"),
        make_pod("huge", cpu=9, memory="1Gi"),
    ]
    episode = Episodes(lambda random: objects).start(np.random.default_rng(1))
    assert episode.search is not None and episode.search.pod.name == "small"
    return episode


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        (reward_bound_pods, -2 / 3),  # "small" waits for the agent, "huge" for a node
        (reward_utilisation, ((2 + 3) / 8 + (2 + 1) / 16) / 2),
        # Only "small" fits: on both nodes. For two pods of three, nothing that is free is of use.
        (reward_usable_room, -2 / 3),
    ],
)
def test_reward_is_that_of_the_state(reward: Reward, expected: float, episode: Episode) -> None:
    assert reward(episode) == pytest.approx(expected)


def test_rewarded_fragmentation_is_the_one_that_is_measured(episode: Episode) -> None:
    assert reward_usable_room(episode) == pytest.approx(-episode.measures.fragmentation, abs=1e-6)
