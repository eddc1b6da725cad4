"""The Beta distribution: how likely it is that a load between 0 and 1 is at most some value."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[np.float64]

#: A deviation below this is none: it would not change a score, and the series would be long.
_LEAST_DEVIATION = 1e-3

#: When the continued fraction is exact enough, and a number of steps that it never takes.
_EXACT, _MOST_STEPS = 1e-9, 2000

#: What takes the place of zero in a denominator.
_TINY = 1e-300

_log_gamma = np.vectorize(math.lgamma, otypes=[np.float64])


def share_below(value: _Array, mean: _Array, deviation: _Array) -> _Array:
    """Return the chance of at most `value` in the Beta distribution of this mean and deviation.

    Without a deviation, or with a mean of 0 or 1, all is at the mean. NaN gives NaN.
    """
    shared = np.broadcast_arrays(value, mean, deviation)
    value, mean, deviation = (np.asarray(each, dtype=np.float64) for each in shared)
    found: _Array = np.where(mean <= value, 1.0, 0.0)
    found[np.isnan(mean)] = np.nan
    spread = (deviation >= _LEAST_DEVIATION) & (mean > 0) & (mean < 1)
    inside = spread & (value > 0) & (value < 1)
    found[spread & (value <= 0)] = 0.0
    found[spread & (value >= 1)] = 1.0
    strength = np.maximum(mean[inside] * (1 - mean[inside]) / deviation[inside] ** 2 - 1, _TINY)
    found[inside] = incomplete_beta(value[inside], mean[inside] * strength, (1 - mean[inside]) * strength)
    return found


def incomplete_beta(x: _Array, a: _Array, b: _Array) -> _Array:
    """Return the regularized incomplete beta function, for x between 0 and 1 and positive a and b.

    By the continued fraction (DLMF 8.17.22), which converges fast below the mean; above it by symmetry.
    """
    swap = x > (a + 1) / (a + b + 2)
    x, a, b = np.where(swap, 1 - x, x), np.where(swap, b, a), np.where(swap, a, b)
    log_factor = _log_gamma(a + b) - _log_gamma(a) - _log_gamma(b) + a * np.log(x) + b * np.log1p(-x)
    found = np.exp(log_factor) / a * _continued_fraction(x, a, b)
    shares: _Array = np.clip(np.where(swap, 1 - found, found), 0, 1)
    return shares


def _continued_fraction(x: _Array, a: _Array, b: _Array) -> _Array:
    """Evaluate it by Lentz's method, two terms a step."""
    c = np.ones_like(x)
    d = 1 / _not_zero(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, _MOST_STEPS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _not_zero(1 + term * d)
            c = _not_zero(1 + term / c)
            fraction = fraction * d * c
        if not len(x) or np.abs(d * c - 1).max() < _EXACT:
            break
    return fraction


def _not_zero(values: _Array) -> _Array:
    return np.where(np.abs(values) < _TINY, _TINY, values)
