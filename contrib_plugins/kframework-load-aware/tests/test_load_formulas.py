"""The formulas of scheduler-plugins, by tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
from kframework_load_aware.beta import incomplete_beta, share_below
from kframework_load_aware.load_variation import rate_risk
from kframework_load_aware.low_risk import rate_limits, rate_load
from kframework_load_aware.target_load import rate_utilization


def array(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(values, dtype=np.float64)


@pytest.mark.parametrize(
    ("target", "percent", "score"),
    [
        *[(40, 0, 40), (40, 20, 70), (40, 40, 100), (40, 70, 20), (40, 100, 0), (40, 101, 0)],
        *[(70, 35, 85), (70, 85, 35), (100, 50, 100), (100, 100, 100), (100, 120, 0)],
    ],
)
def test_target_load_packing_rises_to_the_target_and_falls_beyond_it(target: int, percent: int, score: int) -> None:
    assert rate_utilization(array(percent), target)[0] == pytest.approx(score)


@pytest.mark.parametrize(
    ("mean", "deviation", "margin", "sensitivity", "score"),
    [
        (0, 0, 1, 1, 100),
        (0.5, 0, 1, 1, 75),
        (0.5, 0.16, 1, 1, 67),
        (0.5, 0.16, 1, 2, 55),
        (0.5, 0.16, 2, 2, 35),
        (0.5, 0.16, 3, 2, 25),
        (2, 2, 1, 1, 0),
        (0.5, 0.16, 1, 0, 75),
        (0.5, 1, 1, 0, 25),
        (0.5, 0.5, 0, 1, 75),
    ],
)
def test_risk_is_half_of_mean_and_weighted_root_of_the_deviation(
    mean: float, deviation: float, margin: float, sensitivity: float, score: float
) -> None:
    assert rate_risk(array(mean), array(deviation), margin, sensitivity)[0] == pytest.approx(score)


@pytest.mark.parametrize(
    ("requests", "limits", "capacity", "risk"),
    [
        (1000, 2000, 4000, 0),
        (1000, 4000, 4000, 0),
        (2000, 6000, 4000, 0.5),
        (4000, 6000, 4000, 1),
        (5000, 6000, 4000, 1),
        (0, 8000, 4000, 0.5),
    ],
)
def test_risk_of_limits_is_what_the_node_does_not_have_of_what_exceeds_requests(
    requests: int, limits: int, capacity: int, risk: float
) -> None:
    assert rate_limits(array(requests), array(limits), array(capacity))[0] == pytest.approx(risk)


@pytest.mark.parametrize(
    ("mean", "deviation", "requests", "limits", "risk"),
    [
        (0.5, 0.0, 0.5, 2, 0),
        (0.5, 0.0, 0.4, 2, 1),
        (0.0, 0.0, 0.0, 2, 0),
        (1.0, 0.3, 0.5, 2, 1),
        (0.5, math.sqrt(1 / 12), 0.25, 2, 0.75),  # the uniform distribution
        (0.5, math.sqrt(1 / 12), 0.25, 0.5, 0.5),  # and its lower half
        (0.5, math.sqrt(1 / 12), 0.0, 0.0, 0),
        (math.nan, 0.0, 0.0, 2, 0),
    ],
)
def test_risk_of_the_load_is_the_tail_beyond_requests(
    mean: float, deviation: float, requests: float, limits: float, risk: float
) -> None:
    assert rate_load(array(mean), array(deviation), array(requests), array(limits))[0] == pytest.approx(risk)


@pytest.mark.parametrize(("a", "b"), [(1, 1), (2, 3), (1, 40), (40, 1), (30, 70), (400, 350)])
def test_incomplete_beta_function_is_a_binomial_tail(a: int, b: int) -> None:
    n = a + b - 1
    xs = array(0.001, 0.1, 0.3, a / (a + b), 0.6, 0.97)
    expected = [sum(math.comb(n, j) * x**j * (1 - x) ** (n - j) for j in range(a, n + 1)) for x in xs.tolist()]
    found = incomplete_beta(xs, np.full(len(xs), float(a)), np.full(len(xs), float(b)))
    assert found == pytest.approx(expected, abs=1e-8)


def test_share_below_grows_with_the_value_for_any_mean_and_deviation() -> None:
    means, deviations = np.meshgrid(np.linspace(0, 1, 21), [0, 1e-4, 1e-3, 0.01, 0.1, 0.3])
    deviations = np.minimum(deviations, np.sqrt(means * (1 - means) * 0.99))
    shares = np.array([share_below(np.full(means.shape, value), means, deviations) for value in np.linspace(0, 1, 41)])
    assert (np.diff(shares, axis=0) >= -1e-9).all()
    assert (shares[-1] == 1).all()
