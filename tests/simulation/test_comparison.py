"""The same arrivals under several configurations."""

from __future__ import annotations

from pathlib import Path

import kframework
from kframework.testing import make_node, make_pod
from tests.simulation.test_simulation import DOCUMENT, MINE

OBJECTS = [make_node("a", cpu=1), make_pod("one", cpu=1), make_pod("two", cpu=1)]


def test_comparison_has_a_simulation_per_configuration() -> None:
    compared = kframework.compare(OBJECTS, {"default": None, "mine": DOCUMENT}, plugins=[MINE])
    assert list(compared) == ["default", "mine"]
    # Without a file the default profile has the plugins given.
    assert [outcome.node for outcome in compared["default"].outcomes] == [None, None]
    assert len(compared) == 2


def test_comparison_table_has_the_results() -> None:
    other = {**DOCUMENT, "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}}]}
    compared = kframework.compare(OBJECTS, {"default": None, "overcommitted": other})
    found = {row["configuration"]: (row["bound"], row["pending"], row["moved"]) for row in compared.to_dicts()}
    assert found == {"default": (1, 1, 0), "overcommitted": (2, 0, 1)}
    assert compared.moved("overcommitted") == {"default/two": (None, "a")}
    assert repr(compared).startswith("CONFIGURATION  BOUND")
    assert compared._repr_html_().startswith("<table>")


def test_compared_cluster_file_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
    )
    compared = kframework.compare(file, {"one": None, "two": None})
    assert [len(each.outcomes) for each in compared.values()] == [1, 1]
