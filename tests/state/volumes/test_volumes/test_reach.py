"""From where volumes are reached: every rule as a table, and both forms against Kubernetes' rule on random labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.objects import LabelSelector, TopologySelectorTerm, VolumeNodeAffinity
from kframework.state.volumes.volumes import ANY_NODE, VolumeTopology
from kframework.testing import make_node
from tests.plugins.asking import cluster_of
from tests.support.storage import affinity, label_affinity

LABELS: list[dict[str, str]] = [
    {},
    {"zone": "a"},
    {"zone": "b"},
    {"zone": "a", "disk": "ssd"},
    {"disk": "ssd"},
    {"cores": "8"},
]


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def term(*expressions: Mapping[str, Any], fields: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    return {"matchExpressions": list(expressions), "matchFields": list(fields)}


def of_volume(stated: Mapping[str, Any] | None) -> VolumeTopology:
    return VolumeTopology.from_node_affinity(
        msgspec.convert(stated, VolumeNodeAffinity) if stated is not None else None
    )


def of_class(*terms: Mapping[str, list[str]]) -> VolumeTopology:
    stated = [{"matchLabelExpressions": [{"key": key, "values": v} for key, v in each.items()]} for each in terms]
    return VolumeTopology.from_allowed_topologies(msgspec.convert(stated, tuple[TopologySelectorTerm, ...]))


def of_capacity(stated: Mapping[str, Any] | None) -> VolumeTopology:
    return VolumeTopology.from_selector(msgspec.convert(stated, LabelSelector) if stated is not None else None)


def reached(reach: VolumeTopology) -> list[int]:
    """Ask about a node of each of the LABELS in both forms; return the numbers of those that are reached."""
    cluster = cluster_of(make_node(f"n{number}", labels=labels) for number, labels in enumerate(LABELS))
    nodes = cluster.nodes
    scalar = [
        number for number, labels in enumerate(LABELS) if reach.includes(nodes[row(cluster.nodes, number)].labels)
    ]
    covered = reach.mask(nodes, nodes.order)
    columnar = [int(nodes[int(each)].name[1:]) for each, there in zip(nodes.order, covered, strict=True) if there]
    assert sorted(columnar) == scalar
    return scalar


def row(nodes: Any, number: int) -> int:
    found = nodes.row(f"n{number}")
    assert isinstance(found, int)
    return found


EVERYWHERE = list(range(len(LABELS)))
NAMED = [expression("metadata.name", "In", "n0")]


@pytest.mark.parametrize(
    ("stated", "nodes"),
    [
        (None, EVERYWHERE),
        ({}, EVERYWHERE),
        (affinity(), []),
        (affinity({}), []),
        (label_affinity("zone", "a"), [1, 3]),
        (label_affinity("zone", "a", "b"), [1, 2, 3]),
        (label_affinity("zone", "nowhere"), []),
        (affinity(term(expression("zone", "Exists"), expression("disk", "DoesNotExist"))), [1, 2]),
        (affinity(term(expression("zone", "NotIn", "a"))), [0, 2, 4, 5]),
        (affinity(term(expression("cores", "Gt", "4"))), [5]),
        (affinity(term(expression("zone", "In", "b")), term(expression("disk", "In", "ssd"))), [2, 3, 4]),
        # Fields of a node are not looked at, but a term that does not parse matches no node.
        (affinity(term(fields=NAMED)), EVERYWHERE),
        (affinity(term(expression("zone", "In", "b"), fields=NAMED)), [2]),
        (affinity(term(fields=[expression("metadata.name", "Exists")])), []),
        (affinity(term(expression("zone", "In"))), []),
        (affinity(term(expression("zone", "In")), term(expression("zone", "In", "b"))), [2]),
    ],
)
def test_node_affinity_of_a_volume_limits_its_nodes(stated: Mapping[str, Any] | None, nodes: list[int]) -> None:
    assert reached(of_volume(stated)) == nodes


@pytest.mark.parametrize(
    ("terms", "nodes"),
    [
        ((), EVERYWHERE),
        (({},), []),
        (({"zone": ["a"]},), [1, 3]),
        (({"zone": ["a"], "disk": ["ssd"]},), [3]),
        (({"zone": ["b"]}, {"disk": ["ssd"]}), [2, 3, 4]),
        (({"zone": []}, {}), []),
    ],
)
def test_allowed_topologies_of_a_class(terms: tuple[Mapping[str, list[str]], ...], nodes: list[int]) -> None:
    assert reached(of_class(*terms)) == nodes


@pytest.mark.parametrize(
    ("stated", "nodes"),
    [
        (None, []),
        ({}, EVERYWHERE),
        ({"matchLabels": {"zone": "a"}}, [1, 3]),
        ({"matchLabels": {"zone": "a"}, "matchExpressions": [expression("disk", "Exists")]}, [3]),
        ({"matchExpressions": [expression("zone", "NotIn", "a")]}, [0, 2, 4, 5]),
        ({"matchExpressions": [expression("cores", "Gt", "4")]}, []),
    ],
)
def test_topology_of_a_capacity_limits_its_nodes(stated: Mapping[str, Any] | None, nodes: list[int]) -> None:
    assert reached(of_capacity(stated)) == nodes


@pytest.mark.parametrize(
    ("stated", "pair"),
    [
        (None, None),
        (label_affinity("zone", "a", "b"), ("zone", ("a", "b"))),
        (affinity(term(expression("zone", "In", "a"), fields=NAMED)), ("zone", ("a",))),
        (affinity(term(expression("zone", "NotIn", "a"))), None),
        (affinity(term(expression("zone", "In", "a"), expression("disk", "In", "ssd"))), None),
        (affinity(term(expression("zone", "In", "a")), term(expression("zone", "In", "b"))), None),
        (affinity(), None),
    ],
)
def test_one_label_may_decide_alone(stated: Mapping[str, Any] | None, pair: tuple[str, tuple[str, ...]] | None) -> None:
    assert of_volume(stated).label_values == pair


EXPRESSIONS = st.builds(
    lambda key, operator, values: expression(key, operator, *values),
    st.sampled_from(["zone", "disk", "cores", "none"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    st.lists(st.sampled_from(["a", "b", "ssd", "4", "8"]), max_size=2),
)
TERMS = st.builds(lambda each: term(*each), st.lists(EXPRESSIONS, max_size=2))


@given(st.lists(TERMS, max_size=3))
def test_both_forms_agree(terms: list[Mapping[str, Any]]) -> None:
    reached(of_volume(affinity(*terms)))


def test_anywhere_is_anywhere() -> None:
    assert reached(ANY_NODE) == EVERYWHERE
    assert ANY_NODE.anywhere and not of_volume(label_affinity("zone", "a")).anywhere
