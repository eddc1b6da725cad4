from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.objects import Affinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec
from kframework.objects import NodeAffinity as AffinityToNodes
from kframework.objects.node_selectors import preferred_node_score, required_node_affinity
from kframework.state import selection
from kframework.state.cluster import ClusterState
from kframework.testing import make_node

VALUES = st.sampled_from(["", "x", "y", "5", "-7", "007"])
LABELS = st.dictionaries(st.sampled_from("ab"), VALUES)
EXPRESSIONS = st.builds(
    NodeSelectorRequirement,
    key=st.sampled_from("abc"),
    operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Nonsense"]),
    values=st.lists(VALUES, max_size=2).map(tuple),
)
FIELDS = st.builds(
    NodeSelectorRequirement,
    key=st.sampled_from(["metadata.name", "metadata.name", "metadata.other"]),
    operator=st.sampled_from(["In", "NotIn", "Exists"]),
    values=st.lists(st.sampled_from(["n0", "n1", "n9", ""]), min_size=1, max_size=2).map(tuple),
)
TERMS = st.builds(
    NodeSelectorTerm,
    match_expressions=st.lists(EXPRESSIONS, max_size=2).map(tuple),
    match_fields=st.lists(FIELDS, max_size=1).map(tuple),
)

NAMED_N1 = {"key": "metadata.name", "operator": "In", "values": ["n1"]}


def spec_of(labels: Mapping[str, str], terms: list[NodeSelectorTerm] | None) -> PodSpec:
    required = None if terms is None else NodeSelector(node_selector_terms=tuple(terms))
    affinity = AffinityToNodes(required_during_scheduling_ignored_during_execution=required)
    return PodSpec(node_selector=dict(labels), affinity=Affinity(node_affinity=affinity))


def cluster_of(labels: list[Mapping[str, str]]) -> ClusterState:
    cluster = ClusterState()
    for place, each in enumerate(labels):
        cluster.put_node(make_node(f"n{place}", labels=each))
    return cluster


@given(st.lists(LABELS, max_size=5), LABELS, st.none() | st.lists(TERMS, max_size=3))
def test_match_of_many_rows_agrees_with_each_row(
    nodes: list[Mapping[str, str]], labels: Mapping[str, str], terms: list[NodeSelectorTerm] | None
) -> None:
    table, spec = cluster_of(nodes).nodes, spec_of(labels, terms)
    alone = required_node_affinity(spec)
    expected = [alone is None or alone(node.labels, node.name) for node in table]
    assert selection.match_required(table, spec, table.order).tolist() == expected
    assert selection.match_required(table, spec, slice(0, table.capacity))[table.order].tolist() == expected


@pytest.mark.parametrize(
    ("preferred", "scores"),
    [
        ([], [0, 0, 0]),
        ([{"weight": 3, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}], [3, 3, 0]),
        (
            [
                {"weight": 3, "preference": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}},
                {
                    "weight": 5,
                    "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
                },
                {"weight": 7, "preference": {}},
            ],
            [0, 8, 0],
        ),
    ],
)
def test_weights_add_up(preferred: list[object], scores: list[int]) -> None:
    table = cluster_of([{"a": "1"}, {"a": "2"}, {}]).nodes
    affinity = msgspec.convert({"preferredDuringSchedulingIgnoredDuringExecution": preferred}, AffinityToNodes)
    terms = affinity.preferred_during_scheduling_ignored_during_execution
    assert selection.score_preferred(table, terms, table.order).tolist() == scores
    alone = preferred_node_score(terms)
    assert [alone(node.labels, node.name) for node in table] == scores


def test_labels_that_come_later_are_seen() -> None:
    cluster = cluster_of([{"a": "x"}, {}])
    nodes = cluster.nodes
    assert selection.match_labels(nodes, {"a": "y"}, nodes.order).tolist() == [False, False]
    cluster.put_node(make_node("n1", labels={"a": "y"}))
    assert selection.match_labels(nodes, {"a": "y"}, nodes.order).tolist() == [False, True]
    assert selection.match_labels(nodes, {}, nodes.order[:1]).dtype == np.bool_
