"""A comparison counts its differences, by importance and by reason."""

from __future__ import annotations

import json

import msgspec
import pytest

from kframework.explain.causes import DifferenceCause, Origin
from kframework.simulation.comparison.result import (
    ConfigurationComparison,
    PodChange,
    PodDifference,
    find_change,
    measure_differences,
)
from kframework.simulation.sweep.summary import Estimate

TAINT = DifferenceCause(
    origin=Origin.CONFIGURATION, plugin="TaintToleration", reason="a taint", message="rejects t: a taint"
)


def difference(pod: str, change: PodChange, cause: DifferenceCause | None = None) -> PodDifference:
    return PodDifference(pod=pod, change=change, baseline="a", new="b", cause=cause)


def test_differences_are_counted_and_sorted_by_importance() -> None:
    result = ConfigurationComparison.from_differences(
        "old",
        "new",
        9,
        [
            difference("waits", PodChange.OTHER_REASONS),
            difference("moves", PodChange.OTHER_NODE),
            difference("one", PodChange.FITS_NO_MORE, TAINT),
            difference("two", PodChange.FITS_NO_MORE, TAINT),
        ],
    )
    assert [each.pod for each in result.differences] == ["one", "two", "moves", "waits"]
    assert (result.pods, result.moved) == (9, 3)
    assert result.changes == {"fits no more": 2, "other node": 1, "other reasons": 1}
    assert (result.causes[0].reason, result.causes[0].pods) == ("TaintToleration: a taint", 2)


def test_json_has_a_version_and_can_be_read_back() -> None:
    result = ConfigurationComparison.from_differences("old", "new", 1, [difference("a", PodChange.FITS_NOW, TAINT)])
    text = msgspec.json.encode(result)
    assert json.loads(text)["apiVersion"] == "kframework.dev/v1"
    assert msgspec.json.decode(text, type=ConfigurationComparison) == result


@pytest.mark.parametrize(
    ("baseline", "new", "change"),
    [
        ("a", "a", None),
        ("a", "b", PodChange.OTHER_NODE),
        ("a", "", PodChange.FITS_NO_MORE),
        ("", "a", PodChange.FITS_NOW),
        (None, "a", PodChange.ONLY_NEW),
        ("", None, PodChange.ONLY_BASELINE),
    ],
)
def test_change_is_that_between_two_nodes(baseline: str | None, new: str | None, change: PodChange | None) -> None:
    assert find_change(baseline, new) is change


def test_measures_of_both_configurations_are_paired() -> None:
    old, new = Estimate(1.0, 0.1, None, None), Estimate(3.0, 0.2, 2.0, 0.03)
    (found,) = measure_differences({"old": {"cpu": old}, "new": {"cpu": new}})
    assert (found.measure, found.baseline, found.new, found.difference) == ("cpu", 1.0, 3.0, 2.0)
    assert found.is_significant
