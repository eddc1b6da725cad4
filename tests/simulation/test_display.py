"""Results show themselves: tables, explanations, and the picture of the nodes."""

from __future__ import annotations

import re

import kframework
from kframework.core.cycle.records import Record
from kframework.observe.web.nodes import NodeColumns, Utilisation
from kframework.simulation.display import MAX_DRAWN_NODES, MAX_ROWS, Table, node_picture
from kframework.testing import make_node, make_pod


class Row(Record, frozen=True):
    name: str
    share: float | None = None
    hidden: int = 1


def table(*rows: Row) -> Table[Row]:
    return Table(rows, ("name", "share"), share=lambda each: each.share)


def test_table_repr_is_a_text_table() -> None:
    assert repr(table(Row("a", 0.5), Row("bb"))).split("\n") == ["NAME  SHARE", "a     0.50", "bb"]


def test_table_is_a_sequence() -> None:
    rows = table(Row("a"), Row("b"), Row("c"))
    assert (len(rows), rows[1].name, [each.name for each in rows[1:]]) == (3, "b", ["b", "c"])
    assert isinstance(rows[:2], Table)


def test_table_dictionaries_have_all_fields() -> None:
    rows = [Row(str(number)) for number in range(MAX_ROWS + 2)]
    assert table(*rows).to_dicts()[-1] == {"name": str(MAX_ROWS + 1), "share": None, "hidden": 1}
    assert repr(table(*rows)).endswith("… and 2 more")


def test_table_html_escapes_cluster_text() -> None:
    html = table(Row("<script>\x1b[2J", 1.0))._repr_html_()
    assert "&lt;script&gt;\\x1b[2J</td><td>1.00</td>" in html
    assert html.startswith("<table><thead><tr><th>name</th><th>share</th></tr></thead>")


def test_explanation_prints_as_text() -> None:
    explained = kframework.simulate([make_node("a", cpu=1), make_pod("big", cpu=2)]).explain("big")
    assert repr(explained) == str(explained)
    assert str(explained).startswith("Pod:")
    html = explained._repr_html_()
    assert html.startswith("<pre>Pod:") and "&lt;none&gt;" in html
    assert explained.to_dict()["attempts"] == explained.explanation.attempts == 1


def nodes(count: int, requested: int = 0) -> NodeColumns:
    fills = [Utilisation("cpu", [4000] * count, [requested] * count), Utilisation("gpu", [0] * count, [0] * count)]
    names = [f"n<{number}" for number in range(count)]
    return NodeColumns(names=names, zones=[], zone=[0] * count, cordoned=[], tainted=[], utilisation=fills)


def lightness(picture: str) -> list[int]:
    return [int(found) for found in re.findall(r"hsl\(215 70% (\d+)%\)", picture)]


def test_node_picture_has_usage_tooltips() -> None:
    picture = node_picture(nodes(2, requested=1000))
    assert "<title>n&lt;0; cpu: 1000 of 4000; gpu: 0 of 0</title>" in picture
    assert picture.count("<rect ") == 2


def test_fuller_node_is_drawn_darker() -> None:
    shades = [lightness(node_picture(nodes(1, requested)))[0] for requested in (0, 2000, 4000, 9000)]
    assert shades[0] > shades[1] > shades[2] == shades[3]


def test_drawn_nodes_are_limited() -> None:
    picture = node_picture(nodes(MAX_DRAWN_NODES + 3))
    assert picture.count("<rect ") == MAX_DRAWN_NODES
    assert picture.endswith("<p>… and 3 more nodes</p>")
    assert node_picture(nodes(0)).startswith('<svg width="0" height="0"')
