"""The picture of a summary has a panel for each measure, and a row with mean and interval for each configuration."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from kframework.simulation.measures import SimulationMeasures
from kframework.simulation.sweep.picture import draw_summary
from kframework.simulation.sweep.summary import Estimate, Summary

_NONE = Estimate(None, None, None, None)


def summary(**measures: tuple[Estimate, Estimate]) -> Summary:
    """Return the summary of two configurations with these measures alone."""
    everything = dict.fromkeys(SimulationMeasures.__struct_fields__, (_NONE, _NONE)) | measures
    return {name: {key: pair[index] for key, pair in everything.items()} for index, name in enumerate(("a", "b & c"))}


def numbers(text: str, pattern: str) -> list[float]:
    return [float(each) for each in re.findall(pattern, text)]


def test_measures_without_values_have_no_panel() -> None:
    drawn = draw_summary(summary(cpu=(Estimate(0.5, 0.1, None, None), Estimate(0.7, None, 0.2, 0.5))))
    texts = [each.text for each in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert "CPU in use" in texts and "fragmentation" not in texts and texts.count("b & c") == 1


def test_intervals_are_around_their_means_and_larger_figures_further_right() -> None:
    drawn = draw_summary(summary(cpu=(Estimate(0.5, 0.1, None, None), Estimate(0.7, 0.0, 0.2, 0.5))))
    first, second = numbers(drawn, r'cx="([\d.]+)"')
    low, high = re.findall(r'd="M([\d.]+) [\d.]+H([\d.]+)M', drawn)[0]
    assert float(low) < first < float(high) < second
    assert float(low) + float(high) == pytest.approx(2 * first, abs=0.2)


def test_differences_beyond_chance_are_filled() -> None:
    drawn = draw_summary(summary(cpu=(Estimate(0.5, 0.1, None, None), Estimate(0.7, 0.1, 0.2, 0.01))))
    assert re.findall(r'r="4.5" fill="(#\w+)"', drawn) == ["#ffffff", "#d55e00"]


@pytest.mark.parametrize("figure", [0.0, 1.0, 1e6])
def test_equal_figures_are_drawn_beside_a_mark(figure: float) -> None:
    drawn = draw_summary(summary(preempted=(Estimate(figure, None, None, None), Estimate(figure, 0.0, 0.0, 1.0))))
    assert len(set(numbers(drawn, r'cx="([\d.]+)"'))) == 1
    marks = numbers(drawn, r'text-anchor="middle"[^>]*>([-\d.e+]+)<')
    assert marks and min(marks) >= 0
