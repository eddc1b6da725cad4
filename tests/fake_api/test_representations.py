"""Objects as they are, and as rows."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from kframework.client.transport import JSON
from kframework.clock import VIRTUAL_EPOCH, LoopClock, SystemClock, VirtualTimeLoop
from kframework.errors import ClusterError
from kframework.fake_api.representations import MediaType, Representation, negotiate, negotiate_encoding, parse_accept
from kframework.fake_api.wire.documents import ApiDocument
from kframework.fake_api.wire.yaml_bodies import YAML
from kframework.objects import CoreEvent, Event, Namespace, ObjectMeta
from tests.fake_api.local_api import TABLE, resource_of

PROTOBUF = "application/vnd.kubernetes.protobuf"
NAMESPACES = resource_of(Namespace)
DOCUMENT = ApiDocument.from_struct(Namespace(metadata=ObjectMeta(name="a", resource_version="7", labels={"b": "c"})))


def form(accept: str, include: str = "Metadata") -> Representation:
    return negotiate(accept, NAMESPACES, SystemClock(), include)


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/json", f"{PROTOBUF}, application/json;q=0.9", "application/*"]
)
def test_objects_are_encoded_as_json(accept: str) -> None:
    written = form(accept)
    assert written.encode_one(DOCUMENT) == DOCUMENT.body
    assert msgspec.json.decode(written.encode_list([DOCUMENT, DOCUMENT], {"resourceVersion": "9"})) == {
        "kind": "NamespaceList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "9"},
        "items": [DOCUMENT.data, DOCUMENT.data],
    }
    bookmark = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}}
    assert msgspec.json.decode(written.encode_bookmark({"resourceVersion": "9"})) == bookmark


@pytest.mark.parametrize(
    ("include", "kind"), [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "Namespace")]
)
def test_objects_are_encoded_as_rows(include: str, kind: str | None) -> None:
    table = msgspec.json.decode(form(TABLE, include).encode_list([DOCUMENT], {"resourceVersion": "9", "continue": "c"}))
    assert (table["kind"], table["metadata"]) == ("Table", {"resourceVersion": "9", "continue": "c"})
    assert [row["cells"][:2] for row in table["rows"]] == [["a", "Active"]]
    assert table["rows"][0].get("object", {}).get("kind") == kind
    one = msgspec.json.decode(form(TABLE, include).encode_one(DOCUMENT))
    assert one["metadata"] == {"resourceVersion": "7"}
    assert one["columnDefinitions"] == table["columnDefinitions"]
    bookmark = msgspec.json.decode(form(TABLE).encode_bookmark({"resourceVersion": "9"}))
    assert (bookmark["kind"], bookmark["rows"], bookmark["metadata"]) == ("Table", [], {"resourceVersion": "9"})


def test_ages_follow_the_clock() -> None:
    loop = VirtualTimeLoop()
    clock = LoopClock(loop, VIRTUAL_EPOCH + 3600)
    asyncio.set_event_loop(None)
    old = ApiDocument.from_struct(Namespace(metadata=ObjectMeta(name="a", creation_timestamp="2026-01-01T00:00:00Z")))
    table = msgspec.json.decode(negotiate(TABLE, NAMESPACES, clock, "None").encode_one(old))
    loop.close()
    assert table["rows"] == [{"cells": ["a", "Active", "60m"]}]


def test_view_is_encoded() -> None:
    event = ApiDocument.from_struct(Event(metadata=ObjectMeta(name="e"), note="Hello"))
    written = negotiate("", resource_of(CoreEvent), SystemClock(), "")
    assert msgspec.json.decode(written.encode_one(event))["message"] == "Hello"
    (item,) = msgspec.json.decode(written.encode_list([event], {}))["items"]
    assert (item["apiVersion"], item["message"]) == ("v1", "Hello")


def test_metadata_is_encoded_alone() -> None:
    partial = form("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
    shop = ApiDocument.from_struct(Namespace(metadata=ObjectMeta(name="shop", labels={"a": "b"})))
    one = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    metadata = {"name": "shop", "labels": {"a": "b"}}
    assert msgspec.json.decode(partial.encode_one(shop)) == {**one, "metadata": metadata}
    listed = msgspec.json.decode(partial.encode_list([shop], {"resourceVersion": "7"}))
    assert (listed["kind"], listed["metadata"]) == ("PartialObjectMetadataList", {"resourceVersion": "7"})
    assert listed["items"] == [{**one, "metadata": metadata}]
    assert msgspec.json.decode(partial.encode_bookmark({"resourceVersion": "8"})) == {
        **one,
        "metadata": {"resourceVersion": "8"},
    }


@pytest.mark.parametrize("accept", [PROTOBUF, "text/html", "application/json;as=Scale;g=autoscaling;v=v1"])
def test_unsupported_form_is_rejected(accept: str) -> None:
    with pytest.raises(ClusterError, match="only the following media types are accepted: application/json") as refused:
        form(accept)
    assert (refused.value.status, refused.value.reason) == (406, "NotAcceptable")


AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "found"),
    [
        ("", [MediaType(JSON)]),
        ("*/*", [MediaType(JSON)]),
        ("application/*;q=0.1", [MediaType(JSON)]),
        (f"{PROTOBUF},{YAML}", [MediaType(YAML)]),
        (f"{JSON};q=0.5, {YAML}", [MediaType(YAML), MediaType(JSON)]),
        (f"{JSON};q=0.5,{YAML};q=0.5", [MediaType(JSON), MediaType(YAML)]),
        (f"{JSON};q=0,{YAML};q=none", [MediaType(YAML)]),
        (f"{AS_TABLE},Application/JSON", [MediaType(JSON, "Table"), MediaType(JSON)]),
        (f"{JSON};as=Table", []),
        (PROTOBUF, []),
        (",;,=;q=", []),
    ],
)
def test_preferred_media_type_comes_first(accept: str, found: list[MediaType]) -> None:
    assert list(parse_accept(accept)) == found
    assert negotiate_encoding(accept) == (found[0].encoding if found else JSON)
