"""Pods: what they share, what stays on the single pod, and that nothing shared outlives them."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import msgspec
import pytest

from kframework.objects import (
    ActualResources,
    Affinity,
    Container,
    ContainerStatus,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    Pod,
    PodAffinityTerm,
    PodAntiAffinity,
    PodCondition,
    PodSpec,
    PodStatus,
    Resources,
    TopologySpreadConstraint,
    Volume,
)
from kframework.objects.requests import Usage, max_of_totals, sum_of_maxima
from kframework.state.pods import PendingPod, PodInfo, PodTemplate, TemplateInterner
from tests.support.objects import pod


def volume(**source: object) -> Volume:
    """Decode a volume from a manifest."""
    return msgspec.convert(source, Volume)


def pinned(node_name: str, key: str = "metadata.name", operator: str = "In") -> Affinity:
    """Require a node by name, as the DaemonSet controller does."""
    field = NodeSelectorRequirement(key=key, operator=operator, values=(node_name,))
    term = NodeSelectorTerm(match_fields=(field,))
    required = NodeSelector(node_selector_terms=(term,))
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required))


def labelled(value: str) -> Affinity:
    """Require a node label."""
    term = NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key="disk", operator="In", values=(value,)),))
    required = NodeSelector(node_selector_terms=(term,))
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required))


Spec = dict[str, Any]

OWN: list[tuple[Spec, Spec]] = [
    ({"node_name": "a"}, {"node_name": "b"}),
    ({"hostname": "a"}, {"hostname": "b"}),
    (
        {"volumes": (volume(name="kube-api-access-x", projected={}),)},
        {"volumes": (volume(name="kube-api-access-y", projected={}),)},
    ),
    (
        {"volumes": (volume(name="data", persistentVolumeClaim={"claimName": "data-0"}),)},
        {"volumes": (volume(name="data", persistentVolumeClaim={"claimName": "data-1"}),)},
    ),
    ({"affinity": pinned("a")}, {"affinity": pinned("b")}),
]

SHARED: list[tuple[Spec, Spec]] = [
    ({"priority": 1}, {"priority": 2}),
    ({"volumes": (volume(name="x", emptyDir={}),)}, {"volumes": (volume(name="y", emptyDir={}),)}),
    (
        {"volumes": (volume(name="data", persistentVolumeClaim={"claimName": "a"}),)},
        {"volumes": (volume(name="data", persistentVolumeClaim={"claimName": "a", "readOnly": True}),)},
    ),
    ({"affinity": pinned("a")}, {"affinity": None}),
    ({"affinity": pinned("a")}, {"affinity": pinned("a", operator="NotIn")}),
    ({"affinity": pinned("a", operator="NotIn")}, {"affinity": pinned("b", operator="NotIn")}),
    ({"affinity": labelled("ssd")}, {"affinity": labelled("hdd")}),
    ({"node_selector": {"disk": "ssd"}}, {"node_selector": {"disk": "hdd"}}),
    ({"scheduler_name": "a"}, {"scheduler_name": "b"}),
]


@pytest.mark.parametrize(("one", "other"), OWN)
def test_fields_of_the_single_pod_are_not_in_the_template(one: Spec, other: Spec) -> None:
    interned = TemplateInterner()
    a, b = PodInfo(pod("a", **one), interned), PodInfo(pod("b", **other), interned)
    assert a.template is b.template
    assert len(interned._templates) == 1


@pytest.mark.parametrize(("one", "other"), SHARED)
def test_deciding_fields_are_in_the_template(one: Spec, other: Spec) -> None:
    interned = TemplateInterner()
    assert PodInfo(pod("a", **one), interned).template is not PodInfo(pod("b", **other), interned).template


@pytest.mark.parametrize(("one", "other"), [*OWN, *SHARED])
def test_updated_pod_has_the_template_of_a_new_one(one: Spec, other: Spec) -> None:
    interned = TemplateInterner()
    before, first = (PodInfo(pod("a", **spec), interned) for spec in (one, other))
    assert PodInfo(pod("a", **other), interned, before).template is first.template


@pytest.mark.parametrize(("one", "other"), [pair for own in OWN for pair in (own, own[::-1])])
def test_pending_pod_keeps_its_whole_object(one: Spec, other: Spec) -> None:
    interned = TemplateInterner()
    first, made = PendingPod(pod("a", **one), interned), pod("b", **other)
    pending = PendingPod(made, interned)
    assert pending.template is first.template
    assert pending.object == made
    assert pending.status is made.status
    assert pending.node_name == made.spec.node_name


def test_common_parts_of_pending_pods_are_stored_once() -> None:
    interned = TemplateInterner()
    labels, spec = {"app": "web"}, {"containers": [{"name": "main", "image": "registry.example/web:v1"}]}

    def decoded(name: str, **own: object) -> PendingPod:
        content = {"metadata": {"name": name, "namespace": "shop", "labels": {**labels}}, "spec": {**spec, **own}}
        return PendingPod(msgspec.json.decode(msgspec.json.encode(content), type=Pod), interned)

    first, second, named = decoded("a"), decoded("b"), decoded("c", hostname="c")
    assert first.object.metadata.labels is second.object.metadata.labels is named.object.metadata.labels
    assert first.object.metadata.namespace is second.object.metadata.namespace
    assert first.spec is second.spec
    assert first.spec.containers is named.spec.containers
    assert (first.spec.hostname, named.spec.hostname) == ("", "c")


def test_several_required_names_are_the_templates() -> None:
    interned = TemplateInterner()
    fields = [
        NodeSelectorRequirement(key="metadata.name", operator="In", values=values)
        for values in (("a", "b"), ("a", "c"))
    ]
    specs = [NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),)) for field in fields]
    one, other = (
        PodInfo(
            pod(
                "p",
                affinity=Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=spec)),
            ),
            interned,
        )
        for spec in specs
    )
    assert one.template is not other.template


@pytest.mark.slow
def test_templates_and_classes_die_with_their_last_pod() -> None:
    interned = TemplateInterner()
    one, other = (PodInfo(pod(uid, {"cpu": "1"}, labels={"app": "web"}), interned) for uid in "ab")
    template, label_class = weakref.ref(one.template), weakref.ref(one.label_class)
    del one
    gc.collect()
    assert (template(), label_class()) == (other.template, other.label_class)
    del other
    gc.collect()
    assert (template(), label_class()) == (None, None)
    assert (len(interned._templates), len(interned._classes)) == (0, 0)


def test_assigned_pod_drops_its_object() -> None:
    made = pod("a", {"cpu": "1"}, hostname="h")
    infos = PodInfo(made, TemplateInterner())
    assert not any(referred is made or referred is made.spec for referred in gc.get_referents(infos))


def test_requests_are_worked_out_once() -> None:
    info = PodInfo(pod("a", {"cpu": "500m", "example.com/gpu": "1"}), TemplateInterner())
    assert info.on_node == info.template.on_node == (("cpu", 500), ("example.com/gpu", 1))
    assert info.template.fit == info.on_node
    assert info.non_zero == (500, 200 * 2**20)
    assert info.template.scoring["memory"] == 200 * 2**20
    assert not info.is_resized


def resized(made: Pod, where: str, cpu: str) -> Pod:
    """Let a status of the pod say that a container holds so much CPU."""
    status = ContainerStatus(name="main", resources=ActualResources(requests={"cpu": cpu}))
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, **{where: (status,)}))


def test_resized_pod_requests_the_resources_of_its_status() -> None:
    interned = TemplateInterner()
    plain = PodInfo(pod("a", {"cpu": "1"}), interned)
    grown = PodInfo(resized(pod("b", {"cpu": "1"}), "container_statuses", "3"), interned)
    assert grown.template is plain.template
    assert (grown.on_node, grown.non_zero) == ((("cpu", 3000),), (3000, 200 * 2**20))
    assert grown.template.on_node == (("cpu", 1000),)


def test_resized_sidecar_is_seen_while_the_containers_have_no_status() -> None:
    sidecar = Container(name="main", restart_policy="Always", resources=Resources(requests={"cpu": "1"}))
    made = pod("a", containers=(), init_containers=(sidecar,))
    assert PodInfo(resized(made, "init_container_statuses", "3"), TemplateInterner()).on_node == (("cpu", 3000),)


def test_status_equal_to_the_spec_costs_nothing() -> None:
    assert PodInfo(resized(pod("a", {"cpu": "1"}), "container_statuses", "1"), TemplateInterner()).is_resized is False


@pytest.mark.parametrize(("usage", "cpu"), [(sum_of_maxima, 0), (max_of_totals, 100)])
def test_default_for_a_request_that_the_status_reports_as_zero_depends_on_the_minor(usage: Usage, cpu: int) -> None:
    """The request for no cpu changes the sum that scores see in 1.36, and in neither minor the sum that must fit."""
    info = PodInfo(resized(pod("a", {"memory": "1Gi"}), "container_statuses", "0"), TemplateInterner(usage))
    assert (info.template.non_zero, info.non_zero) == ((100, 1 << 30), (cpu, 1 << 30))


def test_template_computes_a_thing_once() -> None:
    template = PodTemplate(pod("a").spec)
    results = [template.cached("key", lambda spec: [spec]) for _ in range(2)]
    assert results[0] is results[1]
    assert template.cached("other", lambda spec: None) is None


def test_facts_of_a_pod_are_read_from_its_object() -> None:
    made = pod("a", priority=7)
    metadata = msgspec.structs.replace(made.metadata, deletion_timestamp="2026-01-01T00:00:00Z", annotations={"x": "y"})
    status = msgspec.structs.replace(made.status, start_time="2025-01-01T00:00:00Z", nominated_node_name="n")
    pending = PendingPod(msgspec.structs.replace(made, metadata=metadata, status=status), TemplateInterner())
    assert (pending.priority, pending.terminating, pending.start_time) == (7, True, "2025-01-01T00:00:00Z")
    assert (pending.nominated_node_name, pending.annotations, pending.owner_references) == ("n", {"x": "y"}, ())
    assert (pending.scheduler_name, pending.row, pending.priority) == ("default-scheduler", -1, 7)
    assert (PendingPod(pod("b", scheduler_name="mine"), TemplateInterner()).scheduler_name) == "mine"


@pytest.mark.parametrize(("one", "other"), [*OWN[1:3], ({"volumes": ()}, {"volumes": ()})])
def test_pods_own_names_are_not_in_its_signature(one: Spec, other: Spec) -> None:
    interned = TemplateInterner()
    pending = PendingPod(pod("a", **one), interned), PendingPod(pod("b", **other), interned)
    assert pending[0].signature_fields == pending[1].signature_fields


@pytest.mark.parametrize(("one", "other"), [*OWN[3:], OWN[0], *SHARED, ({"labels": {"a": "b"}}, {"labels": {}})])
def test_all_else_is_in_its_signature(one: Spec, other: Spec) -> None:
    interned = TemplateInterner()
    first = PendingPod(pod("a", **one), interned)
    second = PendingPod(pod("a", **other), interned)
    assert first.signature_fields != second.signature_fields
    assert hash(first.signature_fields) is not None


def test_pods_show_themselves() -> None:
    info = PodInfo(pod("a", {"cpu": "1"}, labels={"app": "web"}, node_name="n"), TemplateInterner())
    assert repr(info) == "<PodInfo default/a on n>"


@pytest.mark.parametrize(
    ("type", "status", "reason", "disrupted"),
    [
        ("DisruptionTarget", "True", "PreemptionByScheduler", True),
        ("DisruptionTarget", "False", "PreemptionByScheduler", False),
        ("DisruptionTarget", "True", "DeletionByTaintManager", False),
        ("Ready", "True", "PreemptionByScheduler", False),
    ],
)
def test_victim_of_preemption_is_known_by_its_condition(type: str, status: str, reason: str, disrupted: bool) -> None:
    conditions = (PodCondition(type="Ready"), PodCondition(type=type, status=status, reason=reason))
    victim = msgspec.structs.replace(pod("p"), status=PodStatus(conditions=conditions))
    assert PodInfo(victim, TemplateInterner()).disrupted is disrupted
    assert not PodInfo(pod("p"), TemplateInterner()).disrupted


TERMS: Spec = {
    "affinity": Affinity(
        pod_anti_affinity=PodAntiAffinity(
            required_during_scheduling_ignored_during_execution=(PodAffinityTerm(topology_key="zone"),)
        )
    )
}
SPREAD: Spec = {"topology_spread_constraints": (TopologySpreadConstraint(topology_key="zone"),)}
BY_REVISION: Spec = {
    "topology_spread_constraints": (TopologySpreadConstraint(topology_key="zone", match_label_keys=("rev",)),)
}


@pytest.mark.parametrize(
    ("spec", "one", "other", "shared"),
    [
        ({}, ("a", {}), ("b", {"app": "x"}), True),
        (TERMS, ("a", {}), ("b", {}), False),
        (TERMS, ("a", {"app": "x"}), ("a", {"app": "y"}), True),
        (SPREAD, ("a", {}), ("b", {}), False),
        (BY_REVISION, ("a", {"rev": "1", "app": "x"}), ("a", {"rev": "1", "app": "y"}), True),
        (BY_REVISION, ("a", {"rev": "1"}), ("a", {"rev": "2"}), False),
        (BY_REVISION, ("a", {"rev": ""}), ("a", {}), False),
    ],
)
def test_terms_that_use_namespace_and_labels_have_a_template_for_each(
    spec: Spec, one: tuple[str, dict[str, str]], other: tuple[str, dict[str, str]], shared: bool
) -> None:
    interned = TemplateInterner()
    pods = [
        Pod(metadata=ObjectMeta(namespace=namespace, labels=labels), spec=PodSpec(**spec))
        for namespace, labels in (one, other)
    ]
    made = [PodInfo(each, interned) for each in pods]
    assert (made[0].template is made[1].template) == shared
    assert PodInfo(pods[1], interned, made[0]).template is made[1].template
