"""The remedies for an uneven spread; test_plugin.py covers how limits reject."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from kframework.framework.suggestions import MAX_SUGGESTIONS, AmountSuggestion
from kframework.objects import ApiObject, LabelSelector, Pod, TopologySpreadConstraint
from kframework.testing import make_node, make_pod
from tests.support.remedies import suggest, suggest_deletion

ZONE = "topology.kubernetes.io/zone"
SPREAD = TopologySpreadConstraint(
    max_skew=1,
    topology_key=ZONE,
    when_unsatisfiable="DoNotSchedule",
    label_selector=LabelSelector(match_labels={"app": "web"}),
)
NODES: list[ApiObject] = [make_node("a", zone="east"), make_node("b", zone="west"), make_node("c")]
POD = make_pod(labels={"app": "web"}, topology_spread=[SPREAD])


def web(name: str, **fields: object) -> Pod:
    return make_pod(name, labels={"app": "web"}, node_name="a", **fields)  # type: ignore[arg-type]  # fields of a pod


def test_skew_is_reported_with_its_pods() -> None:
    pods = [web(f"web-{n}") for n in range(3)]
    leaving = web("leaving", deletion_timestamp="2026-01-01T00:00:00Z")
    deleted, (raised,) = suggest("PodTopologySpread", POD, *NODES, *pods, leaving)
    assert deleted == tuple(map(suggest_deletion, pods))
    assert raised.text == f"raise maxSkew of the pod's spread over {ZONE} from 1 to 4"
    assert raised.patch(POD).spec.topology_spread_constraints == (replace(SPREAD, max_skew=4),)
    assert raised.to_dict() == {"kind": "raiseMaxSkew", "constraint": msgspec.to_builtins(SPREAD), "amount": 3}
    assert isinstance(raised, AmountSuggestion) and raised.with_amount(2).text.endswith("from 1 to 3")
    assert suggest("PodTopologySpread", POD, *NODES, *pods, node="b") == []


def test_constraint_is_dropped_where_the_node_has_no_domain() -> None:
    ((dropped,),) = suggest("PodTopologySpread", POD, *NODES, node="c")
    assert dropped.text == f"drop the pod's spread over {ZONE}"
    assert dropped.to_dict() == {"kind": "dropSpread", "constraint": msgspec.to_builtins(SPREAD)}
    assert dropped.patch(POD).spec.topology_spread_constraints == ()


def test_many_pods_are_not_suggested_to_go() -> None:
    pods = [web(f"web-{n}") for n in range(MAX_SUGGESTIONS + 1)]
    ((raised,),) = suggest("PodTopologySpread", POD, *NODES, *pods)
    assert isinstance(raised, AmountSuggestion) and raised.amount == MAX_SUGGESTIONS + 1
