"""A comparison in words: for people, and for a pull request."""

from __future__ import annotations

import msgspec
import pytest

from kframework.explain.causes import DifferenceCause, Origin, ScoreChange
from kframework.simulation.comparison import text
from kframework.simulation.comparison.result import (
    ConfigurationComparison,
    MeasureDifference,
    PodChange,
    PodDifference,
)
from kframework.simulation.comparison.text import (
    format_markdown,
    headline,
    measure_rows,
    measures_note,
    pod_rows,
    wide_pod_rows,
)

SCORES = DifferenceCause(
    origin=Origin.CONFIGURATION,
    plugin="Fit",
    message="Fit scores b 3 above a",
    scores=(ScoreChange("Fit", -4, 3), ScoreChange("Zone", None, 1)),
)
TAINT = DifferenceCause(
    origin=Origin.CONFIGURATION, plugin="Taints", reason="a taint", message="Taints rejects a: a taint"
)


def moved(pod: str, cause: DifferenceCause | None = SCORES) -> PodDifference:
    message = "" if cause is None else cause.message
    return PodDifference(
        pod=pod, change=PodChange.OTHER_NODE, baseline="a", new="b", message=message, cause=cause, attempt=7
    )


def lost(pod: str) -> PodDifference:
    return PodDifference(
        pod=pod, change=PodChange.FITS_NO_MORE, baseline="a", new="", message=TAINT.message, cause=TAINT
    )


def result(*differences: PodDifference, pods: int = 9_120) -> ConfigurationComparison:
    return ConfigurationComparison.from_differences("old.yaml", "new.yaml", pods, differences)


def measure(name: str, baseline: float | None, new: float, probability: float) -> MeasureDifference:
    return MeasureDifference(
        measure=name,
        baseline=baseline,
        baseline_margin=0.125,
        new=new,
        new_margin=None,
        difference=None if baseline is None else new - baseline,
        probability=probability,
    )


@pytest.mark.parametrize(
    ("compared", "sentence"),
    [
        (result(), "This change moves none of 9,120 pods"),
        (result(moved("x"), pods=1), "This change moves 1 of 1 pod"),
        (result(moved("x"), lost("y")), "This change moves 2 of 9,120 pods; 1 no longer fits, because Taints: a taint"),
        (
            result(*(lost(f"{number}") for number in range(4))),
            "This change moves 4 of 9,120 pods; 4 no longer fit, because Taints: a taint",
        ),
    ],
)
def test_headline_counts_the_pods_that_move(compared: ConfigurationComparison, sentence: str) -> None:
    assert headline(compared) == sentence


def test_rows_have_both_nodes_and_the_reason() -> None:
    assert [*pod_rows(result(moved("x"), lost("y")))] == [
        ("y", "a", "<none>", "fits no more", "Taints rejects a: a taint"),
        ("x", "a", "b", "other node", "Fit scores b 3 above a"),
    ]


def test_wide_rows_have_the_leads_by_plugin() -> None:
    (first, second) = wide_pod_rows(result(moved("x"), moved("y", None)))
    assert first[0] == "x" and first[-4:] == ("7", "Fit", "Fit -4 → +3, Zone <none> → +1", "Fit scores b 3 above a")
    assert second[-3:-1] == ("<none>", "<none>")


def test_measures_have_margins_and_marks() -> None:
    measures = (measure("wait_p50", 1.0, 3.5, 0.01), measure("cpu", 0.5, 0.25, 0.5), measure("none", None, 1.0, 1.0))
    compared = msgspec.structs.replace(result(), measures=measures, seeds=(0, 1))
    assert [*measure_rows(compared)] == [
        ("wait p50", "1 ±0.12", "3.5", "+2.5*"),
        ("cpu", "0.5 ±0.12", "0.25", "-0.25"),
        ("none", "<none>", "1", ""),
    ]
    assert measures_note(compared).startswith("means over 2 seeds")
    assert measures_note(msgspec.structs.replace(compared, seeds=(0,))).startswith("one seed: ")
    same = measure("cpu", 0.5, 0.5, 1.0)
    assert measures_note(msgspec.structs.replace(compared, measures=(same,))) == ""
    assert measures_note(result()).startswith("no waiting times or utilisation: a recording ")


def test_markdown_begins_with_the_headline_and_folds_the_pods() -> None:
    compared = msgspec.structs.replace(result(moved("x"), lost("y")), source=("run.rec",))
    lines = format_markdown(compared).splitlines()
    assert lines[0] == "### This change moves 2 of 9,120 pods; 1 no longer fits, because Taints: a taint"
    assert lines[2] == "new.yaml compared with old.yaml on run.rec."
    assert "| 1 | fits no more | Taints: a taint |" in lines
    assert lines.index("<details><summary>2 pods</summary>") < lines.index(
        "| y | a | &lt;none&gt; | fits no more | Taints rejects a: a taint |"
    )
    assert "| Measure | Baseline | New | Difference |" not in lines


def test_markdown_lists_a_limited_number_of_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MAX_MARKDOWN_PODS", 2)
    lines = format_markdown(result(*(moved(f"pod-{number}") for number in range(5)))).splitlines()
    assert sum(line.startswith("| pod-") for line in lines) == 2
    assert "… and 3 more" in lines


def test_text_of_a_plugin_cannot_break_out_of_its_cell() -> None:
    hostile = DifferenceCause(
        origin=Origin.CONFIGURATION, plugin="P", reason="r", message="<b>|`x`| @everyone\n# [a](http://b)"
    )
    (line,) = [line for line in format_markdown(result(moved("x", hostile))).splitlines() if "everyone" in line]
    assert "<b>" not in line and "@everyone" not in line and "\\n\\# \\[a\\](http" in line
    assert line.replace("\\|", "").count("|") == 6
