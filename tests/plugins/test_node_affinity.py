from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework import ActionType, Code, CycleState, Skip, Status, unresolvable
from kframework.framework.events import ClusterEvent, QueueingHint
from kframework.objects import Affinity, Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, PreferredSchedulingTerm
from kframework.plugins.node_affinity import NodeAffinity, NodeAffinityArgs
from kframework.testing import check_plugin, make_node, make_pod
from tests.plugins.asking import cluster_of, filtered, made, pending, scored

NO_MATCH = unresolvable("node(s) didn't match Pod's node affinity/selector")
NOT_ENFORCED = unresolvable("node(s) didn't match scheduler-enforced node affinity")
CONFLICT = unresolvable("pod affinity terms conflict")

REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))


def condition(key: str, operator: str, *values: str) -> dict[str, object]:
    return {"key": key, "operator": operator, "values": list(values)}


def labelled(*conditions: dict[str, object]) -> dict[str, object]:
    return {"matchExpressions": list(conditions)}


def named(*names: str, operator: str = "In") -> dict[str, object]:
    return {"matchFields": [condition("metadata.name", operator, *names)]}


def affinity(required: list[Any] | None = None, preferred: Mapping[int, Any] | None = None) -> dict[str, Any]:
    """Make a nodeAffinity of terms that must match and of weighted ones."""
    weighted = [{"weight": weight, "preference": term} for weight, term in (preferred or {}).items()]
    return ({} if required is None else {REQUIRED: {"nodeSelectorTerms": required}}) | {PREFERRED: weighted}


def pod_of(node_affinity: dict[str, Any] | None = None, selector: Mapping[str, str] | None = None) -> Pod:
    found = msgspec.convert({"nodeAffinity": node_affinity}, Affinity) if node_affinity is not None else None
    return make_pod(affinity=found, node_selector=selector or {})


def adding(node_affinity: dict[str, Any]) -> NodeAffinityArgs:
    return NodeAffinityArgs.model_validate({"addedAffinity": node_affinity})


# -- the rules, slow and obvious ---------------------------------------------------------------------------------------


def integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def parses(term: NodeSelectorTerm) -> bool:
    for one in term.match_expressions:
        wanted = {"Exists": 0, "DoesNotExist": 0, "Gt": 1, "Lt": 1}.get(one.operator)
        if one.operator not in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"):
            return False
        if wanted != len(one.values) if wanted is not None else not one.values:
            return False
        if one.operator in ("Gt", "Lt") and integer(one.values[0]) is None:
            return False
        if any(" " in value or value.startswith("-") for value in one.values):
            return False  # no label has such a value
    return all(one.operator in ("In", "NotIn") and len(one.values) == 1 for one in term.match_fields)


def holds(one: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(one.key)
    match one.operator:
        case "In":
            return value in one.values
        case "NotIn":
            return value not in one.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            number, bound = integer(value or ""), integer(one.values[0])
            if number is None or bound is None:
                return False
            return number > bound if one.operator == "Gt" else number < bound


def matches(term: NodeSelectorTerm, node: Node) -> bool:
    if not (term.match_expressions or term.match_fields) or not parses(term):
        return False
    by_name = all(holds(one, {"metadata.name": node.metadata.name}) for one in term.match_fields)
    return by_name and all(holds(one, node.metadata.labels) for one in term.match_expressions)


def can_place_runs(node: Node, pod: Pod) -> bool:
    if not pod.spec.node_selector.items() <= node.metadata.labels.items():
        return False
    found = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = found.required_during_scheduling_ignored_during_execution if found else None
    return required is None or any(matches(term, node) for term in required.node_selector_terms)


def preferences(pod: Pod) -> tuple[PreferredSchedulingTerm, ...]:
    found = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    return found.preferred_during_scheduling_ignored_during_execution if found else ()


def liking(node: Node, terms: tuple[PreferredSchedulingTerm, ...]) -> int:
    return sum(term.weight for term in terms if matches(term.preference, node))


KEYS = st.sampled_from("ab")
VALUES = st.sampled_from(["", "x", "y", "10", "9"])
SOUND = st.one_of(
    st.builds(
        lambda key, op, values: condition(key, op, *values),
        KEYS,
        st.sampled_from(["In", "NotIn"]),
        st.lists(VALUES, min_size=1, max_size=2),
    ),
    st.builds(condition, KEYS, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(condition, KEYS, st.sampled_from(["Gt", "Lt"]), st.sampled_from(["9", "0"])),
)
UNSOUND = st.sampled_from(
    [
        condition("a", "Nonsense", "x"),
        condition("a", "In"),
        condition("b", "Gt", "x"),
        condition("b", "In", "no label"),
        condition("a", "Gt", "-5"),
    ]
)
NAMES = st.sampled_from(["n0", "n1", "n2", "n9"])
FIELDS = st.one_of(
    st.builds(lambda name, op: condition("metadata.name", op, name), NAMES, st.sampled_from(["In", "NotIn"])),
    st.builds(lambda one, other: condition("metadata.name", "In", one, other), NAMES, NAMES),
)
TERMS = st.builds(
    lambda expressions, fields: {"matchExpressions": expressions, "matchFields": fields},
    st.lists(SOUND | SOUND | UNSOUND, max_size=2),
    st.just([]) | st.lists(FIELDS, max_size=1),
)
SOUND_TERMS = st.lists(SOUND, max_size=2).map(lambda conditions: labelled(*conditions))
LABELS = st.dictionaries(KEYS, VALUES | st.just("-1"))
NODES = st.lists(LABELS, max_size=5).map(
    lambda sets: [make_node(f"n{place}", labels=labels) for place, labels in enumerate(sets)]
)
PODS = st.builds(
    pod_of,
    st.none()
    | st.builds(affinity, st.none() | st.lists(TERMS, max_size=3), st.dictionaries(st.integers(0, 100), SOUND_TERMS)),
    st.just({}) | st.dictionaries(KEYS, VALUES, max_size=1),
)
ADDED = st.none() | st.builds(
    affinity,
    st.none() | st.lists(SOUND_TERMS, max_size=2),
    st.dictionaries(st.integers(1, 100), SOUND_TERMS, max_size=2),
)


@given(NODES, PODS, ADDED)
def test_nodes_are_rejected_unless_they_match_the_added_affinity_and_the_pods(
    nodes: list[Node], pod: Pod, added: dict[str, Any] | None
) -> None:
    plugin = made(NodeAffinity, None if added is None else adding(added))
    enforced = pod_of(added)
    answer = plugin.pre_filter(CycleState(), pending(pod), cluster_of(nodes).nodes)
    expected = {
        node.metadata.name: NO_MATCH if can_place_runs(node, enforced) else NOT_ENFORCED
        for node in nodes
        if not (can_place_runs(node, enforced) and can_place_runs(node, pod))
    }
    if isinstance(answer, Status) and answer != Skip:
        assert answer == CONFLICT
        assert not any(can_place_runs(node, pod) for node in nodes)
    else:
        assert filtered(plugin, cluster_of(nodes), pod) == expected
    if isinstance(answer, frozenset):
        assert answer >= {node.metadata.name for node in nodes if can_place_runs(node, pod)}


@given(NODES, PODS, ADDED)
def test_score_is_the_weight_of_the_met_preferences(nodes: list[Node], pod: Pod, added: dict[str, Any] | None) -> None:
    plugin = made(NodeAffinity, None if added is None else adding(added))
    terms = (*preferences(pod), *preferences(pod_of(added)))
    expected = {node.metadata.name: liking(node, terms) for node in nodes} if terms else {}
    assert scored(plugin, cluster_of(nodes), pod) == expected


def test_preference_that_does_not_parse_is_an_error() -> None:
    pod = pending(pod_of(affinity(preferred={1: labelled(condition("a", "Nonsense"))})))
    nodes = cluster_of([make_node("n")]).nodes
    answer = made(NodeAffinity).pre_score(CycleState(), pod, nodes, nodes.order)
    assert isinstance(answer, Status) and answer.code == Code.ERROR
    assert "Nonsense" in answer.message


SSD = affinity([labelled(condition("disk", "In", "ssd"))])


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (pod_of(), make_pod("other", cpu=3), True),
        (pod_of(SSD, {"a": "x", "b": "y"}), pod_of(SSD, {"b": "y", "a": "x"}), True),
        (pod_of(selector={"a": "x"}), pod_of(selector={"a": "y"}), False),
        (pod_of(SSD), pod_of(affinity([labelled(condition("disk", "NotIn", "ssd"))])), False),
        (pod_of(SSD), pod_of(affinity(preferred={1: labelled(condition("disk", "In", "ssd"))})), False),
    ],
)
def test_pods_with_the_same_affinity_share_their_answers(one: Pod, other: Pod, alike: bool) -> None:
    signatures = [made(NodeAffinity).sign(pending(pod)) for pod in (one, other)]
    assert None not in signatures
    assert (signatures[0] == signatures[1]) is alike


@pytest.mark.parametrize(
    ("terms", "signed"),
    [([named("a")], False), ([named("a"), SSD[REQUIRED]["nodeSelectorTerms"][0]], False), ([{}], True)],
)
def test_pods_that_name_nodes_are_not_cached(terms: list[Any], signed: bool) -> None:
    assert (made(NodeAffinity).sign(pending(pod_of(affinity(terms)))) is not None) is signed


def test_events_to_register_are_those_of_kube_scheduler() -> None:
    plugin = made(NodeAffinity)
    change = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
    assert plugin.events_to_register() == [ClusterEvent("Node", change, plugin.after_node_change)]


MINE = adding(affinity([labelled(condition("pool", "In", "mine"))]))


@pytest.mark.parametrize(
    ("args", "before", "after", "queued"),
    [
        (None, None, {"disk": "ssd"}, True),
        (None, None, {}, False),
        (None, {}, {"disk": "ssd"}, True),
        (None, {"disk": "ssd"}, {"disk": "ssd", "a": "x"}, False),
        (None, {"disk": "ssd"}, {}, False),
        (MINE, None, {"disk": "ssd"}, False),
        (MINE, {"pool": "mine"}, {"disk": "ssd", "pool": "mine"}, True),
        (MINE, {"disk": "ssd"}, {"disk": "ssd", "pool": "mine"}, True),  # not so in kube-scheduler
        (MINE, {"disk": "ssd", "pool": "mine"}, {"disk": "ssd", "pool": "mine", "a": "x"}, False),
        (MINE, {"pool": "mine"}, {"disk": "ssd"}, False),
    ],
)
@pytest.mark.parametrize("pod", [pod_of(SSD), pod_of(affinity([*SSD[REQUIRED]["nodeSelectorTerms"], named("other")]))])
def test_node_wakes_the_pod_that_it_has_come_to_match(
    args: NodeAffinityArgs | None, before: Mapping[str, str] | None, after: Mapping[str, str], queued: bool, pod: Pod
) -> None:
    old = None if before is None else make_node("n", labels=before)
    hint = made(NodeAffinity, args).after_node_change(pending(pod), old, make_node("n", labels=after))
    assert hint is (QueueingHint.QUEUE if queued else QueueingHint.SKIP)


def test_node_wakes_only_the_sibling_that_names_it() -> None:
    node, plugin = make_node("n1"), made(NodeAffinity)
    hints = [plugin.after_node_change(pending(pod_of(affinity([named(name)]))), None, node) for name in ("n1", "n2")]
    assert hints == [QueueingHint.QUEUE, QueueingHint.SKIP]


@pytest.mark.parametrize("added", [None, affinity([labelled(condition("disk", "NotIn", "hdd"))])])
def test_contract_is_kept(added: dict[str, Any] | None) -> None:
    pods = [
        pod_of(affinity([named("n1")])),
        pod_of(affinity([named("n1"), named("n2")], {5: named("n1")})),
        pod_of(affinity([labelled(condition("cores", "Gt", "4")), named("n2")])),
        pod_of(affinity([{"matchFields": [condition("metadata.name", "In", name) for name in "ab"]}])),
    ]
    nodes = [make_node(f"n{cores}", labels={"cores": str(cores)}) for cores in (1, 2, 4, 8)]
    args = {} if added is None else {"addedAffinity": added}
    found = check_plugin(NodeAffinity, args=args, nodes=nodes, pods=pods, examples=4)
    reasons = {NO_MATCH.message, CONFLICT.message} | ({NOT_ENFORCED.message} if added is not None else set())
    assert found.reasons.keys() == reasons
    assert found.passes and {0, 5} <= found.scores.keys()
