"""How objects look under the names of the API."""

from __future__ import annotations

import msgspec

from kframework.apiserver.served import built_in
from kframework.apiserver.wire.documents import Document
from kframework.objects import CoreEvent, Event, Lease, Namespace, Node, ObjectMeta, Pod, ReplicaSet, kind_of


def test_names() -> None:
    replica_sets = built_in(kind_of(ReplicaSet))
    assert (replica_sets.group, replica_sets.version, replica_sets.singular) == ("apps", "v1", "replicaset")
    assert replica_sets.short_names == ("rs",)
    assert (built_in(kind_of(Pod)).group, built_in(kind_of(Pod)).version) == ("", "v1")


def test_whose_status_is_a_resource_of_its_own() -> None:
    kinds = (Pod, Node, Namespace, ReplicaSet, Lease, Event)
    assert [built_in(kind_of(each)).has_status for each in kinds] == [True, True, True, True, False, False]


def test_one_event_is_shown_in_two_versions() -> None:
    document = Document.of(Event(metadata=ObjectMeta(name="e"), note="Hello", reporting_controller="me"))
    newer, core = built_in(kind_of(Event)), built_in(kind_of(CoreEvent))
    assert newer.body(document) is document.body
    assert newer.stored is core.stored
    shown = core.data(document)
    assert msgspec.json.decode(core.body(document)) == shown
    assert (shown["apiVersion"], shown["message"], shown["reportingComponent"]) == ("v1", "Hello", "me")
    assert core.read(shown) == document.data
