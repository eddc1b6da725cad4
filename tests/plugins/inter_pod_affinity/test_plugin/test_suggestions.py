"""The pods in the way of a pod, read from the live tables."""

from __future__ import annotations

import msgspec
import pytest

from kframework.explain.remedies.suggestions import changes_pod
from kframework.framework.suggestions import MAX_SUGGESTIONS
from kframework.objects import Affinity, ApiObject, LabelSelector, Pod, PodAffinityTerm, PodAntiAffinity
from kframework.testing import make_node, make_pod
from tests.support.remedies import suggest

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE = "topology.kubernetes.io/zone"
WEB = LabelSelector(match_labels={"app": "web"})


def apart(key: str) -> Affinity:
    term = PodAffinityTerm(topology_key=key, label_selector=WEB)
    return Affinity(pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,)))


def web(name: str, node: str) -> Pod:
    return make_pod(name, labels={"app": "web"}, node_name=node)


def deleted(node: str, pod: Pod, *objects: ApiObject) -> list[list[str]]:
    proposals = suggest("InterPodAffinity", pod, *objects, node=node)
    return [
        [change.target.pod.removeprefix("default/") for change in proposal]
        for proposal in proposals
        if not changes_pod(proposal)
    ]


def test_pods_go_that_the_pod_refuses_and_those_that_refuse_it() -> None:
    objects = [
        *(make_node(name, zone="east" if name < "c" else "west") for name in "abc"),
        web("refused", "b"),
        web("far", "c"),
        make_pod("refusing", node_name="a", affinity=apart("kubernetes.io/hostname")),
        make_pod("refusing-elsewhere", node_name="b", affinity=apart("kubernetes.io/hostname")),
        make_pod("no-matter", node_name="a"),
    ]
    pod = make_pod(labels={"app": "web"}, affinity=apart(ZONE))
    found = {name: deleted(name, pod, *objects) for name in "abc"}
    assert found == {"a": [["refused", "refusing"]], "b": [["refused", "refusing-elsewhere"]], "c": [["far"]]}


def test_many_pods_are_not_suggested_to_go() -> None:
    pods = [web(f"web-{n}", "a") for n in range(MAX_SUGGESTIONS + 1)]
    assert deleted("a", make_pod(affinity=apart(ZONE)), make_node("a", zone="east"), *pods) == []
    assert deleted("a", make_pod(affinity=apart(ZONE)), make_node("a", zone="east"), *pods[1:]) != []


@pytest.mark.parametrize("anti", [True, False])
def test_term_is_dropped_from_its_own_kind(anti: bool) -> None:
    term, other = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}, {"topologyKey": "host"}
    both = {"podAffinity": {REQUIRED: [term, other]}, "podAntiAffinity": {REQUIRED: [term, other]}}
    left = both | {"podAntiAffinity" if anti else "podAffinity": {REQUIRED: [other]}}
    *single, together = suggest("InterPodAffinity", affine(both), node="")
    assert [change.text for change in together] == [
        "drop the pod's affinity to app=web by zone",
        "drop the pod's affinity to pods by host",
        "drop the pod's anti-affinity to app=web by zone",
        "drop the pod's anti-affinity to pods by host",
    ]
    ((dropped,),) = single[2:3] if anti else single[:1]
    assert dropped.to_dict() == {"kind": "dropPodTerm", "term": term, "anti": anti}
    assert dropped.patch(affine(both)) == affine(left)
    assert dropped.patch(make_pod()) == make_pod()


def affine(affinity: object) -> Pod:
    return make_pod(affinity=msgspec.convert(affinity, Affinity))


def test_one_term_is_dropped_or_all() -> None:
    pod = make_pod(affinity=apart(ZONE))
    assert [[change.text for change in each] for each in suggest("InterPodAffinity", pod, node="")] == [
        [f"drop the pod's anti-affinity to app=web by {ZONE}"]
    ] * 2
    assert suggest("InterPodAffinity", make_pod(), node="") == []
