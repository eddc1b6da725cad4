"""Two environments for Gymnasium: an agent chooses a node for each pod, or the weights of the Score plugins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.search import Search
from kframework.errors import InputError
from kframework.gym.episode import Episode, Episodes
from kframework.gym.features import Features
from kframework.gym.rewards import Reward, reward_usable_room
from kframework.simulation.measures import SimulationMeasures
from kframework.values.scores import Scores

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as _missing:
    raise ImportError("environments need Gymnasium: pip install 'kframework-sdk[gym]'") from _missing

A = TypeVar("A")

#: `nodes` has a line for each row of the node table and the columns of `Features.encode_nodes`, `pod` those of
#: `Features.encode_pod`. Rows without a node are zeros, as is the pod once the episode is over.
Observation: TypeAlias = dict[str, NDArray[np.float32]]

#: What an action's weight 1 is as an integer.
_WEIGHT_ONE = 1000


class SchedulingEnv(gymnasium.Env[Observation, A]):
    """The base of environments with a step for each pod that may go to several nodes.

    The observation has room for this number of `nodes`. An episode terminates when nothing changes any more, and is
    truncated at its time limit. The seed of `reset` determines this episode and those after it.
    """

    def __init__(self, episodes: Episodes, features: Features, nodes: int, reward: Reward) -> None:
        self._episodes = episodes
        self._features = features
        self._nodes = nodes
        self._reward = reward
        self._episode: Episode | None = None
        columns = len(features.resources)
        self.observation_space: spaces.Space[Observation] = spaces.Dict(  # type: ignore[assignment]  # Gymnasium does not type its parts
            {
                "nodes": spaces.Box(0.0, 1.0, (nodes, 2 * columns), np.float32),
                "pod": spaces.Box(0.0, 1.0, (columns,), np.float32),
            }
        )

    @property
    def episode(self) -> Episode:
        """The current episode, or the last one; ResetNeeded before the first one."""
        if self._episode is None:
            raise gymnasium.error.ResetNeeded("call reset() first: it starts an episode")
        return self._episode

    @property
    def measures(self) -> SimulationMeasures:
        """The measures of the episode until now, as in a sweep."""
        return self.episode.measures

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode, without options; InputError if the observation has no room for its nodes."""
        super().reset(seed=seed)
        self.close()
        self._episode = self._episodes.start(self.np_random)
        return self._observation(), self._info()

    def step(self, action: A) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Schedule the pod, and run until the next one may go to several nodes."""
        episode = self.episode
        if episode.search is None:
            raise gymnasium.error.ResetNeeded("the episode is over: call reset()")
        episode.answer(self._scores(action, episode.search))
        terminated = episode.search is None and episode.simulation.is_over
        truncated = episode.search is None and not terminated
        return self._observation(), self._reward(episode), terminated, truncated, self._info()

    def close(self) -> None:
        """Stop the current episode; its measures can still be read."""
        if self._episode is not None:
            self._episode.close()

    @abstractmethod
    def _scores(self, action: A, search: Search) -> Scores:
        """Return the scores that an action gives to the feasible nodes of a search, in its order."""

    def _info(self) -> dict[str, Any]:
        search, seconds = self.episode.search, self.episode.simulation.seconds
        return {"pod": "" if search is None else search.pod.key, "seconds": seconds}

    def _observation(self) -> Observation:
        table, search = self.episode.nodes, self.episode.search
        if table.size > self._nodes:
            problem = f"the cluster has {table.size} nodes, the observation has room for {self._nodes}"
            raise InputError(f"{problem}; pass nodes={table.size}")
        columns = len(self._features.resources)
        nodes, pod = np.zeros((self._nodes, 2 * columns), np.float32), np.zeros(columns, np.float32)
        nodes[table.order] = self._features.encode_nodes(table, table.order)
        return {"nodes": nodes, "pod": pod if search is None else self._features.encode_pod(search.pod)}


class NodeSelectionEnv(SchedulingEnv[np.int64]):
    """An environment in which an action is a node: its line in the observation.

    `info["action_mask"]` is 1 for the nodes that Filter accepts, as `Discrete.sample` takes it. Any other action leaves
    the choice to the scores of the profile, as an extender does that scores no feasible node.
    """

    def __init__(
        self, episodes: Episodes, features: Features, *, nodes: int, reward: Reward = reward_usable_room
    ) -> None:
        super().__init__(episodes, features, nodes, reward)
        self.action_space: spaces.Space[np.int64] = spaces.Discrete(nodes)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return which nodes Filter accepts, as algorithms with masks call it; none once the episode is over."""
        mask, search = np.zeros(self._nodes, np.bool_), self.episode.search
        if search is not None:
            mask[search.feasible] = True
        return mask

    def _scores(self, action: np.int64, search: Search) -> Scores:
        chosen: Scores = (search.feasible == action).astype(np.int64)
        return chosen

    def _info(self) -> dict[str, Any]:
        return {**super()._info(), "action_mask": self.action_masks().astype(np.int8)}


class ScoreWeightsEnv(SchedulingEnv[NDArray[np.float32]]):
    """An environment in which an action is the weights of Score plugins for one pod, each from 0 to 1.

    `score_plugins` are their names, in the order of the action. The profile's own weights only decide between nodes
    with equal scores. Weights are rounded to thousandths.
    """

    def __init__(
        self,
        episodes: Episodes,
        features: Features,
        score_plugins: Sequence[str],
        *,
        nodes: int,
        reward: Reward = reward_usable_room,
    ) -> None:
        super().__init__(episodes, features, nodes, reward)
        self._score_plugins = tuple(score_plugins)
        self.action_space: spaces.Space[NDArray[np.float32]] = spaces.Box(
            0.0, 1.0, (len(self._score_plugins),), np.float32
        )

    def _scores(self, action: NDArray[np.float32], search: Search) -> Scores:
        weights = np.round(np.asarray(action, np.float64) * _WEIGHT_ONE).astype(int).tolist()
        return self.episode.weigh(dict(zip(self._score_plugins, weights, strict=True)))
