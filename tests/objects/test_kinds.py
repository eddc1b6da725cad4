"""The registry of kinds."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest

from kframework import objects
from kframework.errors import ConfigError
from kframework.objects import kinds
from kframework.objects.event import CoreEvent, Event
from kframework.objects.kinds import (
    KINDS,
    Kind,
    all_kinds,
    find_kind,
    foreign_kind,
    kind,
    kind_of,
    object_reference,
    owner_reference,
    reference,
)
from kframework.objects.meta import ApiObject, ObjectMeta, OwnerReference
from kframework.objects.node import Node
from kframework.objects.pod import Pod
from kframework.objects.storage import ObjectReference, PersistentVolumeClaim


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no kind that a test declares outlive it."""
    monkeypatch.setattr(kinds, "_BY_STRUCT", {known.struct: known for known in KINDS})
    monkeypatch.setattr(kinds, "_BY_NAME", {(known.api_version, known.name): known for known in KINDS})


@pytest.mark.parametrize("known", KINDS, ids=lambda known: f"{known.api_version}-{known.name}")
def test_kind_is_found_by_its_names_its_struct_and_its_objects(known: Kind[ApiObject]) -> None:
    assert find_kind(known.api_version, known.name) is known
    assert kind_of(known.struct) is known
    assert kind_of(known.struct()) is known
    assert known.struct.__name__ in dir(objects)


def test_events_have_two_apis() -> None:
    assert kind_of(Event).api_version == "events.k8s.io/v1"
    assert kind_of(CoreEvent).api_version == "v1"


def test_other_names_and_structs_are_no_kind() -> None:
    assert find_kind("v2", "Pod") is None
    assert find_kind("v1", "pod") is None
    with pytest.raises(KeyError):
        kind_of(ApiObject)


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (Pod(metadata=ObjectMeta(name="web-0", namespace="shop")), "Pod shop/web-0"),
        (Pod(metadata=ObjectMeta(name="web-0")), "Pod default/web-0"),
        (Node(metadata=ObjectMeta(name="n1")), "Node n1"),
    ],
)
def test_reference_names_an_object(subject: ApiObject, text: str) -> None:
    assert reference(subject) == text


def struct(name: str, module: str = "somewhere") -> type[ApiObject]:
    """Make a struct as if a module had written it."""
    return cast("type[ApiObject]", msgspec.defstruct(name, [], bases=(ApiObject,), module=module, frozen=True))


def test_declared_kind_is_one_like_any_other() -> None:
    declared = kind("example.com/v1", "gangs")(struct("Gang"))
    assert kind_of(declared) is kind_of(declared()) is find_kind("example.com/v1", "Gang")
    assert kind_of(declared) == Kind("Gang", "example.com/v1", "gangs", True, declared)
    assert reference(declared(metadata=ObjectMeta(name="a", namespace="shop"))) == "Gang shop/a"
    assert kind_of(kind("example.com/v1", "pools", namespaced=False)(struct("Pool"))).namespaced is False


def test_declared_kinds_are_listed_in_one_order_whichever_came_first() -> None:
    assert all_kinds() == KINDS
    for version, name in [("b.example/v1", "A"), ("a.example/v1", "Z"), ("a.example/v1", "Y")]:
        kind(version, f"{name.lower()}s")(struct(name))
    assert [(known.api_version, known.name) for known in all_kinds()[len(KINDS) :]] == [
        ("a.example/v1", "Y"),
        ("a.example/v1", "Z"),
        ("b.example/v1", "A"),
    ]


TWO = "two structs for the kind example.com/v1 Gang: here.Gang and there.Gang; keep one"


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (("Gang", "here", "gangs"), ("Gang", "there", "gangs"), TWO),
        (("Gang", "there", "gangs"), ("Gang", "here", "gangs"), TWO),
        (("Gang", "here", "gangs"), ("Gang", "there", "gangses"), TWO),
        (
            ("Gang", "here", "gangs"),
            ("Crew", "there", "gangs"),
            "two structs for the kind example.com/v1 Gang and Crew (gangs): here.Gang and there.Crew; keep one",
        ),
    ],
)
def test_two_structs_for_one_kind_are_refused(
    first: tuple[str, str, str], second: tuple[str, str, str], message: str
) -> None:
    (name, module, plural), (other, elsewhere, its_plural) = first, second
    kind("example.com/v1", plural)(struct(name, module))
    with pytest.raises(ConfigError) as refused:
        kind("example.com/v1", its_plural)(struct(other, elsewhere))
    assert str(refused.value) == message
    assert [known.struct.__module__ for known in all_kinds()[len(KINDS) :]] == [module]


def test_built_in_kind_cannot_be_declared_again() -> None:
    with pytest.raises(ConfigError, match=r"two structs for the kind v1 Pod: kframework\.objects\.pod\.Pod and x\.Pod"):
        kind("v1", "pods")(struct("Pod", "x"))


def test_same_name_in_another_version_is_another_kind() -> None:
    old, new = (kind(f"example.com/{version}", "gangs")(struct("Gang", version)) for version in ("v1", "v2"))
    assert find_kind("example.com/v1", "Gang") is kind_of(old)
    assert find_kind("example.com/v2", "Gang") is kind_of(new)


def test_reloaded_module_replaces_its_kinds() -> None:
    before, after = (kind("example.com/v1", "gangs")(struct("Gang")) for _ in range(2))
    assert find_kind("example.com/v1", "Gang") is kind_of(after)
    assert kind_of(before).struct is before
    assert len(all_kinds()) == len(KINDS) + 1


def test_foreign_kind_is_created_once() -> None:
    made = foreign_kind("example.dev/v1", "Unread", "unreads", namespaced=False)
    assert foreign_kind("example.dev/v1", "Unread", "unreads", namespaced=False) is made
    assert kind_of(made.struct) is made
    assert made.struct(metadata=ObjectMeta(name="u")).metadata.name == "u"
    assert made.struct.__name__ == "Unread"
    assert find_kind("example.dev/v1", "Unread") is None
    assert made not in all_kinds()

    @kind("example.dev/v1", "unreads")
    class Unread(ApiObject, frozen=True, kw_only=True):
        pass

    assert kind_of(Unread) is not made


def test_references_name_kind_uid_and_version() -> None:
    metadata = ObjectMeta(namespace="default", name="data", uid="u", resource_version="3")
    claim = PersistentVolumeClaim(metadata=metadata)
    named = {"api_version": "v1", "kind": "PersistentVolumeClaim", "name": "data", "uid": "u"}
    assert object_reference(claim) == ObjectReference(**named, namespace="default", resource_version="3")
    assert owner_reference(claim) == OwnerReference(**named, controller=True, block_owner_deletion=True)
