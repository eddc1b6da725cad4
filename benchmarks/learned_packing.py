"""The learned scorer beside two strategies of NodeResourcesFit, and the curve of its training.

Run with `python -m benchmarks.learned_packing --svg examples/learned_packing/curve.svg`. The scorer runs as a plugin
that a configuration names. All rows use the same episodes, which the training did not.
"""

from __future__ import annotations

import csv
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean

import numpy as np
from learned_packing.train import TEST_SEEDS
from learned_packing.workload import create_cluster

from benchmarks.line_chart import Panel, Points, line_chart
from kframework import Simulation
from kframework.simulation.measures import MeasureRecorder, SimulationMeasures

EXAMPLE = Path(__file__).parents[1] / "examples" / "learned_packing"

#: What scores the nodes, and its args.
SCORED_BY: Mapping[str, tuple[str, object]] = {
    "LeastAllocated": ("NodeResourcesFit", {"scoringStrategy": {"type": "LeastAllocated"}}),
    "MostAllocated": ("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated"}}),
    "LearnedPacking": ("LearnedPacking", {"scorer": str(EXAMPLE / "scorer.json")}),
}


def measure(scored_by: str, seed: int) -> SimulationMeasures:
    """Schedule the episode of a seed by one plugin alone."""
    plugin, args = SCORED_BY[scored_by]
    scores = {"disabled": [{"name": "*"}], "enabled": [{"name": plugin, "weight": 1}]}
    profile = {"plugins": {"score": scores}, "pluginConfig": [{"name": plugin, "args": args}]}
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    objects = create_cluster(np.random.default_rng(seed))
    with Simulation(objects, document | {"profiles": [profile]}, seed=seed) as simulation:
        recorder = MeasureRecorder(simulation)
        simulation.run()
        return recorder.measures


def measure_all(seeds: Sequence[int]) -> Mapping[str, Sequence[SimulationMeasures]]:
    """Measure all rows, in as many processes as there are cores."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        return {name: [*pool.map(partial(measure, name), seeds)] for name in SCORED_BY}


def format_table(results: Mapping[str, Sequence[SimulationMeasures]]) -> Iterator[str]:
    """Yield the lines of a table, and how often the scorer beats the others."""
    yield "| Scored by | fragmentation | lowest to highest | waiting time p99 |"
    yield "|---|---:|---:|---:|"
    shares = {name: [each.fragmentation for each in row] for name, row in results.items()}
    for name, row in results.items():
        lowest, highest, wait = min(shares[name]), max(shares[name]), fmean(each.wait_p99 or 0.0 for each in row)
        yield f"| {name} | **{fmean(shares[name]):.1%}** | {lowest:.1%} to {highest:.1%} | {wait:.0f} s |"
    *others, ours = shares
    for other in others:
        better = sum(mine < theirs for mine, theirs in zip(shares[ours], shares[other], strict=True))
        yield ""
        yield f"{ours} fragments less than {other} with {better} of {len(shares[ours])} seeds."


def draw_curve(results: Mapping[str, Sequence[SimulationMeasures]]) -> str:
    """Draw the fragmentation of each generation in the test episodes, between those of the two strategies."""
    with (EXAMPLE / "curve.csv").open(encoding="utf-8") as lines:
        curve = [(float(row["episodes"]), 100 * float(row["fragmentation"])) for row in csv.DictReader(lines)]
    (first, _), *_, (last, _) = curve
    means = {name: 100 * fmean(each.fragmentation for each in row) for name, row in results.items()}
    lines_by_name: dict[str, Points] = {name: [(first, mean), (last, mean)] for name, mean in means.items()}
    panel = Panel("Fragmentation, %", "episodes", _marks(first, last), lines_by_name | {"LearnedPacking": curve})
    return line_chart("Learning to pack", "10 episodes that the training does not use", [panel])


def _marks(first: float, last: float) -> Sequence[int]:
    return [int(first) * 2**power for power in range(20) if first * 2**power <= last]


def main(arguments: Sequence[str] = ()) -> None:
    """Measure, print the table, and draw the curve."""
    parser = ArgumentParser(prog="python -m benchmarks.learned_packing")
    parser.add_argument("--seeds", type=int, default=20, help="how many episodes (default: %(default)s)")
    parser.add_argument("--svg", type=Path, help="draw the curve of the training to this file")
    options = parser.parse_args(arguments)
    results = measure_all(range(TEST_SEEDS.start, TEST_SEEDS.start + options.seeds))
    sys.stdout.write("\n".join(format_table(results)) + "\n")
    if options.svg is not None:
        tested = {name: row[: len(TEST_SEEDS)] for name, row in results.items()}
        options.svg.write_text(draw_curve(tested), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
