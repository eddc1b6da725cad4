"""Node selector and node affinity of a pod as functions of a node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.objects.affinity import pinned_nodes, preferred_node_affinity, required_node_affinity
from kframework.objects.pod import PodSpec
from kframework.objects.selectors import SelectorError

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


BROKEN: Term = {"matchExpressions": [{"key": "zone", "operator": "Near"}]}


@pytest.mark.parametrize(
    ("pod", "matches"),
    [
        (spec(disk="ssd"), True),
        (spec(disk="hdd"), False),
        (spec([zone("a")]), True),
        (spec([zone("b"), named("n1")]), True),
        (spec([zone("b")]), False),
        (spec([zone("a")], disk="ssd"), True),
        (spec([zone("a")], disk="hdd"), False),
        (spec([zone("b")], disk="ssd"), False),
        (spec([]), False),
        (spec([{}]), False),
        (spec([BROKEN]), False),
        (spec([BROKEN, zone("a")]), True),
    ],
)
def test_required(pod: PodSpec, matches: bool) -> None:
    predicate = required_node_affinity(pod)
    assert predicate is not None
    assert predicate({"zone": "a", "disk": "ssd"}, "n1") is matches


def test_nothing_required_compiles_to_none() -> None:
    assert required_node_affinity(PodSpec()) is None
    assert required_node_affinity(spec(preferred=[{"weight": 1, "preference": zone("a")}])) is None


def test_preferred() -> None:
    score = preferred_node_affinity(
        spec(preferred=[{"weight": 2, "preference": zone("a")}, {"weight": 5, "preference": named("n1")}])
    )
    assert score is not None
    assert [score({"zone": "a"}, "n1"), score({"zone": "a"}, "n2"), score({}, "n2")] == [7, 2, 0]


def test_nothing_preferred_compiles_to_none() -> None:
    assert preferred_node_affinity(PodSpec()) is None
    assert preferred_node_affinity(spec([zone("a")])) is None


def test_a_preferred_term_that_does_not_parse_is_an_error() -> None:
    with pytest.raises(SelectorError):
        preferred_node_affinity(spec(preferred=[{"weight": 1, "preference": BROKEN}]))


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
def test_pinned_nodes(pod: PodSpec, nodes: set[str] | None) -> None:
    assert pinned_nodes(pod) == nodes
