"""Panels of values over hours: where they are, and what the axes say."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.time_panels import HEIGHT, LEFT, TOP, WIDTH, TimePanels

PANELS = TimePanels(begin=3600, end=3 * 3600, hours=2, most=10, marks={"none": 0, "5 <": 5})


def test_values_are_between_the_corners_of_a_panel() -> None:
    middle = f"{LEFT + WIDTH / 2} {TOP + HEIGHT / 2}"
    assert PANELS.positions([0, 5, 99]) == [f"{LEFT}.0 {TOP + HEIGHT}.0", middle, f"{LEFT + WIDTH}.0 {TOP}.0"]


def test_each_case_has_its_values_and_the_same_axes() -> None:
    picture = ElementTree.fromstring(PANELS.draw("A & B", {"A": ['<path id="a"/>'], "B": ['<path id="b"/>']}))
    svg = "{http://www.w3.org/2000/svg}"
    texts = [[text.text for text in panel.iter(f"{svg}text")] for panel in picture.iter(f"{svg}g")]
    assert texts == [[name, "none", "5 <", "1 h", "3 h"] for name in "AB"]
    assert [panel[1].get("id") for panel in picture.iter(f"{svg}g")] == ["a", "b"]
