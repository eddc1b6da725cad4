"""What would even out a spread; how limits reject is told in test_plugin.py."""

from __future__ import annotations

from kframework.framework.pod_suggestions import DropSpread, RaiseMaxSkew
from kframework.framework.suggestions import MOST, DeletePod
from kframework.objects import ApiObject, LabelSelector, Pod, TopologySpreadConstraint
from kframework.testing import make_node, make_pod
from tests.support.helping import suggested

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


def test_skew_is_told_with_the_pods_that_make_it() -> None:
    pods = [web(f"web-{n}") for n in range(3)]
    leaving = web("leaving", deletion_timestamp="2026-01-01T00:00:00Z")
    assert suggested("PodTopologySpread", POD, *NODES, *pods, leaving) == [
        tuple(DeletePod(f"default/{pod.metadata.name}", pod.metadata.uid, "a") for pod in pods),
        (RaiseMaxSkew(SPREAD, 3),),
    ]
    assert suggested("PodTopologySpread", POD, *NODES, *pods, node="b") == []
    assert suggested("PodTopologySpread", POD, *NODES, *pods, node="c") == [(DropSpread(SPREAD),)]


def test_many_pods_are_not_suggested_to_go() -> None:
    pods = [web(f"web-{n}") for n in range(MOST + 1)]
    assert suggested("PodTopologySpread", POD, *NODES, *pods) == [(RaiseMaxSkew(SPREAD, MOST + 1),)]
