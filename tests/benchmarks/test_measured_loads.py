"""The benchmark of measured loads: the pods that come, and the picture."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.measured_loads import LENGTH, NODES, Course, band_chart, make_arrivals


def test_same_seed_brings_the_same_pods() -> None:
    arrivals = make_arrivals(seed=3)
    assert arrivals == make_arrivals(seed=3) != make_arrivals(seed=4)
    assert 0 == arrivals[0].seconds < arrivals[-1].seconds < LENGTH


def test_picture_has_a_panel_with_all_nodes_for_each_case() -> None:
    course = Course([])
    course.busy = {f"n{number}": [0.5] * 100 for number in range(NODES)}
    picture = ElementTree.fromstring(band_chart({"One": course, "Other": course}))
    lines = [
        path.get("d", "") for path in picture.iter("{http://www.w3.org/2000/svg}path") if path.get("fill") == "none"
    ]
    assert [line.count("M") for line in lines] == [NODES] * 4
