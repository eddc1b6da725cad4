"""What pods of a template share, and what is their own."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import msgspec
import pytest

from kframework.objects import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    Pod,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
    TopologySpreadConstraint,
    Volume,
)
from kframework.state.pod_templates import PodTemplate, TemplateInterner
from kframework.state.pods import PodInfo
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


def test_requests_are_worked_out_once() -> None:
    info = PodInfo(pod("a", {"cpu": "500m", "example.com/gpu": "1"}), TemplateInterner())
    assert info.on_node == info.template.on_node == (("cpu", 500), ("example.com/gpu", 1))
    assert info.template.fit == info.on_node
    assert info.non_zero == (500, 200 * 2**20)
    assert info.template.scoring["memory"] == 200 * 2**20
    assert not info.is_resized


def test_template_computes_a_thing_once() -> None:
    template = PodTemplate(pod("a").spec)
    results = [template.cached("key", lambda spec: [spec]) for _ in range(2)]
    assert results[0] is results[1]
    assert template.cached("other", lambda spec: None) is None


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
