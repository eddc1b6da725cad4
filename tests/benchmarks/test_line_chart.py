"""Charts of lines, as drawn."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

from benchmarks.line_chart import Panel, line_chart

SVG = "{http://www.w3.org/2000/svg}"

PANEL = Panel("Nodes", "nodes", (10, 100, 1_000), {"few": [(10, 25), (1_000, 50)], "all & more": [(10, 75), (100, 93)]})


def test_lines_are_drawn_at_their_figures() -> None:
    svg = line_chart("Title", "below it", [PANEL])
    paths = re.findall(r'd="M([^"]*)" fill="none"', svg)
    assert paths == ["56.0 182.5L386.0 135.0", "56.0 87.5L221.0 53.3"]  # 0 to 100, 10 to 1,000


def test_panels_lines_and_axes_have_names() -> None:
    drawn = ElementTree.fromstring(line_chart("A <title>", "below it", [PANEL]))
    texts = [text.text for text in drawn.iter(f"{SVG}text")]
    assert texts == [
        *("A <title>", "below it", "Nodes"),
        *("0", "25", "50", "75", "100"),
        *("1,000", "100", "10", "nodes"),
        *("few", "all & more"),
    ]


def test_numbers_that_would_overlap_are_left_out() -> None:
    svg = line_chart("Title", "below it", [replace(PANEL, marks=(10, 900, 1_000))])
    assert ">1,000<" in svg and ">900<" not in svg
    assert svg.count("v5") == 3, "the marks themselves are there"


def test_panels_are_drawn_two_in_a_row() -> None:
    drawn = ElementTree.fromstring(line_chart("Title", "below it", [PANEL] * 3))
    assert [group.get("transform") for group in drawn.iter(f"{SVG}g")] == [
        "translate(0 62)",
        "translate(420 62)",
        "translate(0 362)",
    ]
    assert drawn.get("viewBox") == "0 0 840 662"
