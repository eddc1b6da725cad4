"""Environments in which agents learn to schedule, with Gymnasium's API; they need `kframework-sdk[gym]`.

    env = NodeSelectionEnv(Episodes(create_cluster), Features({"cpu": 64, "memory": "256Gi"}), nodes=50)
    observation, info = env.reset(seed=1)
    action = env.action_space.sample(info["action_mask"])
    observation, reward, terminated, truncated, info = env.step(action)

An episode is a simulation: the scheduler with its plugins, in virtual time. A plugin that scores nodes as the agent
learned to reads the same `Features`, and needs no Gymnasium. Each name is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kframework.lazy_names import load_on_first_use

if TYPE_CHECKING:  # isort: off
    from kframework.gym.environments import (
        NodeSelectionEnv as NodeSelectionEnv,
        ScoreWeightsEnv as ScoreWeightsEnv,
    )
    from kframework.gym.episode import (
        Episode as Episode,
        Episodes as Episodes,
    )
    from kframework.gym.features import Features as Features
    from kframework.gym.rewards import (
        Reward as Reward,
        reward_bound_pods as reward_bound_pods,
        reward_usable_room as reward_usable_room,
        reward_utilisation as reward_utilisation,
    )
else:
    __getattr__, __dir__ = load_on_first_use(__name__)
