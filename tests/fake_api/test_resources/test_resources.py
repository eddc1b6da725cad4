"""How objects look under the names of the API."""

from __future__ import annotations

import msgspec

from kframework.fake_api.wire.documents import ApiDocument
from kframework.objects import CoreEvent, Event, Lease, Namespace, Node, ObjectMeta, Pod, ReplicaSet
from tests.fake_api.local_api import resource_of


def test_resources_have_their_names() -> None:
    replica_sets = resource_of(ReplicaSet)
    assert (replica_sets.group, replica_sets.version, replica_sets.singular) == ("apps", "v1", "replicaset")
    assert replica_sets.short_names == ("rs",)
    assert (resource_of(Pod).group, resource_of(Pod).version) == ("", "v1")


def test_kinds_have_a_status_subresource() -> None:
    kinds = (Pod, Node, Namespace, ReplicaSet, Lease, Event)
    have = ["status" in resource_of(each).subresources for each in kinds]
    assert have == [True, True, True, True, False, False]


def test_one_event_is_shown_in_two_versions() -> None:
    document = ApiDocument.from_struct(Event(metadata=ObjectMeta(name="e"), note="Hello", reporting_controller="me"))
    newer, core = resource_of(Event), resource_of(CoreEvent)
    assert newer.body(document) is document.body
    assert newer.storage_kind is core.storage_kind
    view = core.data(document)
    assert msgspec.json.decode(core.body(document)) == view
    assert (view["apiVersion"], view["message"], view["reportingComponent"]) == ("v1", "Hello", "me")
    assert core.from_view(view) == document.data
