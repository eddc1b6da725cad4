"""A simulation in which an agent scores the nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kframework import CycleState, InputError, NodeInfo, PendingPod, Plugin, hookimpl
from kframework.core.runtime.programmatic import ConfigurationSource
from kframework.gym import Episode, Episodes
from kframework.objects import ApiObject
from kframework.testing import make_node, make_pod
from tests.support.extenders import ExtenderServer, accept_except
from tests.support.groups import GROUPS, gang, members


class LongName(Plugin):
    """Prefer nodes with long names."""

    name = "LongName"

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return len(node.name)


def start(objects: Sequence[ApiObject], config: ConfigurationSource | None = None, seconds: float = np.inf) -> Episode:
    episodes = Episodes(lambda random: objects, config, plugins=[LongName], seconds=seconds)
    return episodes.start(np.random.default_rng(1))


def choose(episode: Episode, name: str) -> None:
    """Let the agent choose a node by its name."""
    assert episode.search is not None
    names = [episode.nodes[row].name for row in episode.search.feasible.tolist()]
    episode.answer(np.array([each == name for each in names], dtype=np.int64))


def place_all(episode: Episode, name: str) -> list[str | None]:
    """Let the agent choose this node for every pod; return where the pods are."""
    while episode.search is not None:
        choose(episode, name)
    return [outcome.node for outcome in episode.simulation.outcomes]


def arriving(name: str, second: float) -> ApiObject:
    return make_pod(name, annotations={"kframework.dev/arrives-seconds": f"{second}"})


NODES = [make_node("a", cpu=4), make_node("bb", cpu=4), make_node("ccc", cpu=4)]


def test_pods_go_where_the_agent_scores_highest() -> None:
    assert place_all(start([*NODES, make_pod("x"), make_pod("y")]), "bb") == ["bb", "bb"]


def test_profile_decides_between_nodes_with_equal_scores() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "LongName"}]}}}],
    }
    assert place_all(start([*NODES, make_pod("x")], config), "no node") == ["ccc"]


def test_agent_is_asked_about_each_of_pods_that_are_alike() -> None:
    episode, asked = start([*NODES, *(make_pod(f"pod-{number}") for number in range(5))]), list[str]()
    while episode.search is not None:
        asked.append(episode.search.pod.name)
        choose(episode, "a")
    assert asked == [f"pod-{number}" for number in range(5)]


def test_agent_is_asked_about_each_pod_of_a_group() -> None:
    assert place_all(start([*NODES, gang("g", 3), *members("g", 3, cpu="1")], GROUPS), "bb") == ["bb"] * 3


def test_agent_is_not_asked_about_pods_that_fit_one_node() -> None:
    large = make_node("large", cpu=64)
    episode = start([*NODES, large, make_pod("wide", cpu=32), make_pod("x")])
    assert episode.search is not None and episode.search.pod.name == "x"
    assert place_all(episode, "a") == ["large", "a"]


def test_no_time_passes_while_the_agent_decides() -> None:
    episode = start([*NODES, arriving("x", 2.0), arriving("y", 5.0)])
    assert episode.simulation.seconds == 2.0
    choose(episode, "a")
    assert episode.simulation.seconds == 5.0


def test_episode_ends_at_its_time_limit() -> None:
    episode = start([*NODES, arriving("x", 2.0), arriving("y", 50.0)], seconds=20.0)
    choose(episode, "a")
    assert (episode.search, episode.simulation.seconds, episode.simulation.is_over) == (None, 20.0, False)


def test_scorer_of_an_episode_that_is_over_is_refused() -> None:
    episode = start([*NODES, make_pod("x")])
    place_all(episode, "a")
    for work in (lambda: episode.answer(np.zeros(3, np.int64)), lambda: episode.weigh({})):
        with pytest.raises(RuntimeError, match="the episode is over"):
            work()


def test_episode_can_be_closed_while_the_agent_decides() -> None:
    episode = start([*NODES, make_pod("x")])
    episode.close()
    assert (episode.search, episode.measures.pending) == (None, 1)


def test_episode_without_a_choice_is_refused() -> None:
    with pytest.raises(InputError, match="no pod of the episode may go to several nodes"):
        start([make_node("a"), make_pod("x")])


def test_extenders_of_the_configuration_still_filter() -> None:
    with ExtenderServer({"filter": accept_except("a", "bb")}) as server:
        extender = {"urlPrefix": server.url, "filterVerb": "filter"}
        header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        episode = start([*NODES, make_pod("x")], header | {"extenders": [extender]})
        assert episode.search is not None
        assert [episode.nodes[row].name for row in episode.search.feasible.tolist()] == ["a", "bb"]
        episode.close()


def test_totals_with_the_weights_of_the_profile_are_those_of_the_search() -> None:
    taken = [make_pod("there", cpu=2, node_name="a"), make_pod("too", cpu=1, node_name="bb")]
    episode = start([*NODES, *taken, make_pod("x")])
    assert episode.search is not None
    weights = {step.name: step.weight for step in episode.search.profile.scores}
    totals = episode.weigh(weights)
    assert totals.tolist() == episode.search.totals.tolist() and len({*totals.tolist()}) == 3


def test_only_weighted_plugins_score() -> None:
    episode = start([*NODES, make_pod("x")])
    assert episode.weigh({"LongName": 10}).tolist() == [10, 20, 30]


def test_weight_of_a_plugin_that_does_not_score_is_refused() -> None:
    with pytest.raises(InputError, match="weights: NodeName is no Score plugin of profile default-scheduler"):
        start([*NODES, make_pod("x")]).weigh({"LongName": 1, "NodeName": 1})
