"""The page of a comparison shows both clusters side by side, and nothing of a cluster gets out of its place in it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec
import pytest

from kframework.simulation.comparison import page
from kframework.simulation.comparison.page import comparison_page
from kframework.simulation.comparison.result import ConfigurationComparison, NodeUse, pair_nodes
from tests.simulation.comparison.test_text import lost, measure, moved, result


class Elements(HTMLParser):
    """The start tags and the texts of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def simulated(*nodes: NodeUse) -> ConfigurationComparison:
    measures = (measure("cpu", 0.5, 0.25, 0.5),)
    return msgspec.structs.replace(result(moved("x"), lost("y")), measures=measures, seeds=(0,), nodes=nodes)


def test_few_nodes_have_bars_on_both_sides() -> None:
    html = comparison_page(simulated(NodeUse("a", {"cpu": 0.5, "memory": 0.25}, {"cpu": 1.0, "memory": 0.25})))
    assert [*map(float, re.findall(r'<rect width="([\d.]+)"', html))] == [50, 25, 100, 25]
    texts = Elements(html).texts
    assert "This change moves 2 of 9,120 pods; 1 no longer fits, because Taints: a taint" in texts
    assert {"Baseline: old.yaml", "New: new.yaml", "50 %", "100 %", "Fit scores b 3 above a"} <= {*texts}
    assert any("1 node marked" in text for text in texts)


def test_many_nodes_are_cells_of_a_map_for_each_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "FEW_NODES", 1)
    monkeypatch.setattr(page, "MAX_CELLS", 2)
    nodes = [NodeUse(name, {"cpu": 0.55}, {"cpu": use}) for name, use in (("a", 1.0), ("b", 0.6), ("c", 0.0))]
    html = comparison_page(simulated(*nodes))
    assert re.findall(r'<rect class="([\w ]+)"', html) == ["f5 changed", "f5", "f10 changed", "f6"]
    assert "<title>a: 100 %</title>" in html and html.count("… and 1 more") == 2


def test_bars_of_a_recording_count_pods() -> None:
    nodes = pair_nodes({"a": {"pods": 4}}, {"a": {"pods": 1}, "b": {"pods": 3}})
    html = comparison_page(msgspec.structs.replace(result(moved("x")), nodes=nodes))
    assert [*map(float, re.findall(r'<rect width="([\d.]+)"', html))] == [100, 0, 25, 75]
    assert {"4 pods", "–", "1 pod", "3 pods"} <= {*Elements(html).texts}


def test_number_of_pods_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_PODS", 2)
    html = comparison_page(result(*(moved(f"pod-{number}") for number in range(5))))
    assert html.count("<td>pod-") == 2 and "… and 3 more" in html


def test_text_of_a_cluster_is_no_markup_and_nothing_is_loaded() -> None:
    hostile = msgspec.structs.replace(moved("<script>alert(1)</script>"), message="<img src=x>\u202e")
    html = comparison_page(msgspec.structs.replace(result(hostile), new="<b>", nodes=(NodeUse("<i>", {}, {}),)))
    assert not {"script", "img", "b", "i"} & {*Elements(html).tags}
    assert "\u202e" not in html
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None and policy[1].startswith("default-src 'none'; style-src 'sha256-")
    assert not re.findall(r"(?:src|href)=\"(?!data:)", html)


def test_comparison_without_differences_has_a_page() -> None:
    html = comparison_page(result())
    assert "This change moves none of 9,120 pods" in html and "<section>" not in html
