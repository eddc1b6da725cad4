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
from kframework.values.feature_gates import FeatureGates


def store() -> Store:
    return Store(MemoryCluster(SystemClock()), SystemClock())


def test_collection_is_created_once() -> None:
    remaining = store()
    assert remaining.collection(kind_of(Pod)) is remaining.collection(kind_of(Pod))
    assert remaining.collection(kind_of(Node)) is not remaining.collection(kind_of(Pod))


def test_custom_resources_are_deleted_with_a_definition() -> None:
    remaining = store()
    spec = {
        "group": "example.dev",
        "names": {"kind": "Thing", "plural": "things"},
        "versions": [{"name": "v1", "served": True}],
    }
    definition = convert({"metadata": {"name": "things.example.dev"}, "spec": spec}, kind_of(CustomResourceDefinition))
    remaining.cluster.add(definition)
    things = remaining.catalogue.find("example.dev/v1", "things")
    assert things is not None
    remaining.cluster.add(convert({"metadata": {"name": "t"}}, things.storage_kind))
    remaining.cluster.add(Node(metadata=ObjectMeta(name="n")))
    remaining.delete_contents(definition)
    assert remaining.cluster.objects(things.storage_kind.struct) == []
    assert len(remaining.cluster.objects(Node)) == 1


def test_deleting_a_pod_deletes_nothing_else() -> None:
    remaining = store()
    pod = remaining.cluster.add(Pod(metadata=ObjectMeta(name="default")))
    remaining.delete_contents(pod)
    assert remaining.cluster.objects(Pod) == [pod]


def test_every_known_kind_is_served() -> None:
    gates = FeatureGates(settings={"AllAlpha": True, "GenericWorkload": True})
    catalogue = Catalogue(MemoryCluster(SystemClock(), feature_gates=gates))
    for kind in all_kinds():
        actual = catalogue.find(kind.api_version, kind.plural)
        assert actual is not None
        assert (actual.kind.name, actual.kind.namespaced) == (kind.name, kind.namespaced)
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

    actual = catalogue.find("example.dev/v1", "gadgets")
    assert actual is not None
    assert actual.storage_kind.struct is Gadget


def test_nothing_is_served_twice() -> None:
    api = Catalogue(MemoryCluster(SystemClock())).resources()
    names = [(each.kind.api_version, each.kind.plural) for each in api]
    assert len(names) == len(set(names))
    assert next(each for each in api if each.kind.plural == "pods").storage_kind.struct is Pod


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
