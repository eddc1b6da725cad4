"""Series are counted by key, and format_series in Prometheus' text format."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kframework.observe.metrics.families import Family
from kframework.observe.metrics.series import (
    CounterSeries,
    Histogram,
    HistogramSeries,
    ScrapedSeries,
    Series,
    format_go_float,
    format_series,
)

FRUIT = Family("counter", "fruit_total", "[STABLE] Fruit eaten.", ("kind", "taste"))
ALL_FRUIT = Family("counter", "all_fruit_total", "[ALPHA] All fruit eaten.")
BASKETS = Family("gauge", "baskets", "[BETA] Baskets by colour.", ("colour",))
MEALS = Family("histogram", "meal_seconds", "[STABLE] How long meals take.", ("place",), (0.001, 0.5, 1))
ALL_MEALS = Family("histogram", "all_meals", "[STABLE] Courses of all meals.", (), (1, 2))


def as_it_is(key: tuple[str, ...]) -> tuple[str, ...]:
    return key


def text(series: Series) -> str:
    return "".join(format_series(series))


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Read the text as Prometheus' own client does."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_counter_has_a_line_for_each_key() -> None:
    counts = CounterSeries(FRUIT, as_it_is)
    counts["pear", "sweet"] += 2
    counts["apple", "sour"] += 1
    assert text(counts) == (
        "# HELP fruit_total [STABLE] Fruit eaten.\n"
        "# TYPE fruit_total counter\n"
        'fruit_total{kind="apple",taste="sour"} 1\n'
        'fruit_total{kind="pear",taste="sweet"} 2\n'
    )


def test_series_without_counts_is_not_shown() -> None:
    counts = CounterSeries(FRUIT, as_it_is)
    assert text(counts) == ""
    counts["pear", "sweet"] += 2
    counts.reset()
    assert text(counts) == ""


def test_counter_without_labels_is_always_shown() -> None:
    counts = CounterSeries(ALL_FRUIT, as_it_is, always=[()])
    counts[()] += 3
    assert text(counts).endswith("counter\nall_fruit_total 3\n")
    counts.reset()
    assert text(counts).endswith("counter\nall_fruit_total 0\n")


def test_series_keys_are_mapped_to_labels() -> None:
    counts: CounterSeries[int] = CounterSeries(BASKETS, lambda number: (f"colour {number}",))
    counts[7] += 1
    assert samples(text(counts)) == {("baskets", (("colour", "colour 7"),)): 1}


@given(st.text(), st.text())
def test_label_values_are_escaped(kind: str, taste: str) -> None:
    counts = CounterSeries(FRUIT, as_it_is)
    counts[kind, taste] += 1
    assert samples(text(counts)) == {("fruit_total", (("kind", kind), ("taste", taste))): 1}


def meals(*milliseconds: int) -> HistogramSeries[tuple[str, ...]]:
    made = HistogramSeries(MEALS, as_it_is, scale=1000)
    for each in milliseconds:
        made["home",].observe(each)
    return made


def test_histogram_buckets_are_cumulative() -> None:
    assert text(meals(1, 1, 500, 501, 999, 1001, 5000)) == (
        "# HELP meal_seconds [STABLE] How long meals take.\n"
        "# TYPE meal_seconds histogram\n"
        'meal_seconds_bucket{place="home",le="0.001"} 2\n'
        'meal_seconds_bucket{place="home",le="0.5"} 3\n'
        'meal_seconds_bucket{place="home",le="1"} 5\n'
        'meal_seconds_bucket{place="home",le="+Inf"} 7\n'
        'meal_seconds_sum{place="home"} 8.003\n'
        'meal_seconds_count{place="home"} 7\n'
    )


def test_histogram_without_labels_is_always_shown() -> None:
    courses = HistogramSeries(ALL_MEALS, as_it_is, always=[()])
    courses[()].observe(2)
    assert text(courses).splitlines()[2:] == [
        'all_meals_bucket{le="1"} 0',
        'all_meals_bucket{le="2"} 1',
        'all_meals_bucket{le="+Inf"} 1',
        "all_meals_sum 2.0",
        "all_meals_count 1",
    ]
    courses.reset()
    assert set(samples(text(courses)).values()) == {0}


def test_held_series_continues_after_a_reset() -> None:
    histograms = meals(3)
    kept = histograms["home",]
    histograms.reset()
    assert text(histograms) == ""
    kept.observe(7)
    assert samples(text(histograms))["meal_seconds_sum", (("place", "home"),)] == 0.007


def test_bucket_includes_a_value_equal_to_its_bound() -> None:
    """Bounds of 1.5 times the one before are not exact in binary."""
    family = Family("histogram", "x_seconds", "[ALPHA] X.", (), (0.00001 * 1.5**3, 0.1 + 0.2))
    distribution = HistogramSeries(family, as_it_is, scale=10**9)[()]
    for value in (33_750, 33_751, 300_000_000, 300_000_001):
        distribution.observe(value)
    assert distribution.counts == [1, 2, 1]


@given(st.lists(st.integers(0, 3000)), st.lists(st.integers(0, 10**12)), st.sampled_from([1, 100]))
def test_bucket_counts_match_a_simple_count(values: list[int], appended: list[int], times: int) -> None:
    """Values that wait count with the others, however many they are."""
    distribution = Histogram(np.array([1, 500, 1000]))
    for value in values * times:
        distribution.observe(value)
    distribution.pending.extend(appended)
    assert distribution.counts == slowly([*values * times, *appended], (1, 500, 1000))
    assert distribution.total == sum(values) * times + sum(appended)
    distribution.pending.append(7)
    distribution.reset()
    assert (distribution.counts, distribution.total) == ([0, 0, 0, 0], 0)


def test_pending_values_are_flushed_at_a_limit() -> None:
    distribution = Histogram(np.array([1, 2]))
    for value in range(10_000):
        distribution.observe(value)
    assert len(distribution.pending) < 1000


def slowly(values: Iterable[int], bounds: tuple[int, ...]) -> list[int]:
    counts = [0] * (len(bounds) + 1)
    for value in values:
        counts[next((place for place, bound in enumerate(bounds) if value <= bound), len(bounds))] += 1
    return counts


def test_gauge_is_read_when_scraped_and_ignores_reset() -> None:
    baskets = {("red",): 3}
    readings = ScrapedSeries(BASKETS, lambda: baskets)
    assert samples(text(readings)) == {("baskets", (("colour", "red"),)): 3}
    baskets["blue",] = 1
    readings.reset()
    assert list(samples(text(readings)).values()) == [1, 3]


def test_scraped_counter_counts_from_its_reset() -> None:
    eaten = {("pear", "sweet"): 3}
    readings = ScrapedSeries(FRUIT, lambda: eaten)
    readings.reset()
    assert list(samples(text(readings)).values()) == [0]
    eaten["pear", "sweet"] += 2
    eaten["apple", "sour"] = 1
    assert list(samples(text(readings)).values()) == [1, 2]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (1, "1"),
        (0.5, "0.5"),
        (100.0, "100"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (0.000015000000000000002, "1.5000000000000002e-05"),
        (262144.0, "262144"),
        (1048576.0, "1.048576e+06"),
        (1e21, "1e+21"),
    ],
)
def test_numbers_are_formatted_as_in_go(number: float, text: str) -> None:
    assert format_go_float(number) == text


@given(st.floats(min_value=0, allow_nan=False, allow_infinity=False))
def test_formatted_number_parses_to_the_same_value(number: float) -> None:
    assert math.isclose(float(format_go_float(number)), number, rel_tol=0, abs_tol=0)
