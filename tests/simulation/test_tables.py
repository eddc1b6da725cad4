"""Tables of records: printed, shown in a notebook, and given away whole."""

from __future__ import annotations

import msgspec

from kframework.simulation.tables import SHOWN, Table


class Row(msgspec.Struct, frozen=True):
    name: str
    share: float | None = None
    hidden: int = 1


def table(*rows: Row) -> Table[Row]:
    return Table(rows, {"name": lambda each: each.name, "share": lambda each: each.share})


def test_it_prints_as_a_table() -> None:
    assert repr(table(Row("a", 0.5), Row("bb"))).split("\n") == ["NAME  SHARE", "a     0.50", "bb"]


def test_it_is_a_sequence() -> None:
    rows = table(Row("a"), Row("b"), Row("c"))
    assert (len(rows), rows[1].name, [each.name for each in rows[1:]]) == (3, "b", ["b", "c"])
    assert isinstance(rows[:2], Table)


def test_dictionaries_leave_nothing_out() -> None:
    rows = [Row(str(number)) for number in range(SHOWN + 2)]
    assert table(*rows).to_dicts()[-1] == {"name": str(SHOWN + 1), "share": None, "hidden": 1}
    assert repr(table(*rows)).endswith("… and 2 more")


def test_a_notebook_shows_what_stands_in_a_cluster_as_text() -> None:
    html = table(Row("<script>\x1b[2J", 1.0))._repr_html_()
    assert "&lt;script&gt;\\x1b[2J</td><td>1.00</td>" in html
    assert html.startswith("<table><thead><tr><th>name</th><th>share</th></tr></thead>")
