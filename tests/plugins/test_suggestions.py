"""What the plugins suggest that have no file for it; that a suggestion helps is another matter (test_remedies.py)."""

from __future__ import annotations

import msgspec
import pytest

from kframework.explain.remedies.suggestions import changes_pod
from kframework.framework.suggestions import (
    Proposal,
    Suggestion,
    drop_volume,
    remove_label,
    remove_taint,
    set_label,
    uncordon,
)
from kframework.objects import Affinity, NodeSelectorRequirement, Pod, Volume
from kframework.plugins.node_affinity import drop_node_requirement
from kframework.plugins.node_ports import drop_host_port
from kframework.state.host_ports import HostPort, host_ports
from kframework.testing import make_node, make_pod, make_taint
from kframework.values.status import Code
from tests.support.remedies import suggest, suggest_deletion

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NAMED = {"key": "metadata.name", "operator": "In", "values": ["gone"]}


def of_cluster(proposals: list[Proposal]) -> list[Proposal]:
    return [each for each in proposals if not changes_pod(each)]


def affine(*terms: list[dict[str, object]]) -> Pod:
    selector = {"nodeSelectorTerms": [{"matchExpressions": expressions} for expressions in terms]}
    affinity = msgspec.convert({"nodeAffinity": {REQUIRED: selector}}, Affinity)
    return make_pod(affinity=affinity)


def expression(key: str, operator: str, *values: str) -> dict[str, object]:
    return {"key": key, "operator": operator, "values": list(values)}


def put(key: str, value: str) -> Suggestion:
    return set_label("a", key, value)


@pytest.mark.parametrize(
    ("required", "changes"),
    [
        ([[expression("x", "In", "1", "2")]], [put("x", "1")]),
        ([[expression("x", "Exists")]], [put("x", "true")]),
        ([[expression("x", "Gt", "4")]], [put("x", "5")]),
        ([[expression("x", "Lt", "4")]], [put("x", "3")]),
        ([[expression("old", "NotIn", "yes")]], [remove_label("a", "old")]),
        ([[expression("old", "DoesNotExist")]], [remove_label("a", "old")]),
        ([[expression("x", "Exists"), expression("x", "In", "1")]], [put("x", "1")]),
        ([[expression("x", "Exists"), expression("y", "Exists")], [expression("z", "Exists")]], [put("z", "true")]),
        ([[expression("kubernetes.io/arch", "In", "arm64")]], None),
        ([[expression("x", "In")]], None),
    ],
)
def test_suggested_labels_are_those_of_the_closest_term(
    required: list[list[dict[str, object]]], changes: list[Suggestion] | None
) -> None:
    found = suggest("NodeAffinity", affine(*required), make_node("a", labels={"old": "yes"}))
    assert of_cluster(found) == ([] if changes is None else [tuple(changes)])


def test_one_label_serves_selector_and_affinity() -> None:
    pod = affine([expression("disk", "Exists")])
    both = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_selector={"disk": "ssd"}))
    assert of_cluster(suggest("NodeAffinity", both, make_node("a"))) == [(put("disk", "ssd"),)]


def test_taint_of_a_cordon_goes_with_it() -> None:
    cordon = make_taint("node.kubernetes.io/unschedulable:NoSchedule")
    other = make_taint("x:NoSchedule")
    cordoned = make_node("a", unschedulable=True, taints=[cordon, other])
    assert of_cluster(suggest("TaintToleration", make_pod(), cordoned)) == [(uncordon("a"), remove_taint("a", other))]
    tainted = make_node("a", taints=[cordon])
    assert of_cluster(suggest("TaintToleration", make_pod(), tainted)) == [(remove_taint("a", cordon),)]


def test_requirements_of_a_term_are_checked_one_by_one() -> None:
    pod = affine([expression("disk", "In", "ssd"), expression("gen", "Gt", "2"), expression("x", "Exists")])

    def dropped(**labels: str) -> list[str]:
        (drop,) = filter(changes_pod, suggest("NodeAffinity", pod, make_node("a", labels=labels)))
        return [change.text.split()[1] for change in drop]

    assert dropped(disk="hdd", gen="2", x="") == ["disk", "gen"]
    assert dropped(gen="3") == ["disk", "x"]


def test_names_of_nodes_that_are_not_there_are_dropped() -> None:
    selector = {"nodeSelectorTerms": [{"matchFields": [NAMED]}]}
    pod = make_pod(affinity=msgspec.convert({"nodeAffinity": {REQUIRED: selector}}, Affinity))
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    ((change,),) = suggest("NodeAffinity", pod, make_node("a"), node="", code=code)
    assert change.text == "drop metadata.name In [gone] from the pod's node affinity"


def test_only_hard_taints_count_that_are_not_tolerated() -> None:
    node = make_node("a", taints=["a:NoSchedule", "b=1:NoExecute", "c:PreferNoSchedule", "d:NoSchedule"])
    removed, tolerated = suggest("TaintToleration", make_pod(tolerations=["d"]), node)
    assert [change.text for change in removed] == [
        "remove the taint a:NoSchedule from a",
        "remove the taint b=1:NoExecute from a",
    ]
    assert len(tolerated) == 2


def test_ports_and_who_holds_them() -> None:
    holder, other = make_pod("x", node_name="a", host_ports=[80, 1]), make_pod("y", node_name="a", host_ports=[2])
    assert suggest("NodePorts", make_pod(host_ports=[80, 443]), make_node("a"), holder, other) == [
        (suggest_deletion(holder),),
        (drop_host_port(HostPort("0.0.0.0", "TCP", 80)),),
    ]


@pytest.mark.parametrize("plugin", ["VolumeBinding", "VolumeZone", "NodeVolumeLimits", "VolumeRestrictions"])
def test_pod_may_do_without_one_volume_or_without_all(plugin: str) -> None:
    one, other = Volume(name="one"), Volume(name="other")
    dropped = [(drop_volume(one),), (drop_volume(other),), (drop_volume(one), drop_volume(other))]
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert suggest(plugin, make_pod(volumes=[one, other]), make_node("a"), node="", code=code) == dropped


def test_pod_may_go_where_too_many_volumes_are_attached() -> None:
    running = make_pod("x", node_name="a")
    assert suggest("NodeVolumeLimits", make_pod(), make_node("a"), running) == [(suggest_deletion(running),)]


def test_gates_are_removed_together() -> None:
    pod = make_pod(gates=["a", "b"])
    ((one, other),) = suggest("SchedulingGates", pod, node="")
    assert (one.text, one.to_dict()) == ("remove the scheduling gate a", {"kind": "removeGate", "gate": "a"})
    assert [gate.name for gate in one.patch(pod).spec.scheduling_gates] == ["b"]
    assert other.patch(one.patch(pod)).spec.scheduling_gates == ()


def test_one_host_port_is_dropped_and_no_other() -> None:
    dropped = drop_host_port(HostPort("0.0.0.0", "TCP", 80))
    assert dropped.text == "drop the pod's host port 80/TCP"
    assert dropped.to_dict() == {"kind": "dropHostPort", "port": 80, "protocol": "TCP", "ip": "0.0.0.0"}
    assert host_ports(dropped.patch(make_pod(host_ports=[80, 443])).spec) == (HostPort("0.0.0.0", "TCP", 443),)


def test_label_is_dropped_from_the_node_selector() -> None:
    pod = make_pod(node_selector={"a": "1", "b": "2"})
    _, (dropped,) = suggest("NodeAffinity", pod, make_node("a", labels={"b": "2"}))
    assert dropped.text == "drop a=1 from the pod's nodeSelector"
    assert dropped.to_dict() == {"kind": "dropNodeSelector", "key": "a", "value": "1"}
    assert dropped.patch(pod).spec.node_selector == {"b": "2"}


DISK = expression("disk", "In", "ssd", "nvme")
OTHER = {"key": "zone", "operator": "Exists"}


def of_nodes(*terms: object) -> object:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (of_nodes({"matchExpressions": [DISK, OTHER]}), of_nodes({"matchExpressions": [OTHER]})),
        (of_nodes({"matchExpressions": [OTHER]}, {"matchExpressions": [DISK]}), {"nodeAffinity": {}}),
        (of_nodes({"matchExpressions": [DISK]}), {"nodeAffinity": {}}),
        ({"podAffinity": {}}, {"podAffinity": {}}),
    ],
)
def test_term_without_requirements_accepts_any_node(before: object, after: object) -> None:
    dropped = drop_node_requirement(msgspec.convert(DISK, NodeSelectorRequirement))
    assert dropped.text == "drop disk In [ssd, nvme] from the pod's node affinity"
    assert dropped.to_dict() == {"kind": "dropNodeRequirement", "requirement": DISK}
    pods = [make_pod(affinity=msgspec.convert(affinity, Affinity)) for affinity in (before, after)]
    assert dropped.patch(pods[0]).spec == pods[1].spec
