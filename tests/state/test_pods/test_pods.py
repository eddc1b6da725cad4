"""Pods: what they share, what stays on the single pod, and that nothing shared outlives them."""

from __future__ import annotations

import gc

import msgspec
import pytest

from kframework.objects import (
    ActualResources,
    Container,
    ContainerStatus,
    Pod,
    PodCondition,
    PodStatus,
    Resources,
)
from kframework.objects.requests import Usage, max_of_totals, sum_of_maxima
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod, PodInfo
from tests.state.test_pod_templates import OWN, SHARED, Spec
from tests.support.objects import pod


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


def test_assigned_pod_drops_its_object() -> None:
    made = pod("a", {"cpu": "1"}, hostname="h")
    infos = PodInfo(made, TemplateInterner())
    assert not any(referred is made or referred is made.spec for referred in gc.get_referents(infos))


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
