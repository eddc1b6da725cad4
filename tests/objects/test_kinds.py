"""The registry of kinds."""

from __future__ import annotations

import pytest

from kframework.objects import __all__ as exported
from kframework.objects.event import CoreEvent, Event
from kframework.objects.kinds import KINDS, Kind, kind_named, kind_of, reference
from kframework.objects.meta import ApiObject, ObjectMeta
from kframework.objects.node import Node
from kframework.objects.pod import Pod


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version}-{kind.name}")
def test_a_kind_is_found_by_its_names_its_struct_and_its_objects(kind: Kind[ApiObject]) -> None:
    assert kind_named(kind.api_version, kind.name) is kind
    assert kind_of(kind.struct) is kind
    assert kind_of(kind.struct()) is kind
    assert kind.struct.__name__ in exported


def test_events_have_two_apis() -> None:
    assert kind_of(Event).api_version == "events.k8s.io/v1"
    assert kind_of(CoreEvent).api_version == "v1"


def test_other_names_and_structs_are_no_kind() -> None:
    assert kind_named("v2", "Pod") is None
    assert kind_named("v1", "pod") is None
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
def test_a_reference_names_an_object(subject: ApiObject, text: str) -> None:
    assert reference(subject) == text
