"""Objects as they are, and as rows."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from kframework.client.transport import JSON
from kframework.clock import VIRTUAL_EPOCH, LoopClock, SystemClock, VirtualTimeLoop
from kframework.errors import ClusterError
from kframework.fake_api.forms import Form, MediaType, accepted, encoding, negotiated
from kframework.fake_api.wire.documents import Document
from kframework.fake_api.wire.yaml_bodies import YAML
from kframework.objects import CoreEvent, Event, Namespace, ObjectMeta
from tests.fake_api.serving import TABLE, served_as

PROTOBUF = "application/vnd.kubernetes.protobuf"
NAMESPACES = served_as(Namespace)
DOCUMENT = Document.of(Namespace(metadata=ObjectMeta(name="a", resource_version="7", labels={"b": "c"})))


def form(accept: str, include: str = "Metadata") -> Form:
    return negotiated(accept, NAMESPACES, SystemClock(), include)


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/json", f"{PROTOBUF}, application/json;q=0.9", "application/*"]
)
def test_objects_as_they_are(accept: str) -> None:
    written = form(accept)
    assert written.one(DOCUMENT) == DOCUMENT.body
    assert msgspec.json.decode(written.many([DOCUMENT, DOCUMENT], {"resourceVersion": "9"})) == {
        "kind": "NamespaceList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "9"},
        "items": [DOCUMENT.data, DOCUMENT.data],
    }
    bookmark = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}}
    assert msgspec.json.decode(written.bookmark({"resourceVersion": "9"})) == bookmark


@pytest.mark.parametrize(
    ("include", "kind"), [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "Namespace")]
)
def test_rows(include: str, kind: str | None) -> None:
    table = msgspec.json.decode(form(TABLE, include).many([DOCUMENT], {"resourceVersion": "9", "continue": "c"}))
    assert (table["kind"], table["metadata"]) == ("Table", {"resourceVersion": "9", "continue": "c"})
    assert [row["cells"][:2] for row in table["rows"]] == [["a", "Active"]]
    assert table["rows"][0].get("object", {}).get("kind") == kind
    one = msgspec.json.decode(form(TABLE, include).one(DOCUMENT))
    assert one["metadata"] == {"resourceVersion": "7"}
    assert one["columnDefinitions"] == table["columnDefinitions"]
    bookmark = msgspec.json.decode(form(TABLE).bookmark({"resourceVersion": "9"}))
    assert (bookmark["kind"], bookmark["rows"], bookmark["metadata"]) == ("Table", [], {"resourceVersion": "9"})


def test_ages_follow_the_clock() -> None:
    loop = VirtualTimeLoop()
    clock = LoopClock(loop, VIRTUAL_EPOCH + 3600)
    asyncio.set_event_loop(None)
    old = Document.of(Namespace(metadata=ObjectMeta(name="a", creation_timestamp="2026-01-01T00:00:00Z")))
    table = msgspec.json.decode(negotiated(TABLE, NAMESPACES, clock, "None").one(old))
    loop.close()
    assert table["rows"] == [{"cells": ["a", "Active", "60m"]}]


def test_a_view() -> None:
    event = Document.of(Event(metadata=ObjectMeta(name="e"), note="Hello"))
    written = negotiated("", served_as(CoreEvent), SystemClock(), "")
    assert msgspec.json.decode(written.one(event))["message"] == "Hello"
    (item,) = msgspec.json.decode(written.many([event], {}))["items"]
    assert (item["apiVersion"], item["message"]) == ("v1", "Hello")


def test_metadata_alone() -> None:
    partial = form("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
    shop = Document.of(Namespace(metadata=ObjectMeta(name="shop", labels={"a": "b"})))
    one = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    metadata = {"name": "shop", "labels": {"a": "b"}}
    assert msgspec.json.decode(partial.one(shop)) == {**one, "metadata": metadata}
    listed = msgspec.json.decode(partial.many([shop], {"resourceVersion": "7"}))
    assert (listed["kind"], listed["metadata"]) == ("PartialObjectMetadataList", {"resourceVersion": "7"})
    assert listed["items"] == [{**one, "metadata": metadata}]
    assert msgspec.json.decode(partial.bookmark({"resourceVersion": "8"})) == {
        **one,
        "metadata": {"resourceVersion": "8"},
    }


@pytest.mark.parametrize("accept", [PROTOBUF, "text/html", "application/json;as=Scale;g=autoscaling;v=v1"])
def test_a_form_that_there_is_not(accept: str) -> None:
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
def test_what_is_preferred_comes_first(accept: str, found: list[MediaType]) -> None:
    assert list(accepted(accept)) == found
    assert encoding(accept) == (found[0].encoding if found else JSON)
