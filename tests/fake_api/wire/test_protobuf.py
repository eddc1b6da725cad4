"""Protobuf as clients send it, byte for byte, and whatever else arrives under that name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.errors import ClusterError
from kframework.fake_api.wire.protobuf import _MESSAGES, decode_protobuf, message_fields, message_name

#: What `kubectl create namespace team` sends: Go writes every field that is no pointer, be it empty.
NAMESPACE = bytes.fromhex(
    "6b3873000a0f0a02763112094e616d657370616365121c0a140a047465616d12001a0022002a0032003800420012001a020a001a002200"
)


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + varint(value >> 7)


def field(number: int, value: int | str | bytes) -> bytes:
    """Write a field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def enveloped(api_version: str, kind: str, *fields: bytes) -> bytes:
    type_meta = field(1, api_version) + field(2, kind)
    return b"k8s\x00" + field(1, type_meta) + field(2, b"".join(fields)) + field(3, "") + field(4, "")


def test_namespace_is_decoded() -> None:
    assert decode_protobuf(NAMESPACE) == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}


def test_fields_of_every_type_are_decoded() -> None:
    entries = [field(1, "a") + field(2, "1"), field(1, "b") + field(2, "")]
    owner = field(1, "ReplicaSet") + field(3, "web") + field(6, 0)
    metadata = [
        field(1, "p"),
        field(7, 3),
        field(8, field(1, 1767225600)),
        field(11, entries[0]),
        field(11, entries[1]),
        field(13, owner),
        field(14, "x"),
        field(14, "y"),
    ]
    assert decode_protobuf(enveloped("v1", "Namespace", field(1, b"".join(metadata)))) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "p",
            "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"a": "1", "b": ""},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": False}],
            "finalizers": ["x", "y"],
        },
    }


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (field(1, 0) + field(2, 3), 3),
        (field(1, 0) + field(2, 0) + field(3, ""), 0),
        (field(1, 1) + field(2, 0) + field(3, "30%"), "30%"),
    ],
)
def test_int_or_string_is_decoded(written: bytes, expected: int | str) -> None:
    budget = decode_protobuf(enveloped("policy/v1", "PodDisruptionBudget", field(2, field(1, written) + field(2, b""))))
    assert budget["spec"] == {"minAvailable": expected, "selector": {}}


def test_significant_zero_is_kept() -> None:
    options = decode_protobuf(enveloped("v1", "DeleteOptions", field(1, 0), field(2, field(1, "u")), field(4, "")))
    assert options == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u"},
        "propagationPolicy": "",
    }
    priority = decode_protobuf(enveloped("scheduling.k8s.io/v1", "PriorityClass", field(2, -1000), field(3, 1)))
    assert (priority["value"], priority["globalDefault"]) == (-1000, True)


def test_lease_times_have_microseconds() -> None:
    renewed = field(1, 1767225600) + field(2, 123456000)
    lease = decode_protobuf(enveloped("coordination.k8s.io/v1", "Lease", field(2, field(1, "me") + field(4, renewed))))
    assert lease["spec"] == {"holderIdentity": "me", "renewTime": "2026-01-01T00:00:00.123456Z"}


def test_event_is_decoded_in_either_version() -> None:
    event = decode_protobuf(enveloped("events.k8s.io/v1", "Event", field(7, "Scheduled"), field(10, "note")))
    assert (event["reason"], event["note"]) == ("Scheduled", "note")
    core = decode_protobuf(enveloped("v1", "Event", field(3, "LeaderElection"), field(4, "x became leader")))
    assert (core["reason"], core["message"]) == ("LeaderElection", "x became leader")


def test_unknown_fields_are_skipped() -> None:
    unknown = [field(99, "x"), field(98, 7), varint(97 << 3 | 5) + b"1234", varint(96 << 3 | 1) + b"12345678"]
    assert decode_protobuf(enveloped("v1", "Namespace", *unknown)) == {"apiVersion": "v1", "kind": "Namespace"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not Kubernetes' protobuf"),
        (b"{}", "not Kubernetes' protobuf"),
        (NAMESPACE[:-30], "unexpected end"),
        (NAMESPACE + b"\x08", "unexpected end"),
        (NAMESPACE + b"\x0b", "wire type 3"),
        (b"k8s\x00\x08" + b"\xff" * 10, "a number is too long"),
        (enveloped("v1", "Namespace", field(1, 7)), "expected ObjectMeta, got a number"),
        (enveloped("v1", "Namespace", field(1, field(7, "x"))), "expected int, got bytes"),
        (enveloped("v1", "Namespace", field(1, field(1, b"\xff"))), "invalid start byte"),
        (enveloped("v1", "Namespace", field(1, field(8, field(1, 1 << 60)))), "malformed"),
    ],
)
def test_malformed_bodies_are_bad_requests(body: bytes, message: str) -> None:
    with pytest.raises(ClusterError, match=message) as refused:
        decode_protobuf(body)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "body", [enveloped("example.com/v1", "Pod"), b"k8s\x00", NAMESPACE.replace(b"Namespace", b"ObjectMet")]
)
def test_other_kinds_must_be_json(body: bytes) -> None:
    with pytest.raises(ClusterError, match="accepted media types include: application/json") as refused:
        decode_protobuf(body)
    assert refused.value.status == 415


@given(st.binary(max_size=40), st.integers(0, len(NAMESPACE)))
def test_any_body_is_decoded_or_rejected(noise: bytes, at: int) -> None:
    for body in (b"k8s\x00" + noise, NAMESPACE[:at] + noise + NAMESPACE[at + len(noise) :]):
        try:
            assert decode_protobuf(body)["kind"]
        except ClusterError as refused:
            assert refused.status in (400, 415)


def test_pod_with_rare_fields_is_decoded() -> None:
    volume = field(1, "scratch") + field(2, field(2, field(1, "")))  # the source of a volume is part of it
    limits = field(1, field(1, "cpu") + field(2, field(1, "500m")))
    container = field(1, "c") + field(8, limits)
    pod = decode_protobuf(enveloped("v1", "Pod", field(2, field(1, volume) + field(2, container) + field(21, 0))))
    assert pod["spec"] == {
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "containers": [{"name": "c", "resources": {"limits": {"cpu": "500m"}}}],
        "automountServiceAccountToken": False,
    }


def test_bytes_are_base64_and_raw_extensions_are_json() -> None:
    entry = field(1, "key") + field(2, b"\x00\xff")
    assert decode_protobuf(enveloped("v1", "Secret", field(2, entry)))["data"] == {"key": "AP8="}
    revision = enveloped("apps/v1", "ControllerRevision", field(2, field(1, b'{"spec":{"a":1}}')), field(3, 4))
    assert decode_protobuf(revision)["data"] == {"spec": {"a": 1}}
    with pytest.raises(ClusterError, match="malformed protobuf"):
        decode_protobuf(enveloped("apps/v1", "ControllerRevision", field(2, field(1, b"["))))


def test_extra_field_of_a_review_is_a_list() -> None:
    extra = field(1, "scopes") + field(2, field(1, "a") + field(1, "b"))
    review = decode_protobuf(enveloped("authorization.k8s.io/v1", "SubjectAccessReview", field(2, field(5, extra))))
    assert review["spec"] == {"extra": {"scopes": ["a", "b"]}}


PLAIN = {"string", "bytes", "int", "bool", "map"}


def test_every_field_type_is_known() -> None:
    types = {kind.strip("*?^").removeprefix("map:") for name in _MESSAGES for _, kind in message_fields(name).values()}
    assert types <= PLAIN | _MESSAGES.keys()


def test_no_message_has_two_fields_of_one_name() -> None:
    for name in _MESSAGES:
        names = [field for field, _ in message_fields(name).values() if field]
        assert len(names) == len(set(names)), name


@pytest.mark.parametrize(
    ("api_version", "kind", "message"),
    [
        ("v1", "Pod", "Pod"),
        ("v1", "Event", "core.Event"),
        ("events.k8s.io/v1", "Event", "events.Event"),
        ("resource.k8s.io/v1", "ResourceClaim", "resource.ResourceClaim"),
        ("apps/v1", "Deployment", "Deployment"),
        ("policy/v1", "Eviction", "Eviction"),
        ("example.com/v1", "Pod", None),
        ("v1", "Widget", None),
    ],
)
def test_kind_has_its_message(api_version: str, kind: str, message: str | None) -> None:
    assert message_name(api_version, kind) == message
