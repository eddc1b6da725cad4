"""Metadata and label selectors keep every field they know, and no other."""

from __future__ import annotations

import msgspec
import pytest

from kframework.objects.meta import LabelSelector, ObjectMeta
from tests.objects.conftest import RoundTrip

METADATA = {
    "name": "web-0",
    "generateName": "web-",
    "namespace": "shop",
    "uid": "u1",
    "resourceVersion": "7",
    "generation": 2,
    "creationTimestamp": "2026-01-02T03:04:05Z",
    "deletionTimestamp": "2026-01-02T03:04:06Z",
    "deletionGracePeriodSeconds": 0,
    "labels": {"app": "web"},
    "annotations": {"note": ""},
    "ownerReferences": [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "web",
            "uid": "u2",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ],
    "finalizers": ["keep"],
}


def test_metadata_encodes_and_decodes(round_trip: RoundTrip) -> None:
    metadata = round_trip(ObjectMeta, METADATA)
    assert metadata.owner_references[0].api_version == "apps/v1"
    assert metadata.deletion_grace_period_seconds == 0


def test_unknown_fields_are_ignored_and_defaults_left_out() -> None:
    metadata = msgspec.json.decode(b'{"name": "a", "managedFields": [{"manager": "x"}]}', type=ObjectMeta)
    assert metadata == ObjectMeta(name="a")
    assert msgspec.json.encode(metadata) == b'{"name":"a"}'


def test_objects_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        ObjectMeta().name = "other"  # type: ignore[misc]  # that is what is tested


def test_label_selector_encodes_and_decodes(round_trip: RoundTrip) -> None:
    selector = round_trip(
        LabelSelector,
        {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]},
    )
    assert selector.match_expressions[0].values == ("a", "b")
