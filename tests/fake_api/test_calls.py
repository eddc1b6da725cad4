"""Requests, taken apart."""

from __future__ import annotations

import msgspec
import pytest

from kframework.client.request_attributes import ResourcePath
from kframework.errors import ClusterError
from kframework.fake_api.calls import ApiCall, DeleteOptions, decode_object, read_body
from kframework.objects import Pod
from kframework.process.http.statuses import Subject
from tests.fake_api.local_api import request, resource_of


def call(method: str = "GET", name: str = "", body: object = None, **query: str) -> ApiCall:
    path = f"/api/v1/namespaces/a/pods/{name}"
    read = ResourcePath.parse(path)
    assert read is not None
    return ApiCall(read, resource_of(Pod), query, request(method, path, body))


def test_call_has_its_query_and_subject() -> None:
    assert call(name="p").subject == Subject("", "pods", "p")
    assert call(name="p").key == ("a", "p")
    assert call(watch="true").is_watch
    assert call(watch="1").is_watch
    assert not call(watch="false").is_watch
    assert not call(name="p", watch="true").is_watch
    assert not call("DELETE", watch="true").is_watch
    assert call(dryRun="All").is_dry_run
    assert not call().is_dry_run
    with pytest.raises(ClusterError, match='dryRun: Unsupported value: "Some"'):
        assert call(dryRun="Some").is_dry_run


def test_deletion_options_are_decoded() -> None:
    body = {
        "gracePeriodSeconds": 5,
        "preconditions": {"uid": "u"},
        "dryRun": ["All"],
        "propagationPolicy": "Background",
    }
    options = DeleteOptions.from_call(call("DELETE", "p", body, gracePeriodSeconds="9"))
    assert (options.grace_period_seconds, options.preconditions.uid, options.dry_run) == (5, "u", ("All",))
    assert DeleteOptions.from_call(call("DELETE", "p", gracePeriodSeconds="0")).grace_period_seconds == 0
    assert DeleteOptions.from_call(call("DELETE", "p")) == DeleteOptions()


def test_body_is_decoded() -> None:
    assert decode_object(request("POST", "/", {"a": {"b": None, "c": [None, 1]}})) == {"a": {"c": [1]}}
    assert decode_object(request("POST", "/", b"{}", content_type="Application/JSON; charset=utf-8")) == {}
    assert decode_object(request("POST", "/", b"{}", content_type="")) == {}


@pytest.mark.parametrize(
    ("body", "content_type", "status", "message"),
    [
        (b"{", "application/json", 400, "the body of the request is not JSON: Input data was truncated"),
        (b"[" * 100_000, "application/json", 400, "the body of the request is not JSON: "),
        (b"\xff", "application/json", 400, "the body of the request is not JSON: "),
        (b"[]", "application/json", 400, "the body of the request is not a JSON object"),
        (b"a: b", "text/plain", 415, "the body of the request was in an unknown format"),
        (b"a=b", "application/x-www-form-urlencoded", 415, "the body of the request was in an unknown format"),
        (b"k8s", "application/vnd.kubernetes.protobuf", 400, "the body of the request is not Kubernetes' protobuf"),
    ],
)
def test_undecodable_body_is_rejected(body: bytes, content_type: str, status: int, message: str) -> None:
    with pytest.raises(ClusterError) as refused:
        decode_object(request("POST", "/", body, content_type=content_type))
    assert refused.value.status == status
    assert refused.value.message.startswith(message)


def test_unsupported_encoding_error_has_a_remedy() -> None:
    with pytest.raises(ClusterError, match="set contentType: application/json"):
        decode_object(request("POST", "/", b"x", content_type="application/cbor"))


def test_body_of_another_type_is_rejected() -> None:
    class Shape(msgspec.Struct):
        count: int

    with pytest.raises(ClusterError, match="cannot decode the body of the request: count: expected an integer"):
        read_body(request("POST", "/", {"count": "x"}), Shape)
