"""Node selectors and node affinity as functions of a node's labels and name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given

from kframework.objects.label_selectors import SelectorError
from kframework.objects.node import NodeSelectorTerm
from kframework.objects.node_selectors import (
    NodeSelectorTerms,
    pinned_nodes,
    preferred_node_score,
    required_node_affinity,
)
from kframework.objects.pod import PodSpec, PreferredSchedulingTerm
from tests.objects.requirements_drawn import expressions, requirements, slowly, some_labels

Term = dict[str, Any]


def spec(required: list[Term] | None = None, preferred: list[Term] | None = None, **labels: str) -> PodSpec:
    affinity: dict[str, Any] = {}
    if required is not None:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": required}
    if preferred is not None:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return msgspec.convert({"nodeSelector": labels, "affinity": {"nodeAffinity": affinity}}, PodSpec)


def zone(*zones: str) -> Term:
    return {"matchExpressions": [{"key": "zone", "operator": "In", "values": zones}]}


def named(*names: str) -> Term:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]}


def test_nothing_required_compiles_to_none() -> None:
    assert required_node_affinity(PodSpec()) is None
    assert required_node_affinity(spec(preferred=[{"weight": 1, "preference": zone("a")}])) is None


@pytest.mark.parametrize(
    ("pod", "nodes"),
    [
        (PodSpec(), None),
        (spec(disk="ssd"), None),
        (spec([]), None),
        (spec([named("n1")]), {"n1"}),
        (spec([named("n1"), named("n2")]), {"n1", "n2"}),
        (spec([{**named("n1"), **zone("a")}]), {"n1"}),
        (spec([named("n1"), zone("a")]), None),
        (spec([named("n1", "n2")]), set()),
        (spec([named("n1", "n2"), named("n3")]), {"n3"}),
        (spec([{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}]), None),
    ],
)
def test_pinned_nodes_are_those_named(pod: PodSpec, nodes: set[str] | None) -> None:
    assert pinned_nodes(pod) == nodes


def terms(*several: Mapping[str, object]) -> list[NodeSelectorTerm]:
    return msgspec.convert(list(several), list[NodeSelectorTerm])


@pytest.mark.parametrize(
    ("requirements", "matches"),
    [
        ([("metadata.name", "In", "n1")], True),
        ([("metadata.name", "In", "n2")], False),
        ([("metadata.name", "NotIn", "n2")], True),
        ([("metadata.name", "NotIn", "n1")], False),
        ([("metadata.namespace", "In", "n1")], False),
        ([("metadata.namespace", "NotIn", "n1")], True),
    ],
)
def test_node_fields_are_matched(requirements: list[tuple[Any, ...]], matches: bool) -> None:
    compiled = NodeSelectorTerms(terms({"matchFields": expressions(*requirements)}))
    assert compiled.matches({}, "n1") is matches
    assert compiled.matches({}, "")  # a node without a name has no fields to hold against it


@pytest.mark.parametrize(
    "term",
    [
        {"matchExpressions": expressions(("a", "Near", "x"))},
        {"matchExpressions": expressions(("a", "In"))},
        {"matchExpressions": expressions(("a", "Gt", "1.5"))},
        {"matchExpressions": expressions(("a", "Gt", "-5"))},  # -5 is no label value
        {"matchExpressions": expressions(("a", "Gt", "1", "2"))},
        {"matchFields": expressions(("metadata.name", "In", "a", "b"))},
        {"matchFields": expressions(("metadata.name", "In"))},
        {"matchFields": expressions(("metadata.name", "Exists"))},
    ],
)
def test_term_that_does_not_parse_hides_no_other(term: dict[str, object]) -> None:
    alone = NodeSelectorTerms(terms(term))
    assert not alone.matches({"a": "2"}, "n1")
    assert len(alone.errors) == 1
    assert NodeSelectorTerms(terms(term, {"matchExpressions": expressions(("a", "Exists"))})).matches({"a": "2"}, "n1")
    with pytest.raises(SelectorError):
        preferred_node_score(msgspec.convert([{"weight": 1, "preference": term}], list[PreferredSchedulingTerm]))


@given(requirements, some_labels)
def test_node_selectors_agree_with_the_slow_rules(
    chosen: list[tuple[str, str, list[str]]], labels: dict[str, str]
) -> None:
    compiled = NodeSelectorTerms(terms({"matchExpressions": expressions(*((k, o, *v) for k, o, v in chosen))}))
    assert compiled.matches(labels, "n1") is all(slowly(*requirement, labels) for requirement in chosen)


LABELS = {"gen": "007", "odd": "x1", "big": "9223372036854775808"}


@pytest.mark.parametrize(
    ("requirements", "matches"),
    [
        ([("gen", "Gt", "6")], True),
        ([("gen", "Gt", "7")], False),
        ([("gen", "Lt", "8")], True),
        ([("gen", "Lt", "7")], False),
        ([("odd", "Lt", "8")], False),
        ([("big", "Gt", "1")], False),
        ([("none", "Lt", "8")], False),
    ],
)
def test_node_labels_are_matched(requirements: list[tuple[Any, ...]], matches: bool) -> None:
    compiled = NodeSelectorTerms(terms({"matchExpressions": expressions(*requirements)}))
    assert compiled.matches(LABELS, "n1") is matches
