"""What an API server has."""

from __future__ import annotations

from kframework.apiserver.custom import CustomResourceDefinition
from kframework.apiserver.store import Store
from kframework.apiserver.wire.documents import as_it_is
from kframework.clock import SystemClock
from kframework.cluster.memory import MemoryCluster
from kframework.objects import Node, ObjectMeta, Pod, kind_of
from kframework.objects.codec import convert


def store() -> Store:
    return Store(MemoryCluster(SystemClock()), SystemClock(), as_it_is)


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
