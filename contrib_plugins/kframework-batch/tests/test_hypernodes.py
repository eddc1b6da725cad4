"""Hypernodes as rows: their members, and when those are looked up again."""

from __future__ import annotations

import pytest
from kframework_batch.hypernodes import HyperNodes
from kframework_batch.objects import ExactMatch, HyperNode, HyperNodeSpec, Member, MemberSelector, RegexMatch

from kframework.engine import ClusterState
from kframework.objects import LabelSelector, LabelSelectorRequirement, ObjectMeta
from kframework.testing import make_node


def exactly(name: str, kind: str = "Node") -> Member:
    return Member(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=name)))


def like(pattern: str) -> Member:
    return Member(type="Node", selector=MemberSelector(regex_match=RegexMatch(pattern=pattern)))


def labelled(operator: str = "", *values: str, **labels: str) -> Member:
    expressions = (LabelSelectorRequirement(key="rack", operator=operator, values=values),) if operator else ()
    selector = LabelSelector(match_labels=labels, match_expressions=expressions)
    return Member(type="Node", selector=MemberSelector(label_match=selector))


def hypernode(name: str, *members: Member, tier: int = 1, tier_name: str = "") -> HyperNode:
    spec = HyperNodeSpec(tier=tier, tier_name=tier_name, members=members)
    return HyperNode(metadata=ObjectMeta(name=name), spec=spec)


class World:
    """Nodes a-1 and a-2 of rack a, b-1 of rack b, and c-1 of none."""

    def __init__(self, *objects: HyperNode) -> None:
        self.cluster = ClusterState()
        for name in ("a-1", "a-2", "b-1"):
            self.cluster.put_node(make_node(name, labels={"rack": name[0]}))
        self.cluster.put_node(make_node("c-1"))
        self.hypernodes = HyperNodes(self.cluster)
        for obj in objects:
            self.put(obj)

    def put(self, obj: HyperNode) -> None:
        self.cluster.objects(HyperNode).put(obj.metadata, obj)

    @property
    def found(self) -> dict[str, str]:
        nodes = self.cluster.nodes
        return {
            each.name: " ".join(sorted(nodes[row].name for row in each.rows.tolist()))
            for each in self.hypernodes.domains()
        }


@pytest.mark.parametrize(
    ("members", "nodes"),
    [
        ((exactly("a-1"), exactly("c-1"), exactly("gone")), "a-1 c-1"),
        ((like("^a-"),), "a-1 a-2"),
        ((like("1"),), "a-1 b-1 c-1"),
        ((labelled(rack="a"), labelled(rack="b")), "a-1 a-2 b-1"),
        ((labelled("In", "b", "z"),), "b-1"),
        ((labelled("NotIn", "a"),), "b-1 c-1"),
        ((labelled("Exists"),), "a-1 a-2 b-1"),
        ((labelled("DoesNotExist"),), "c-1"),
        ((labelled("In", "a", "b", rack="a"),), "a-1 a-2"),
        ((Member(type="HyperNode", selector=MemberSelector(regex_match=RegexMatch(pattern="."))), like("b")), "b-1"),
    ],
)
def test_members_are_selected_by_name_pattern_or_labels(members: tuple[Member, ...], nodes: str) -> None:
    assert World(hypernode("h", *members)).found == {"h": nodes}


@pytest.mark.parametrize("members", [(), (labelled(),), (exactly("gone"),), (exactly("none", "HyperNode"),)])
def test_hypernode_without_nodes_is_ignored(members: tuple[Member, ...]) -> None:
    assert World(hypernode("h", *members)).found == {}


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (like("("), "regexMatch '(': missing ), unterminated subpattern at position 0"),
        (
            labelled("Near", "a"),
            "labelMatch: label 'rack': unknown operator 'Near' (known: In, NotIn, Exists, DoesNotExist)",
        ),
    ],
)
def test_invalid_member_is_ignored_and_logged_once(member: Member, said: str, caplog: pytest.LogCaptureFixture) -> None:
    world = World(hypernode("h", member, exactly("c-1")))
    assert world.found == {"h": "c-1"}
    world.put(hypernode("i", member))
    assert world.found == {"h": "c-1"}
    assert caplog.messages == [f"ignoring a member of a hypernode: {said}"]


def test_hypernodes_can_be_nested_and_cycles_are_harmless() -> None:
    world = World(
        hypernode("a", like("^a"), exactly("top", "HyperNode")),
        hypernode("b", like("^b")),
        hypernode("top", exactly("a", "HyperNode"), exactly("b", "HyperNode"), tier=3),
    )
    assert world.found == {"a": "a-1 a-2 b-1", "b": "b-1", "top": "a-1 a-2 b-1"}
    assert list(world.found) == ["a", "b", "top"]


def test_members_are_updated_when_nodes_or_hypernodes_change() -> None:
    world = World(hypernode("h", labelled(rack="a"), exactly("d-1")))
    before = world.hypernodes.domains()
    world.cluster.nodes.mark_changed(0)
    assert world.hypernodes.domains() is before
    world.cluster.put_node(make_node("a-2", labels={"rack": "b"}))
    assert world.found == {"h": "a-1"}
    world.cluster.put_node(make_node("d-1"))
    assert world.found == {"h": "a-1 d-1"}
    world.cluster.remove_node("a-1")
    assert world.found == {"h": "d-1"}
    world.put(hypernode("h", exactly("c-1")))
    assert world.found == {"h": "c-1"}
    world.cluster.objects(HyperNode).remove(ObjectMeta(name="h"))
    assert world.found == {}


def test_tier_is_found_by_name() -> None:
    tiers = World(hypernode("h", tier=2, tier_name="hall"), hypernode("i", tier=3, tier_name="hall")).hypernodes
    assert (tiers.tier_by_name("hall"), tiers.tier_by_name("floor")) == (2, None)
