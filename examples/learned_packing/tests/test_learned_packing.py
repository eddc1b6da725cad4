"""LearnedPacking: how a scorer is trained, what the trained one makes of nodes, and which files are refused."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from learned_packing import LearnedPacking, Scorer
from learned_packing.scorer import FEATURES, read_scorer
from learned_packing.train import TEST_SEEDS, main
from learned_packing.workload import NODES, create_cluster

from kframework import ConfigError
from kframework.gym import Episodes, NodeSelectionEnv
from kframework.testing import PluginContract, Scenario, make_node, make_pod

TRAINED = Path(__file__).parents[1] / "scorer.json"

#: Prefers full nodes, and nothing else.
PACKING = Scorer(mean=-1, square=0, gap=0, least=0, unused=0, size=0)


def scored_by(plugin: str, args: object) -> dict[str, object]:
    """Return the configuration of a scheduler in which one plugin scores alone."""
    scores = {"disabled": [{"name": "*"}], "enabled": [{"name": plugin, "weight": 1}]}
    profile = {"plugins": {"score": scores}, "pluginConfig": [{"name": plugin, "args": args}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


def fragmentation(config: dict[str, object], seed: int) -> float:
    """Schedule an episode by the scores of a profile, which decide where the agent chooses no node."""
    env = NodeSelectionEnv(Episodes(create_cluster, config), FEATURES, nodes=NODES + 1)
    env.reset(seed=seed)
    is_over = False
    while not is_over:
        _, _, is_over, _, _ = env.step(np.int64(NODES))
    env.close()
    return env.measures.fragmentation


LEAST_ALLOCATED = scored_by("NodeResourcesFit", {"scoringStrategy": {"type": "LeastAllocated"}})
LEARNED = scored_by("LearnedPacking", {"scorer": str(TRAINED)})


def test_trained_scorer_fragments_less_than_least_allocated() -> None:
    for seed in TEST_SEEDS[:3]:
        assert fragmentation(LEARNED, seed) < fragmentation(LEAST_ALLOCATED, seed)


def test_plugin_prefers_the_nodes_that_the_agent_chooses() -> None:
    env, scorer = NodeSelectionEnv(Episodes(create_cluster, LEARNED), FEATURES, nodes=NODES), read_scorer(TRAINED)
    observation, _ = env.reset(seed=1)
    for _ in range(50):
        search = env.episode.search
        assert search is not None
        best = search.feasible[search.totals == search.totals.max()]
        chosen = search.feasible[scorer.rate(observation["nodes"][search.feasible], observation["pod"]).argmax()]
        assert chosen in best
        observation, *_ = env.step(chosen)


@pytest.mark.slow
def test_training_repeats_with_its_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"DRAWN": 4, "BEST": 2, "EPISODES": 1, "TEST_SEEDS": TEST_SEEDS[:1]}.items():
        monkeypatch.setattr(f"learned_packing.train.{name}", value)
    written = []
    for jobs in ("1", "2"):
        scorer, curve = tmp_path / f"{jobs}.json", tmp_path / f"{jobs}.csv"
        main([str(scorer), "--curve", str(curve), "--generations", "1", "--jobs", jobs])
        with curve.open() as lines:
            (row,) = csv.DictReader(lines)
        assert row["episodes"] == "4"
        told = "{episodes} episodes: reward {reward}, fragmentation {fragmentation}\n".format(**row)
        assert capsys.readouterr().out == told
        written.append((row, read_scorer(scorer)))
    assert written[0] == written[1]


def test_ratings_are_weighted_sums_of_what_is_left() -> None:
    nodes = np.array([[0.5, 0.5, 0.5, 0.5], [1.0, 0.5, 0.5, 0.25]], np.float32)  # an unused one, and one half full
    pod = np.array([0.25, 0.125], np.float32)
    left = {"mean": [0.625, 0.25], "square": [0.625**2, 0.25**2], "gap": [0.25, 0.0], "least": [0.5, 0.25]}
    for name, numbers in (left | {"unused": [1, 0], "size": [0.5, 0.75]}).items():
        ratings = Scorer(**{**PACKING.model_dump(), "mean": 0, name: 2}).rate(nodes, pod)
        assert ratings.tolist() == [2_000_000 * number for number in numbers], name


def test_best_rated_node_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "scorer.json"
    file.write_text(PACKING.model_dump_json())
    result = Scenario(
        nodes=[make_node("empty", cpu=16), make_node("used", cpu=16)],
        pods=[make_pod("there", cpu=8, node_name="used"), make_pod("new", cpu=1)],
        plugins=[LearnedPacking],
        args={"LearnedPacking": {"scorer": str(file)}},
        weights={"LearnedPacking": 50},
    ).run()
    assert result.node_of("new") == "used"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "No such file or directory; train one with `python -m learned_packing.train .*wrong.json`"),
        ("{", "invalid scorer: Invalid JSON.*; train one with"),
        (
            re.sub(r',"size":\S+}', "}", PACKING.model_dump_json()),
            "invalid scorer: size: Field required; train one with",
        ),
        (re.sub("-1.0", "1e9", PACKING.model_dump_json()), "invalid scorer: mean: Input should be less"),
    ],
)
def test_invalid_scorer_is_refused_with_the_remedy(text: str | None, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        Scenario(plugins=[LearnedPacking], args={"LearnedPacking": {"scorer": str(file)}}).run()


class TestContract(PluginContract):
    plugin = LearnedPacking
    examples = 4
    args = {"scorer": str(TRAINED)}
