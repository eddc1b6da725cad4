"""What the plugins suggest that have no file for it; that a suggestion helps is another matter (test_remedies.py)."""

from __future__ import annotations

import msgspec
import pytest

from kframework.explain.remedies.suggestions import Proposal, of_pod
from kframework.framework.pod_suggestions import DropHostPort, DropVolume
from kframework.framework.suggestions import Change, DeletePod, RemoveLabel, RemoveTaint, SetLabel, Uncordon
from kframework.objects import Affinity, Pod, Volume
from kframework.testing import make_node, make_pod, make_taint
from kframework.values.status import Code
from tests.support.helping import suggested

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NAMED = {"key": "metadata.name", "operator": "In", "values": ["gone"]}


def of_cluster(proposals: list[Proposal]) -> list[Proposal]:
    return [each for each in proposals if not of_pod(each)]


def affine(*terms: list[dict[str, object]]) -> Pod:
    selector = {"nodeSelectorTerms": [{"matchExpressions": expressions} for expressions in terms]}
    affinity = msgspec.convert({"nodeAffinity": {REQUIRED: selector}}, Affinity)
    return make_pod(affinity=affinity)


def expression(key: str, operator: str, *values: str) -> dict[str, object]:
    return {"key": key, "operator": operator, "values": list(values)}


def put(key: str, value: str) -> SetLabel:
    return SetLabel("a", key, value)


@pytest.mark.parametrize(
    ("required", "changes"),
    [
        ([[expression("x", "In", "1", "2")]], [put("x", "1")]),
        ([[expression("x", "Exists")]], [put("x", "true")]),
        ([[expression("x", "Gt", "4")]], [put("x", "5")]),
        ([[expression("x", "Lt", "4")]], [put("x", "3")]),
        ([[expression("old", "NotIn", "yes")]], [RemoveLabel("a", "old")]),
        ([[expression("old", "DoesNotExist")]], [RemoveLabel("a", "old")]),
        ([[expression("x", "Exists"), expression("x", "In", "1")]], [put("x", "1")]),
        ([[expression("x", "Exists"), expression("y", "Exists")], [expression("z", "Exists")]], [put("z", "true")]),
        ([[expression("kubernetes.io/arch", "In", "arm64")]], None),
        ([[expression("x", "In")]], None),
    ],
)
def test_a_node_is_labelled_as_the_closest_term_asks(
    required: list[list[dict[str, object]]], changes: list[Change] | None
) -> None:
    found = suggested("NodeAffinity", affine(*required), make_node("a", labels={"old": "yes"}))
    assert of_cluster(found) == ([] if changes is None else [tuple(changes)])


def test_one_label_serves_selector_and_affinity() -> None:
    pod = affine([expression("disk", "Exists")])
    both = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_selector={"disk": "ssd"}))
    assert of_cluster(suggested("NodeAffinity", both, make_node("a"))) == [(put("disk", "ssd"),)]


def test_the_taint_of_a_cordon_goes_with_it() -> None:
    cordon = make_taint("node.kubernetes.io/unschedulable:NoSchedule")
    other = make_taint("x:NoSchedule")
    cordoned = make_node("a", unschedulable=True, taints=[cordon, other])
    assert of_cluster(suggested("TaintToleration", make_pod(), cordoned)) == [(Uncordon("a"), RemoveTaint("a", other))]
    tainted = make_node("a", taints=[cordon])
    assert of_cluster(suggested("TaintToleration", make_pod(), tainted)) == [(RemoveTaint("a", cordon),)]


def test_the_requirements_of_a_term_are_asked_one_by_one() -> None:
    pod = affine([expression("disk", "In", "ssd"), expression("gen", "Gt", "2"), expression("x", "Exists")])

    def dropped(**labels: str) -> list[str]:
        (drop,) = filter(of_pod, suggested("NodeAffinity", pod, make_node("a", labels=labels)))
        return [change.text.split()[1] for change in drop]

    assert dropped(disk="hdd", gen="2", x="") == ["disk", "gen"]
    assert dropped(gen="3") == ["disk", "x"]


def test_names_of_nodes_that_are_not_there_are_dropped() -> None:
    selector = {"nodeSelectorTerms": [{"matchFields": [NAMED]}]}
    pod = make_pod(affinity=msgspec.convert({"nodeAffinity": {REQUIRED: selector}}, Affinity))
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    ((change,),) = suggested("NodeAffinity", pod, make_node("a"), node="", code=code)
    assert change.text == "drop metadata.name In [gone] from the pod's node affinity"


def test_only_hard_taints_count_that_are_not_tolerated() -> None:
    node = make_node("a", taints=["a:NoSchedule", "b=1:NoExecute", "c:PreferNoSchedule", "d:NoSchedule"])
    removed, tolerated = suggested("TaintToleration", make_pod(tolerations=["d"]), node)
    assert [change.text for change in removed] == [
        "remove the taint a:NoSchedule from a",
        "remove the taint b=1:NoExecute from a",
    ]
    assert len(tolerated) == 2


def test_ports_and_who_holds_them() -> None:
    holder, other = make_pod("x", node_name="a", host_ports=[80, 1]), make_pod("y", node_name="a", host_ports=[2])
    assert suggested("NodePorts", make_pod(host_ports=[80, 443]), make_node("a"), holder, other) == [
        (DeletePod("default/x", holder.metadata.uid, "a"),),
        (DropHostPort(80, "TCP", "0.0.0.0"),),
    ]


@pytest.mark.parametrize("plugin", ["VolumeBinding", "VolumeZone", "NodeVolumeLimits", "VolumeRestrictions"])
def test_a_pod_may_do_without_one_volume_or_without_all(plugin: str) -> None:
    one, other = Volume(name="one"), Volume(name="other")
    dropped = [(DropVolume("one", ""),), (DropVolume("other", ""),), (DropVolume("one", ""), DropVolume("other", ""))]
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert suggested(plugin, make_pod(volumes=[one, other]), make_node("a"), node="", code=code) == dropped


def test_a_pod_may_go_where_too_many_volumes_are_attached() -> None:
    running = make_pod("x", node_name="a")
    (deletion,) = suggested("NodeVolumeLimits", make_pod(), make_node("a"), running)
    assert deletion == (DeletePod("default/x", running.metadata.uid, "a"),)
