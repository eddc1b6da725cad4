"""What an API server has."""

from __future__ import annotations

import pytest

from kframework.clock import SystemClock
from kframework.fake_api.custom.definitions import CustomResourceDefinition
from kframework.fake_api.resources import ApiResource
from kframework.fake_api.store import Catalogue, Store, sort_for_discovery
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, Node, ObjectMeta, Pod, all_kinds, kind_of, kinds
from kframework.objects.codec import convert
from kframework.objects.kinds import foreign_kind


def store() -> Store:
    return Store(MemoryCluster(SystemClock()), SystemClock())


def test_collection_is_created_once() -> None:
    kept = store()
    assert kept.collection(kind_of(Pod)) is kept.collection(kind_of(Pod))
    assert kept.collection(kind_of(Node)) is not kept.collection(kind_of(Pod))


def test_custom_resources_are_deleted_with_a_definition() -> None:
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
    kept.cluster.add(convert({"metadata": {"name": "t"}}, things.storage_kind))
    kept.cluster.add(Node(metadata=ObjectMeta(name="n")))
    kept.delete_contents(definition)
    assert kept.cluster.objects(things.storage_kind.struct) == []
    assert len(kept.cluster.objects(Node)) == 1


def test_deleting_a_pod_deletes_nothing_else() -> None:
    kept = store()
    pod = kept.cluster.add(Pod(metadata=ObjectMeta(name="default")))
    kept.delete_contents(pod)
    assert kept.cluster.objects(Pod) == [pod]


def test_every_known_kind_is_served() -> None:
    catalogue = Catalogue(MemoryCluster(SystemClock()))
    for kind in all_kinds():
        found = catalogue.find(kind.api_version, kind.plural)
        assert found is not None
        assert found.kind is kind
    assert catalogue.find("v1", "nonsense") is None
    assert catalogue.find("v2", "pods") is None


def test_later_declared_kind_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_BY_NAME", dict(kinds._BY_NAME))
    monkeypatch.setattr(kinds, "_BY_STRUCT", dict(kinds._BY_STRUCT))
    catalogue = Catalogue(MemoryCluster(SystemClock()))
    assert catalogue.find("example.dev/v1", "gadgets") is None

    @kinds.kind("example.dev/v1", "gadgets")
    class Gadget(ApiObject, frozen=True, kw_only=True):
        pass

    found = catalogue.find("example.dev/v1", "gadgets")
    assert found is not None
    assert found.storage_kind.struct is Gadget


def test_nothing_is_served_twice() -> None:
    served = Catalogue(MemoryCluster(SystemClock())).resources()
    names = [(each.kind.api_version, each.kind.plural) for each in served]
    assert len(names) == len(set(names))
    assert next(each for each in served if each.kind.plural == "pods").storage_kind.struct is Pod


def resource(api_version: str, plural: str) -> ApiResource:
    kind = foreign_kind(api_version, plural.title(), plural, namespaced=True)
    return ApiResource(kind, kind, plural)


SERVED = (
    resource("v1", "gangs"),
    resource("a.dev/v1alpha1", "gangs"),
    resource("a.dev/v1", "teams"),
    resource("b.dev/v1beta1", "gangs"),
    resource("c.dev/v1alpha1", "gangs"),
    resource("z.dev/v1alpha1", "others"),
)


@pytest.mark.parametrize(
    ("filled", "expected"),
    [
        ((), "z.dev b.dev a.dev c.dev"),  # the more stable one first, and one that nobody contests anywhere
        (("a.dev/v1alpha1",), "z.dev a.dev b.dev c.dev"),
        (("c.dev/v1alpha1",), "z.dev c.dev b.dev a.dev"),
        (("b.dev/v1beta1", "c.dev/v1alpha1"), "z.dev b.dev c.dev a.dev"),
        (("a.dev/v1",), "z.dev b.dev a.dev c.dev"),  # there is but one sort of teams
    ],
)
def test_groups_with_objects_come_first_then_stable_ones(filled: tuple[str, ...], expected: str) -> None:
    ordered = sort_for_discovery(SERVED, lambda each: each.kind.api_version in filled)
    groups = list(dict.fromkeys(each.group for each in ordered if each.group))
    assert " ".join(groups) == expected
    assert sorted(map(str, ordered)) == sorted(map(str, SERVED))


def test_resources_of_a_group_are_sorted_by_version_and_name() -> None:
    ordered = sort_for_discovery(
        [resource("d.dev/v2", "b"), resource("e.dev/v1", "c"), resource("d.dev/v1", "a")], lambda _: False
    )
    assert [each.kind.api_version for each in ordered] == ["d.dev/v1", "d.dev/v2", "e.dev/v1"]
