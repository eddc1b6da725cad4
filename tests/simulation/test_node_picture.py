"""The picture of the nodes: a square for each, the darker the fuller."""

from __future__ import annotations

import re

from kframework.observe.web.nodes import Fill, Nodes
from kframework.simulation.node_picture import DRAWN, node_picture


def of(count: int, requested: int = 0) -> Nodes:
    fills = [Fill("cpu", [4000] * count, [requested] * count), Fill("gpu", [0] * count, [0] * count)]
    names = [f"n<{number}" for number in range(count)]
    return Nodes(names=names, zones=[], zone=[0] * count, cordoned=[], tainted=[], fills=fills)


def lightness(picture: str) -> list[int]:
    return [int(found) for found in re.findall(r"hsl\(215 70% (\d+)%\)", picture)]


def test_each_node_says_what_is_used() -> None:
    picture = node_picture(of(2, requested=1000))
    assert "<title>n&lt;0; cpu: 1000 of 4000; gpu: 0 of 0</title>" in picture
    assert picture.count("<rect ") == 2


def test_a_fuller_node_is_darker() -> None:
    shades = [lightness(node_picture(of(1, requested)))[0] for requested in (0, 2000, 4000, 9000)]
    assert shades[0] > shades[1] > shades[2] == shades[3]


def test_most_of_many_nodes_are_drawn() -> None:
    picture = node_picture(of(DRAWN + 3))
    assert picture.count("<rect ") == DRAWN
    assert picture.endswith("<p>… and 3 more nodes</p>")
    assert node_picture(of(0)).startswith('<svg width="0" height="0"')
