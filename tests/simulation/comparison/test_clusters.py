"""The same arrivals under several configurations."""

from __future__ import annotations

from pathlib import Path

import pytest

import kframework
from kframework.explain.causes import Origin
from kframework.simulation.comparison import clusters
from kframework.simulation.comparison.result import PodChange
from kframework.testing import make_node, make_pod
from tests.simulation.test_simulation import DOCUMENT, MINE

OBJECTS = [make_node("a", cpu=1), make_pod("one", cpu=1), make_pod("two", cpu=1)]
KIND = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
PACKED = {
    **KIND,
    "profiles": [
        {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}]}
    ],
}
OVERCOMMITTED = {**KIND, "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}}]}
#: Both pods go to the small node under PACKED.
TWO_SIZES = [
    make_node("large", cpu=16),
    make_node("small", cpu=4),
    make_pod("first", cpu=1),
    make_pod("second", cpu=1),
]


def test_comparison_has_a_simulation_per_configuration() -> None:
    compared = kframework.compare(OBJECTS, {"default": None, "mine": DOCUMENT}, plugins=[MINE])
    assert list(compared) == ["default", "mine"]
    # Without a file the default profile has the plugins given.
    assert [outcome.node for outcome in compared["default"].outcomes] == [None, None]
    assert not kframework.compare(OBJECTS, {})


def test_comparison_table_has_the_results() -> None:
    compared = kframework.compare(OBJECTS, {"default": None, "overcommitted": OVERCOMMITTED})
    found = {row["configuration"]: (row["bound"], row["pending"], row["moved"]) for row in compared.to_dicts()}
    assert found == {"default": (1, 1, 0), "overcommitted": (2, 0, 1)}
    assert compared.moved("overcommitted") == {"default/two": (None, "a")}
    assert repr(compared).startswith("CONFIGURATION  MOVED  BOUND")
    assert compared._repr_html_().startswith("<table>")


def test_compared_cluster_file_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
    )
    compared = kframework.compare(file, {"one": None, "two": None})
    assert [len(each.outcomes) for each in compared.values()] == [1, 1]


def test_each_pod_that_moves_has_its_cause() -> None:
    first, second = kframework.compare(TWO_SIZES, {"default": None, "packed": PACKED}).result("packed").differences
    assert (first.pod, first.baseline, first.new, first.change) == ("default/first", "large", "small", "other node")
    assert first.cause is not None and first.cause.origin is Origin.CONFIGURATION
    assert first.message.startswith("NodeResourcesFit scores small ")
    assert second.pod == "default/second" and second.cause is not None


def test_pod_that_earlier_pods_send_elsewhere_is_told_apart() -> None:
    small = make_node("small", cpu=4, labels={"size": "s"})
    picky = make_pod("picky", cpu=2, node_selector={"size": "s"})
    objects = [make_node("large", cpu=16), small, make_pod("first", cpu=3), picky]
    result = kframework.compare(objects, {"default": None, "packed": PACKED}).result("packed")
    assert [(each.pod, each.change) for each in result.differences] == [
        ("default/picky", PodChange.FITS_NO_MORE),
        ("default/first", PodChange.OTHER_NODE),
    ]
    cause = result.differences[0].cause
    assert cause is not None and cause.origin is Origin.EARLIER_PODS
    assert cause.message == "NodeResourcesFit rejects small: Insufficient cpu, as earlier pods went elsewhere"


def test_decisions_are_those_of_a_simulation_that_is_not_compared() -> None:
    compared = kframework.compare(TWO_SIZES, {"default": None, "packed": PACKED})
    assert compared["packed"].to_dicts() == kframework.simulate(TWO_SIZES, PACKED).to_dicts()


def test_number_of_examined_decisions_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "MAX_CAUSES", 1)
    result = kframework.compare(TWO_SIZES, {"default": None, "packed": PACKED}).result("packed")
    assert [each.cause is None for each in result.differences] == [False, True]


def test_configurations_of_two_minors_are_compared_without_causes() -> None:
    older = {"apiVersion": "kframework.dev/v1", "kind": "KFrameworkConfiguration", "emulatedVersion": "1.36"}
    result = kframework.compare(OBJECTS, {"older": older, "overcommitted": OVERCOMMITTED}).result("overcommitted")
    assert [(each.pod, each.cause) for each in result.differences] == [("default/two", None)]


def test_seeds_are_those_from_the_first_on_for_all() -> None:
    nodes = [make_node(f"node-{number}") for number in range(4)]
    compared = kframework.compare([*nodes, make_pod("p")], {"one": None, "two": PACKED}, seed=7, seeds=3)
    assert {name: list(measures) for name, measures in compared.measures.items()} == {
        "one": [7, 8, 9],
        "two": [7, 8, 9],
    }
    assert compared.result("two").seeds == (7, 8, 9)
    # All seeds agree about them.
    assert all(each.baseline_margin in (0, None) for each in compared.result("two").measures)
