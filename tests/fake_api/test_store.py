"""What an API server has."""

from __future__ import annotations

import pytest

from kframework.clock import SystemClock
from kframework.fake_api.custom.definitions import CustomResourceDefinition
from kframework.fake_api.store import Catalogue, Store
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, Node, ObjectMeta, Pod, all_kinds, kind_of, kinds
from kframework.objects.codec import convert


def store() -> Store:
    return Store(MemoryCluster(SystemClock()), SystemClock())


def test_a_collection_is_kept() -> None:
    kept = store()
    assert kept.collection(kind_of(Pod)) is kept.collection(kind_of(Pod))
    assert kept.collection(kind_of(Node)) is not kept.collection(kind_of(Pod))


def test_what_goes_with_a_definition() -> None:
    kept = store()
    spec = {
        "group": "example.dev",
        "names": {"kind": "Thing", "plural": "things"},
        "versions": [{"name": "v1", "served": True}],
    }
    definition = convert({"metadata": {"name": "things.example.dev"}, "spec": spec}, kind_of(CustomResourceDefinition))
    kept.cluster.add(definition)
    things = kept.catalogue.find("example.dev/v1", "things")
    assert things is not None
    kept.cluster.add(convert({"metadata": {"name": "t"}}, things.stored))
    kept.cluster.add(Node(metadata=ObjectMeta(name="n")))
    kept.delete_within(definition)
    assert kept.cluster.objects(things.stored.struct) == []
    assert len(kept.cluster.objects(Node)) == 1


def test_nothing_else_goes_with_a_pod() -> None:
    kept = store()
    pod = kept.cluster.add(Pod(metadata=ObjectMeta(name="default")))
    kept.delete_within(pod)
    assert kept.cluster.objects(Pod) == [pod]


def test_every_known_kind_is_served() -> None:
    catalogue = Catalogue(MemoryCluster(SystemClock()))
    for kind in all_kinds():
        found = catalogue.find(kind.api_version, kind.plural)
        assert found is not None
        assert found.kind is kind
    assert catalogue.find("v1", "nonsense") is None
    assert catalogue.find("v2", "pods") is None


def test_a_kind_that_is_declared_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_BY_NAME", dict(kinds._BY_NAME))
    monkeypatch.setattr(kinds, "_BY_STRUCT", dict(kinds._BY_STRUCT))
    catalogue = Catalogue(MemoryCluster(SystemClock()))
    assert catalogue.find("example.dev/v1", "gadgets") is None

    @kinds.kind("example.dev/v1", "gadgets")
    class Gadget(ApiObject, frozen=True, kw_only=True):
        pass

    found = catalogue.find("example.dev/v1", "gadgets")
    assert found is not None
    assert found.stored.struct is Gadget


def test_nothing_is_served_twice() -> None:
    served = Catalogue(MemoryCluster(SystemClock())).resources()
    names = [(each.kind.api_version, each.kind.plural) for each in served]
    assert len(names) == len(set(names))
    assert next(each for each in served if each.kind.plural == "pods").stored.struct is Pod
