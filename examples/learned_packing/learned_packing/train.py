"""Train a scorer: `python -m learned_packing.train SCORER.json --curve CURVE.csv`.

The cross-entropy method: each generation draws scorers from a normal distribution and lets each schedule the same
episodes; the best quarter gives the next distribution. The same seed gives the same scorer.
"""

from __future__ import annotations

import csv
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kframework.gym import Episodes, NodeSelectionEnv
from learned_packing.scorer import FEATURES, WEIGHTS, Scorer
from learned_packing.workload import NODES, create_cluster

__all__ = ["CURVE", "TEST_SEEDS", "Generation", "Result", "main", "play", "train"]

#: How many scorers a generation draws, how many of them are the best, and how many episodes each schedules.
DRAWN, BEST, EPISODES = 16, 4, 3
#: The spread that a distribution keeps at least, so that the search does not end too early.
SPREAD = 0.05
#: The seeds of the episodes that the curve is measured in; training uses smaller ones.
TEST_SEEDS = range(1_000_000, 1_000_010)

#: The columns of the curve: the episodes that the generations have used, and the result in the test episodes.
CURVE = ("episodes", "reward", "fragmentation")

#: Only Filter plugins: the agent scores.
_CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"score": {"disabled": [{"name": "*"}]}}}],
}


class Result(NamedTuple):
    """The mean reward of the steps of an episode, and its fragmentation averaged over time; or means of these."""

    reward: float
    fragmentation: float


class Generation(NamedTuple):
    """The scorer after some generations, and its result in the test episodes."""

    number: int
    scorer: Scorer
    result: Result


def play(scorer: Scorer, seed: int) -> Result:
    """Schedule an episode by a scorer."""
    env = NodeSelectionEnv(Episodes(create_cluster, _CONFIGURATION), FEATURES, nodes=NODES)
    observation, info = env.reset(seed=seed)
    rewards, is_over = list[float](), False
    while not is_over:
        (feasible,) = np.nonzero(info["action_mask"])
        ratings = scorer.rate(observation["nodes"][feasible], observation["pod"])
        observation, reward, terminated, truncated, info = env.step(feasible[ratings.argmax()])
        rewards.append(reward)
        is_over = terminated or truncated
    env.close()
    return Result(float(np.mean(rewards)), env.measures.fragmentation)


def train(generations: int, seed: int, jobs: int) -> Iterator[Generation]:
    """Yield the result of each generation."""
    random = np.random.default_rng(seed)
    mean, spread = np.zeros(len(WEIGHTS)), np.ones(len(WEIGHTS))
    with ProcessPoolExecutor(jobs) as pool:
        for number in range(1, generations + 1):
            drawn = mean + spread * random.normal(size=(DRAWN, len(WEIGHTS)))
            seeds = random.integers(TEST_SEEDS.start, size=EPISODES).tolist()
            results = _play_all(pool, [_scorer(each) for each in drawn], seeds)
            best = drawn[np.argsort([-each.reward for each in results], kind="stable")[:BEST]]
            mean, spread = best.mean(axis=0), best.std(axis=0) + SPREAD
            yield Generation(number, _scorer(mean), _play_all(pool, [_scorer(mean)], TEST_SEEDS)[0])


def _scorer(weights: NDArray[np.float64]) -> Scorer:
    return Scorer(**dict(zip(WEIGHTS, weights.round(4).tolist(), strict=True)))


def _play_all(pool: ProcessPoolExecutor, scorers: Sequence[Scorer], seeds: Sequence[int]) -> list[Result]:
    """Return the mean result of each scorer in the episodes of these seeds."""
    played = [pool.map(play, [each] * len(seeds), seeds) for each in scorers]
    return [Result(*np.mean([*each], axis=0).tolist()) for each in played]


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line says."""
    options = _parse(arguments)
    rows: list[tuple[str, ...]] = [CURVE]
    for each in train(options.generations, options.seed, options.jobs):
        options.scorer.write_text(each.scorer.model_dump_json(indent=2) + "\n", encoding="utf-8")
        rows.append((f"{each.number * DRAWN * EPISODES}", *(f"{figure:.3f}" for figure in each.result)))
        sys.stdout.write("{} episodes: reward {}, fragmentation {}\n".format(*rows[-1]))
        sys.stdout.flush()
    if options.curve is not None:
        with options.curve.open("w", newline="", encoding="utf-8") as lines:
            csv.writer(lines, lineterminator="\n").writerows(rows)


def _parse(arguments: Sequence[str] | None) -> Namespace:
    parser = ArgumentParser(prog="python -m learned_packing.train", description="Train a scorer in simulations.")
    parser.add_argument("scorer", type=Path, metavar="SCORER.json")
    parser.add_argument("--curve", type=Path, metavar="CURVE.csv", help="write the result of each generation")
    parser.add_argument("--generations", type=int, default=12, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of scorers and episodes (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes (default: %(default)s)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
