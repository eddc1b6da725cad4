from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kframework import NOTHING, CycleState, error, unresolvable
from kframework.objects import Namespace, ObjectMeta, Pod
from kframework.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kframework.state.cluster import ClusterState
from kframework.testing import check_plugin, make_node, make_pod
from tests.plugins.asking import cluster_of, filtered, made, normalized, pending, scored
from tests.plugins.inter_pod_affinity.test_plugin.slow_rules import ALONE, EXISTING_ANTI_AFFINITY, REFUSED
from tests.plugins.inter_pod_affinity.test_plugin.worlds import HOST, PREFERRED, REQUIRED, ZONE, affinity, term

#: Two nodes in zone a, one in zone b, one in no zone.
NODES = [make_node("a1", zone="a"), make_node("a2", zone="a"), make_node("b1", zone="b"), make_node("bare")]


def near(*terms: Any) -> Any:
    return affinity(near={REQUIRED: list(terms)})


def away(*terms: Any) -> Any:
    return affinity(away={REQUIRED: list(terms)})


def prefers(weight: int, each: Any) -> dict[str, Any]:
    return {PREFERRED: [{"weight": weight, "podAffinityTerm": each}]}


def pod(name: str = "pod", app: str = "x", node: str = "", **fields: Any) -> Pod:
    return make_pod(name, labels={"app": app}, node_name=node, **fields)


def asked(pods: Iterable[Pod] = (), namespaces: Iterable[Namespace] = ()) -> Asked:
    cluster = cluster_of(NODES, pods)
    for namespace in namespaces:
        cluster.objects(Namespace).put(namespace.metadata, namespace)
    handle = SimpleNamespace(objects=cluster.objects, nodes=cluster.nodes)
    return Asked(cluster, made(InterPodAffinity, handle=handle))


class Asked:
    """A plugin and its cluster."""

    def __init__(self, cluster: ClusterState, plugin: InterPodAffinity) -> None:
        self.cluster = cluster
        self.plugin = plugin

    def rejections(self, pod: Pod) -> dict[str, Any]:
        return filtered(self.plugin, self.cluster, pod)


def namespace(name: str, **labels: str) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name, labels=labels))


@pytest.mark.parametrize(
    ("new", "other", "has_terms"),
    [
        (pod(), None, False),
        (pod(affinity=away(term())), None, True),
        (pod(affinity=affinity(near=prefers(1, term()))), None, True),
        (pod(), pod("held", node="a1", affinity=away(term(app="x"))), True),
        (pod(), pod("held", node="a1", affinity=near(term(app="x"))), True),
        (pod(), pod("held", node="a1", affinity=affinity(near=prefers(1, term(app="x")))), True),
        (pod(), pod("held", node="a1", affinity=away(term(app="y"))), False),
        (make_pod("pod", namespace="other"), pod("held", node="a1", affinity=away(term(app="x"))), False),
    ],
)
def test_pod_without_terms_that_no_term_matches_is_passed_over(new: Pod, other: Pod | None, has_terms: bool) -> None:
    there = asked()
    plugin, new_one = there.plugin, pending(new, there.cluster)
    before = plugin.sign(new_one)
    if other is not None:
        assert before is NOTHING
        there.cluster.put_pod(other)
    signature = plugin.sign(new_one)
    assert signature is not None and (signature is NOTHING) is not has_terms


TEAM_A, NOT_TEAM_B = {"matchLabels": {"team": "a"}}, {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}


def test_selector_that_likes_no_labels_is_about_every_namespace_when_the_pod_is_to_be_scheduled() -> None:
    """kube-scheduler asks it once more, without labels; of a pod that is on a node it asks the labels alone."""
    namespaces, picky = [namespace("other", team="a")], away(term(namespaceSelector=NOT_TEAM_B))
    there = asked([pod("web", "web", "a1", namespace="other")], namespaces)
    assert there.rejections(pod(affinity=picky)) == {"a1": REFUSED, "a2": REFUSED}
    held = asked([pod("holder", "db", "a1", affinity=picky)], namespaces)
    assert held.rejections(pod(app="web", namespace="other")) == {}
    assert held.rejections(pod(app="web", namespace="unheard-of")) == {
        "a1": EXISTING_ANTI_AFFINITY,
        "a2": EXISTING_ANTI_AFFINITY,
    }


UNREADABLE = {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Like"}]}}


def test_pod_whose_terms_cannot_be_read_goes_nowhere() -> None:
    there, broken = asked(), pod(affinity=affinity(near=prefers(1, UNREADABLE), away={REQUIRED: [term()]}))
    info, nodes = pending(broken, there.cluster), there.cluster.nodes
    problem = "label 'app': unknown operator 'Like' (known: In, NotIn, Exists, DoesNotExist)"
    rejection = unresolvable(f"parsing pod: preferredAffinityTerms: {problem}")
    assert there.plugin.pre_filter(CycleState(), info, nodes) == rejection
    failure = error(f"failed to parse pod: preferredAffinityTerms: {problem}")
    assert there.plugin.pre_score(CycleState(), info, nodes, nodes.order) == failure


def test_of_a_pod_on_a_node_the_other_lists_of_terms_count() -> None:
    mixed = affinity(near={REQUIRED: [term(app="x"), UNREADABLE]}, away={REQUIRED: [term(app="x")]})
    there = asked([pod("web", "web", "a1", affinity=mixed)])
    assert there.rejections(pod()) == {"a1": EXISTING_ANTI_AFFINITY, "a2": EXISTING_ANTI_AFFINITY}
    assert scored(there.plugin, there.cluster, pod()) == {}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ([0, 29, 100], [0, 28, 100]),
        ([-100, -71, 0], [0, 28, 100]),
        ([7, 7], [0, 0]),
        ([-3], [0]),
        ([-1, 0, 1], [0, 50, 100]),
        ([0, 1, 3], [0, 33, 100]),
    ],
)
def test_scores_are_stretched_as_doubles(raw: list[int], expected: list[int]) -> None:
    plugin = asked().plugin
    assert normalized(plugin, raw) == expected
    answer = plugin.normalize_score(CycleState(), pending(Pod()), np.array(raw, dtype=np.int64))
    assert np.asarray(answer).dtype == np.int64


def test_new_term_is_seen_when_its_pod_comes_in_a_what_if() -> None:
    there = asked([pod("web", "web", "a1")])
    nodes, state = there.cluster.nodes, CycleState()
    info = pending(pod(app="x", affinity=away(term())), there.cluster)
    assert there.plugin.pre_filter(state, info, nodes) is None
    rival = pending(pod("rival", "db", affinity=away(term(app="x"))), there.cluster)
    node = nodes.find("b1")
    assert node is not None
    with there.cluster.statement() as statement:
        inner = state.clone()
        statement.add(rival, "b1")
        assert there.plugin.add_pod(inner, info, rival, node) is None
        assert there.plugin.filter(inner, info, node) == EXISTING_ANTI_AFFINITY
    assert there.plugin.filter(state, info, node) is None
    assert there.plugin.filter(inner, info, node) is None


def test_contract_is_kept() -> None:
    terms = [
        near(term(namespaceSelector=TEAM_A)),
        away(term(HOST), term(namespaceSelector={})),
        affinity(near=prefers(7, term()), away=prefers(3, term(app="db"))),
    ]
    pods = [make_pod(f"pod-{n}", labels={"app": "web"}, affinity=each) for n, each in enumerate(terms)]
    objects = [namespace("default", team="a"), namespace("default"), namespace("other", team="a")]
    found = check_plugin(InterPodAffinity, pods=pods, objects=objects, examples=4)
    assert found.reasons.keys() == {*ALONE.reasons, *REFUSED.reasons, *EXISTING_ANTI_AFFINITY.reasons}
    assert found.passes and found.skips["pre_filter"] and found.skips["pre_score"] and len(found.scores) > 3
