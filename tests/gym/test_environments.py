"""The environments keep Gymnasium's promises, and an action is what the scheduler does."""

from __future__ import annotations

import importlib
import sys
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import SyncVectorEnv

from kframework import CycleState, InputError, NodeInfo, PendingPod, Plugin, hookimpl
from kframework.gym import Episodes, Features, NodeSelectionEnv, ScoreWeightsEnv
from kframework.objects import ApiObject
from kframework.testing import make_node, make_pod

FEATURES = Features({"cpu": 8, "memory": "32Gi"})


class PrefersA(Plugin):
    """Prefer node a."""

    name = "PrefersA"
    preferred = "a"

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return 100 * (node.name == self.preferred)


class PrefersC(PrefersA):
    """Prefer node c."""

    name = "PrefersC"
    preferred = "c"


def create_cluster(random: np.random.Generator) -> Iterable[ApiObject]:
    yield from (make_node(name, cpu=8, memory="32Gi") for name in "abc")
    for number, cpu in enumerate(random.integers(1, 4, 12).tolist()):
        times = {"kframework.dev/arrives-seconds": f"{number}", "kframework.dev/run-seconds": "5"}
        yield make_pod(f"pod-{number}", cpu=cpu, memory="1Gi", annotations=times)


def selection(*objects: ApiObject, nodes: int = 4, seconds: float = np.inf) -> NodeSelectionEnv:
    create = (lambda random: objects) if objects else create_cluster
    return NodeSelectionEnv(Episodes(create, seconds=seconds), FEATURES, nodes=nodes)


def weighing() -> ScoreWeightsEnv:
    episodes = Episodes(create_cluster, plugins=[PrefersA, PrefersC])
    return ScoreWeightsEnv(episodes, FEATURES, ["PrefersA", "PrefersC"], nodes=3)


def play(env: NodeSelectionEnv, seed: int | None) -> list[Any]:
    """Schedule an episode by the first feasible node; return all that is told of it."""
    observation, info = env.reset(seed=seed)
    told, is_over = list[Any](), False
    while not is_over:
        told.append((observation["nodes"].tolist(), observation["pod"].tolist(), info["pod"], info["seconds"]))
        observation, reward, terminated, truncated, info = env.step(info["action_mask"].argmax())
        told.append((reward, terminated, truncated))
        is_over = terminated or truncated
    return told


@pytest.mark.parametrize("create", [selection, weighing])
def test_environment_passes_the_checks_of_gymnasium(create: Any) -> None:
    check_env(create(), skip_render_check=True)


def test_seed_determines_the_episodes_that_follow() -> None:
    one, other = selection(), selection()
    first = play(one, 1)
    assert first == play(other, 1) and play(one, None) == play(other, None) != first
    assert first == play(one, 1) != play(one, 2)


def test_several_environments_are_stepped_together() -> None:
    together = SyncVectorEnv([selection, selection])
    observations, infos = together.reset(seed=1)
    assert observations["nodes"].shape == (2, 4, 4) and infos["action_mask"].tolist() == [[1, 1, 1, 0]] * 2
    _, rewards, terminated, _, infos = together.step(np.array([0, 2]))
    assert rewards.shape == (2,) and not terminated.any() and infos["pod"].tolist() == ["default/pod-1"] * 2
    together.close()


def test_observation_has_the_nodes_and_the_pod() -> None:
    env = selection(make_node("a", cpu=8, memory="32Gi"), make_node("b", cpu=4, memory="8Gi"), make_pod(cpu=2), nodes=3)
    observation, info = env.reset()
    assert observation["nodes"].tolist() == [[1.0, 1.0, 1.0, 1.0], [0.5, 0.25, 0.5, 0.25], [0.0] * 4]
    assert observation["pod"].tolist() == pytest.approx([0.25, 1 / 256])
    observation, _, terminated, truncated, info = env.step(np.int64(1))
    assert (observation["nodes"][1, 2], observation["pod"].tolist()) == (0.25, [0.0, 0.0])
    assert (terminated, truncated, info["pod"], info["action_mask"].any()) == (True, False, "", False)


def test_action_is_the_node_of_the_pod() -> None:
    env = selection(*(make_node(name) for name in "abc"), make_pod())
    env.reset()
    env.step(np.int64(2))
    assert [outcome.node for outcome in env.episode.simulation.outcomes] == ["c"]


def test_nodes_that_filter_rejects_are_masked_and_an_action_there_is_ignored() -> None:
    full = make_pod("full", cpu=4, node_name="b")
    env = selection(*(make_node(name, cpu=4) for name in "abc"), full, make_pod("x", cpu=1))
    env.reset()
    assert env.action_masks().tolist() == [True, False, True, False]
    env.step(np.int64(1))
    assert env.episode.simulation.outcomes[1].node in ("a", "c")


def test_episode_is_truncated_at_its_time_limit() -> None:
    env = selection(seconds=3.5)
    assert [each[1:] for each in play(env, 1)[1::2]] == [(False, False)] * 3 + [(False, True)]


def test_measures_are_those_of_the_episode() -> None:
    env = selection()
    play(env, 1)
    env.close()
    assert (env.measures.pods, env.measures.bound) == (12, 12)


@pytest.mark.parametrize(("weights", "node"), [([1.0, 0.0], "a"), ([0.0, 1.0], "c"), ([0.4, 0.5], "c")])
def test_action_is_the_weights_of_the_score_plugins(weights: list[float], node: str) -> None:
    env = weighing()
    env.reset(seed=1)
    env.step(np.array(weights, np.float32))
    assert env.episode.simulation.decisions[0].node == node


def test_memory_of_earlier_episodes_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kframework.gym.episode._COLLECTED_PODS", 20)
    env = selection()
    play(env, 1)
    first = weakref.ref(env.episode)
    for _ in range(2):
        play(env, None)
    assert first() is None


def test_cluster_with_more_nodes_than_the_observation_is_refused() -> None:
    with pytest.raises(InputError, match="the cluster has 3 nodes, the observation has room for 2; pass nodes=3"):
        selection(nodes=2).reset()


def test_step_needs_an_episode() -> None:
    env = selection(make_node("a"), make_node("b"), make_pod())
    with pytest.raises(ResetNeeded):
        env.step(np.int64(0))
    env.reset()
    env.step(np.int64(0))
    with pytest.raises(ResetNeeded, match="the episode is over"):
        env.step(np.int64(0))


def test_missing_gymnasium_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "kframework.gym.environments")
    with pytest.raises(ImportError, match=r"pip install 'kframework-sdk\[gym\]'"):
        importlib.import_module("kframework.gym.environments")
