"""What is proposed about a rejection; that a proposal helps is another matter (test_remedies.py)."""

from __future__ import annotations

import msgspec
import pytest

from kframework.framework.status import Code, Status
from kframework.objects import Affinity, ApiObject, Pod
from kframework.observe.explain.remedies.changes import (
    Change,
    DeletePod,
    FreeResource,
    RemoveLabel,
    RemoveTaint,
    SetLabel,
    Uncordon,
)
from kframework.observe.explain.remedies.pod_changes import LowerRequest
from kframework.observe.explain.remedies.proposals import Proposal, of_cluster, of_pod
from kframework.testing import make_node, make_pod, make_taint
from tests.support.helping import afresh, engine_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NAMED = {"key": "metadata.name", "operator": "In", "values": ["gone"]}


def proposed(plugin: str, pod: Pod, *objects: ApiObject, code: Code = Code.UNSCHEDULABLE) -> list[Proposal]:
    asked = afresh(engine_of(objects), pod)
    node = asked.nodes.named("a")
    assert node is not None
    return list(of_cluster(asked, node, Status(code, ("no",), plugin)))


def lowered(pod: Pod, *objects: ApiObject) -> list[Proposal]:
    asked = afresh(engine_of(objects), pod)
    return list(of_pod(asked, asked.nodes.named("a"), Status(Code.UNSCHEDULABLE, ("no",), "NodeResourcesFit")))


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
    found = proposed("NodeAffinity", affine(*required), make_node("a", labels={"old": "yes"}))
    assert found == ([] if changes is None else [tuple(changes)])


def test_one_label_serves_selector_and_affinity() -> None:
    pod = affine([expression("disk", "Exists")])
    both = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_selector={"disk": "ssd"}))
    assert proposed("NodeAffinity", both, make_node("a")) == [(put("disk", "ssd"),)]


def test_the_taint_of_a_cordon_goes_with_it() -> None:
    cordon = make_taint("node.kubernetes.io/unschedulable:NoSchedule")
    other = make_taint("x:NoSchedule")
    assert proposed("TaintToleration", make_pod(), make_node("a", unschedulable=True, taints=[cordon, other])) == [
        (Uncordon("a"), RemoveTaint("a", other))
    ]
    assert proposed("TaintToleration", make_pod(), make_node("a", taints=[cordon])) == [(RemoveTaint("a", cordon),)]


def holder(name: str, cpu: str, memory: str, **fields: object) -> Pod:
    return make_pod(name, node_name="a", cpu=cpu, memory=memory, **fields)  # type: ignore[arg-type]  # fields of a pod


def examples(*pods: Pod, cpu: int = 2) -> tuple[str, ...]:
    ((freed,),) = proposed("NodeResourcesFit", make_pod(cpu=cpu, memory=None), make_node("a", memory="99Gi"), *pods)
    assert isinstance(freed, FreeResource)
    return freed.examples


def test_examples_are_the_least_important_then_the_smallest_that_suffice() -> None:
    small, large = holder("small", "1", "1Mi"), holder("large", "3", "1Mi")
    important = holder("important", "1", "1Mi", priority=9)
    assert examples(small, large) == ("default/large",)
    assert examples(important, large) == ("default/large",)
    assert examples(holder("one", "2", "1Mi"), holder("other", "1500m", "1Mi")) == ("default/other",)
    assert examples(holder("one", "1500m", "1Mi"), holder("other", "2500m", "1Mi"), cpu=3) == (
        "default/other",
        "default/one",
    )


def test_pods_that_are_leaving_already_are_no_examples() -> None:
    leaving = holder("leaving", "4", "1Mi", deletion_timestamp="2026-01-01T00:00:00Z")
    assert examples(leaving) == ()


def test_a_pod_is_deleted_where_it_serves_for_several_resources() -> None:
    big, small = holder("big", "3", "12Gi"), holder("small", "100m", "1Gi")
    whole, freed = proposed("NodeResourcesFit", make_pod(cpu=2, memory="8Gi"), make_node("a"), big, small)
    assert whole == (DeletePod("default/big", big.metadata.uid, "a"),)
    assert [change.text.split(" on ")[0] for change in freed] == ["free 1100m cpu", "free 5Gi memory"]


def test_what_a_node_never_has_cannot_be_freed() -> None:
    pod, full = make_pod(cpu=2, memory="32Gi"), holder("full", "4", "1Gi")
    assert proposed("NodeResourcesFit", pod, make_node("a"), full) == []
    everything, only_memory = lowered(pod, make_node("a"), full)
    memory = LowerRequest("memory", 17 << 30, 15 << 30)
    assert everything == (LowerRequest("cpu", 2000, 0), memory)
    assert only_memory == (memory, FreeResource("a", "cpu", 2000, ("default/full",)))


def test_no_request_makes_room_for_one_more_pod() -> None:
    assert lowered(make_pod(), make_node("a", pods=1), holder("only", "1", "1Mi")) == [
        (FreeResource("a", "pods", 1, ("default/only",)),)
    ]
    assert proposed("NodeResourcesFit", make_pod(), make_node("a", pods=0)) == []


def test_plugins_that_are_not_known_are_taken_at_their_word() -> None:
    pods = [holder(name, "1", "1Mi") for name in ("x", "y")]
    deletions = [(DeletePod(f"default/{pod.metadata.name}", pod.metadata.uid, "a"),) for pod in pods]
    assert proposed("Unknown", make_pod(), make_node("a"), *pods) == deletions
    assert proposed("Unknown", make_pod(), make_node("a"), *pods, code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE) == []


def test_names_of_nodes_that_are_not_there_are_dropped() -> None:
    selector = {"nodeSelectorTerms": [{"matchFields": [NAMED]}]}
    pod = make_pod(affinity=msgspec.convert({"nodeAffinity": {REQUIRED: selector}}, Affinity))
    asked = afresh(engine_of([make_node("a")]), pod)
    ((change,),) = of_pod(asked, None, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("no",), "NodeAffinity"))
    assert change.text == "drop metadata.name In [gone] from the pod's node affinity"
