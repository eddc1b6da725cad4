"""Rewards of a step, from the state after it: when the next pod may go to several nodes, or the episode is over."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kframework.gym.episode import Episode

#: Returns the reward of the last step of an episode.
Reward = Callable[[Episode], float]


def reward_usable_room(episode: Episode) -> float:
    """Return minus the fragmentation of the free room, from -1 to 0.

    It is that of a sweep, now instead of averaged: of a random pod of the episode and a random resource that it
    requests, the share of the free amount that is on nodes where the pod does not fit.
    """
    nodes, order = episode.nodes, episode.nodes.order
    free = [nodes.allocatable(name)[order] - nodes.requested(name)[order] for name in episode.demands.resources]
    return -episode.demands.fragmentation(np.maximum(np.stack(free, axis=1), 0))


def reward_bound_pods(episode: Episode) -> float:
    """Return minus the pending pods, as a share of all pods of the episode's objects."""
    return -len(episode.simulation.scheduler.engine.pending) / max(len(episode.demands), 1)


def reward_utilisation(episode: Episode) -> float:
    """Return the share of the nodes' cpu and memory that pods request, from 0 to 1: the mean of both."""
    nodes, order = episode.nodes, episode.nodes.order
    shares = [
        float(nodes.requested(name)[order].sum() / max(nodes.allocatable(name)[order].sum(), 1))
        for name in ("cpu", "memory")
    ]
    return sum(shares) / len(shares)
