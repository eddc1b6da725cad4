"""What the results of a sweep say of its configurations: tables of all runs, means, and differences beyond chance."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import sqrt
from typing import NamedTuple

import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from kframework.observe.text_table import NONE
from kframework.simulation.measures import DIGITS, SimulationMeasures
from kframework.simulation.sweep.runs import Results

#: The factor of a 95 % confidence interval by Student's t distribution, for 1, 2, ... degrees of freedom.
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
#: The pairs whose signs are flipped in all ways; of more pairs, this many random ways are tried.
_EXACT_PAIRS, _FLIPS = 12, 10_000
#: The probability below which a difference counts as larger than chance.
SIGNIFICANT = 0.05


class Estimate(NamedTuple):
    """A measure of a configuration over all clusters and seeds.

    Attributes:
        mean: the mean; None if no run has the measure.
        margin: half the 95 % confidence interval of the mean over seeds; None for a single seed.
        difference: the mean difference to the first configuration, paired by cluster and seed.
        probability: that a difference as large arises by chance, by pairs with distinct results; None for the first
            configuration.
    """

    mean: float | None
    margin: float | None
    difference: float | None
    probability: float | None

    @property
    def is_significant(self) -> bool:
        """Whether the difference to the first configuration is larger than chance."""
        return self.probability is not None and self.probability < SIGNIFICANT


#: The estimates of each configuration, by measure.
Summary = Mapping[str, Mapping[str, Estimate]]

#: The results of a configuration by cluster and seed.
PairedMeasures = Mapping[tuple[str, int], SimulationMeasures]


def summarise(results: Results) -> Summary:
    """Estimate each measure of each configuration; failed runs are left out."""
    by_name: dict[str, dict[tuple[str, int], SimulationMeasures]] = {}
    for run, measures in results:
        by_name.setdefault(run.configuration, {})[run.cluster, run.seed] = measures
    return compare_measures(by_name)


def compare_measures(by_name: Mapping[str, PairedMeasures]) -> Summary:
    """Estimate each measure of each configuration, and its differences to the first one."""
    first = next(iter(by_name.values()), {})
    return {
        name: {
            measure: _estimate(measure, own, {} if own is first else first)
            for measure in SimulationMeasures.__struct_fields__
        }
        for name, own in by_name.items()
    }


def _estimate(measure: str, own: PairedMeasures, first: PairedMeasures) -> Estimate:
    figures = _figures(measure, own)
    base = _figures(measure, first)
    differences = {key: figure - base[key] for key, figure in figures.items() if key in base}
    # A seed that changes nothing repeats a result, and is no further evidence.
    distinct = {(key[0], own[key], first[key]): difference for key, difference in differences.items()}
    return Estimate(
        _rounded(np.mean([*figures.values()])) if figures else None,
        _margin(figures),
        _rounded(np.mean([*differences.values()])) if differences else None,
        _rounded(_probability(np.array([*distinct.values()]))) if differences else None,
    )


def _figures(measure: str, results: PairedMeasures) -> dict[tuple[str, int], float]:
    return {key: figure for key, each in results.items() if (figure := getattr(each, measure)) is not None}


def _margin(figures: Mapping[tuple[str, int], float]) -> float | None:
    by_seed: dict[int, list[float]] = {}
    for (_, seed), figure in figures.items():
        by_seed.setdefault(seed, []).append(figure)
    count = len(by_seed)
    if count < 2:
        return None
    factor = _T[min(count - 1, len(_T)) - 1]
    return _rounded(factor * np.std([np.mean(each) for each in by_seed.values()], ddof=1) / sqrt(count))


def _probability(differences: NDArray[np.float64]) -> float:
    """Return how often the mean is as far from 0 if each difference has a random sign: a paired permutation test."""
    count = len(differences)
    if count <= _EXACT_PAIRS:
        signs = np.array([*product((1.0, -1.0), repeat=count)])
    else:
        signs = np.random.default_rng(0).choice((1.0, -1.0), (_FLIPS, count))
        signs[0] = 1.0  # the differences as they are
    means = np.abs(signs @ differences)
    return float(np.mean(means >= means[0] * (1 - 1e-9)))


def _rounded(number: float | np.floating) -> float:
    return round(float(number), DIGITS)


def format_runs(results: Results) -> str:
    """Write a row for each run, as CSV."""
    rows = ((run.configuration, run.cluster, run.seed, run.key, *astuple(measures)) for run, measures in results)
    return _format_csv(("configuration", "cluster", "seed", "key", *SimulationMeasures.__struct_fields__), rows)


def format_summary(summary: Summary) -> str:
    """Write a row for each configuration and measure, as CSV."""
    rows = ((name, measure, *each) for name, measures in summary.items() for measure, each in measures.items())
    return _format_csv(("configuration", "measure", *Estimate._fields), rows)


def _format_csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows((header, *rows))
    return text.getvalue()


#: The measures that the printed table shows; the files have all.
_SHOWN = [name for name in SimulationMeasures.__struct_fields__ if name not in ("pods", "bound")]

#: The headers of the printed table.
SUMMARY_HEADERS: tuple[str, ...] = ("CONFIGURATION", *(name.upper().replace("_", " ") for name in _SHOWN))


def summary_rows(summary: Summary) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each configuration: mean and margin of each measure, and `*` if it differs beyond chance."""
    for name, measures in summary.items():
        yield name, *(_format_estimate(measures[measure]) for measure in _SHOWN)


def _format_estimate(estimate: Estimate) -> str:
    return f"{format_mean(estimate.mean, estimate.margin)}{'*' if estimate.is_significant else ''}"


def format_mean(mean: float | None, margin: float | None) -> str:
    """Format a mean with half its confidence interval, as far as they are known."""
    if mean is None:
        return NONE
    return format_number(mean, 3) + ("" if margin is None else f" ±{format_number(margin, 2)}")


def format_number(number: float, digits: int) -> str:
    """Format a number with at most this many digits, or without a fraction."""
    return f"{number:.{digits}g}" if abs(number) < 10**digits else f"{number:.0f}"
