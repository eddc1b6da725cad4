"""Means, intervals, and differences beyond chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from kframework.config.load import default_configuration
from kframework.simulation.measures import SimulationMeasures
from kframework.simulation.sweep.runs import Results, SweepRun
from kframework.simulation.sweep.summary import Estimate, format_runs, format_summary, summarise, summary_rows

MEASURES = SimulationMeasures(3, 2, 1, 0.5, None, 0.25, 0.5, 0.125, 0.2, 0, 60.0)
RUN = SweepRun("key", "first", "small", 1, default_configuration(), (), "", None)


def results(**figures: Sequence[float]) -> Results:
    """Return a result for each configuration and seed that differs in its fragmentation."""
    return [
        (
            replace(RUN, configuration=name, seed=seed),
            SimulationMeasures(
                3, 2, 1, 0.5, None, 0.25, 0.5, figure, 0.2, 0, 60.0 + seed
            ),  # each seed changes something
        )
        for name, each in figures.items()
        for seed, figure in enumerate(each)
    ]


def with_pods(pods: int) -> SimulationMeasures:
    return msgspec.structs.replace(MEASURES, pods=pods)


def fragmentation(name: str, **figures: Sequence[float]) -> Estimate:
    return summarise(results(**figures))[name]["fragmentation"]


def test_interval_is_that_of_students_distribution() -> None:
    # 2.776 * 1.5811 / sqrt(5), as in textbooks.
    estimate = fragmentation("first", first=[1, 2, 3, 4, 5])
    assert estimate.mean == 3 and estimate.margin == pytest.approx(1.963, abs=1e-3)
    assert fragmentation("first", first=[1]).margin is None
    many = fragmentation("first", first=[*range(100)])
    assert many.margin == pytest.approx(2.042 * 29.0115 / 10, abs=1e-3)


def test_interval_is_over_seeds_and_not_over_clusters() -> None:
    other = [(replace(run, cluster="large"), measures) for run, measures in results(first=[101, 102])]
    estimate = summarise([*results(first=[1, 2]), *other])["first"]["fragmentation"]
    assert estimate.mean == 51.5 and estimate.margin == pytest.approx(12.706 / 2)


def test_difference_is_paired_by_cluster_and_seed() -> None:
    estimate = fragmentation("second", first=[0, 100, 200, 300, 400, 500], second=[1, 101, 201, 301, 401, 501])
    assert (estimate.difference, estimate.probability) == (1, 2 / 2**6)
    assert estimate.is_significant
    # The same figures in another order: noise.
    assert not fragmentation("second", first=[0, 1, 2, 3, 4, 5], second=[5, 4, 3, 2, 1, 0.5]).is_significant


def test_few_pairs_are_never_beyond_chance() -> None:
    assert fragmentation("second", first=[0] * 5, second=[1] * 5).probability == 2 / 2**5
    assert not fragmentation("second", first=[0] * 5, second=[1] * 5).is_significant


def test_seeds_that_change_nothing_are_no_evidence() -> None:
    pairs = [
        (run, MEASURES if run.configuration == "first" else with_pods(5))
        for run, _ in results(first=[0] * 9, second=[0] * 9)
    ]
    estimate = summarise(pairs)["second"]["pods"]
    assert (estimate.difference, estimate.probability) == (2, 1)
    clusters = [(replace(run, cluster=f"cluster-{run.seed}"), measures) for run, measures in pairs]
    assert summarise(clusters)["second"]["pods"].is_significant


def test_equal_results_differ_by_chance() -> None:
    for count in (6, 40):
        assert fragmentation("second", first=[1] * count, second=[1] * count).probability == 1


def test_many_pairs_are_tried_at_random_and_always_the_same_way() -> None:
    figures = {"first": [0.0] * 20, "second": [1.0, -0.5] * 10}
    estimate = fragmentation("second", **figures)
    assert estimate == fragmentation("second", **figures)
    # Of all 2**20 ways: the normal approximation, |mean| >= 0.25 with deviation 0.1768.
    assert estimate.probability == pytest.approx(0.16, abs=0.05)
    assert fragmentation("second", first=[0] * 20, second=[1] * 20).is_significant


def test_false_alarms_are_as_rare_as_announced() -> None:
    random = np.random.default_rng(7)
    alarms = sum(
        fragmentation("second", first=[0.0] * 8, second=random.normal(size=8).tolist()).is_significant
        for _ in range(200)
    )
    assert alarms <= 20  # 5 % are expected


def test_run_that_failed_in_one_configuration_is_no_pair() -> None:
    estimate = fragmentation("second", first=[1, 2], second=[3])
    assert (estimate.difference, estimate.mean) == (2, 3)


def test_tables_have_a_row_for_each_run_and_for_each_measure() -> None:
    one = [(RUN, MEASURES)]
    assert format_runs(one).splitlines() == [
        "configuration,cluster,seed,key,pods,bound,pending,wait_p50,wait_p99,cpu,memory,fragmentation,spread,preempted,seconds",
        "first,small,1,key,3,2,1,0.5,,0.25,0.5,0.125,0.2,0,60.0",
    ]
    lines = format_summary(summarise(results(first=[1] * 6, second=[2] * 6))).splitlines()
    assert lines[0] == "configuration,measure,mean,margin,difference,probability"
    assert "second,fragmentation,2.0,0.0,1.0,0.03125" in lines
    assert "first,wait_p99,,,," in lines


def test_cells_show_mean_margin_and_mark() -> None:
    rows = {name: cells for name, *cells in summary_rows(summarise(results(first=[1] * 6, second=[2] * 6)))}
    assert rows["second"][-4] == "2 ±0*"
    assert rows["first"][-4] == "1 ±0"
    assert rows["first"][2] == "<none>"
    assert next(summary_rows(summarise([(RUN, MEASURES)])))[-1] == "60"
    assert [*summary_rows(summarise([]))] == []
