"""The generation counts what was wanted of an object."""

from __future__ import annotations

import pytest

from kframework.in_memory.generations import has_generation, has_same_spec, is_same_spec
from kframework.in_memory.store import MemoryStore
from kframework.objects import ApiObject, Node, ObjectMeta, Pod, PodDisruptionBudget, Service, kind_of
from kframework.objects.kinds import foreign_kind
from kframework.testing import StubClock, make_node


@pytest.mark.parametrize(
    ("api_version", "name", "has_one"),
    [
        ("apps/v1", "Deployment", True),
        ("networking.k8s.io/v1", "Ingress", True),
        ("v1", "ConfigMap", False),
        ("autoscaling/v2", "HorizontalPodAutoscaler", False),
        ("example.com/v1", "Widget", True),
    ],
)
def test_some_kinds_have_a_generation(api_version: str, name: str, has_one: bool) -> None:
    assert has_generation(foreign_kind(api_version, name, f"{name.lower()}s", namespaced=True)) is has_one


@pytest.mark.parametrize(
    ("kind", "has_one"), [(Pod, True), (Node, False), (Service, False), (PodDisruptionBudget, True)]
)
def test_some_built_in_kinds_have_a_generation(kind: type[ApiObject], has_one: bool) -> None:
    assert has_generation(kind_of(kind)) is has_one


def test_desired_state_excludes_metadata_and_status() -> None:
    old = {"metadata": {"name": "a"}, "spec": {"a": 1}, "status": {}}
    assert is_same_spec(old, {"metadata": {}, "spec": {"a": 1}, "kind": "Widget"})
    assert not is_same_spec(old, {"spec": {"a": 2}})
    assert not is_same_spec(old, old | {"data": {}})


def test_kind_without_a_generation_never_changes_its_spec() -> None:
    assert has_same_spec(make_node("a", unschedulable=True), make_node("a"))


def test_generation_increases_with_the_desired_state() -> None:
    memory = MemoryStore(StubClock())
    memory.add(PodDisruptionBudget(metadata=ObjectMeta(name="web")))

    def generation() -> int:
        return memory.read(PodDisruptionBudget, "web").metadata.generation

    assert generation() == 1
    memory.merge(PodDisruptionBudget, "web", {"status": {"currentHealthy": 1}, "metadata": {"labels": {"a": "b"}}})
    assert generation() == 1
    memory.merge(PodDisruptionBudget, "web", {"spec": {"maxUnavailable": 1}})
    assert generation() == 2
