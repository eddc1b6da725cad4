"""Documents follow their structs, and keep what those do not know."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kframework.fake_api.wire.documents import ApiDocument, Data, update_document
from kframework.in_memory.kind_store import Draft
from kframework.objects import (
    Container,
    Node,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    Resources,
    Toleration,
    kind_of,
)
from kframework.objects.codec import convert

WRITTEN: Data = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default", "labels": {"a": "b"}, "selfLink": "x"},
    "spec": {
        "containers": [
            {"name": "c", "image": "nginx", "command": ["nginx"]},
            {"name": "d", "resources": {"requests": {"cpu": "1"}, "claims": []}},
        ],
        "dnsPolicy": "Default",
    },
}
SUBJECT = convert(WRITTEN, kind_of(Pod))


def shown(subject: Pod) -> Data:
    return update_document(WRITTEN, SUBJECT, subject)


def spec(**changes: object) -> Pod:
    return replace(SUBJECT, spec=replace(SUBJECT.spec, **changes))


def test_unchanged_struct_keeps_the_document() -> None:
    assert shown(SUBJECT) == WRITTEN


def test_changed_field_keeps_unknown_ones() -> None:
    assert shown(spec(node_name="n1"))["spec"] == WRITTEN["spec"] | {"nodeName": "n1"}  # type: ignore[operator]  # plain JSON


def test_status_is_added_to_a_document_without_one() -> None:
    conditions = (PodCondition(type="PodScheduled", status="True"),)
    result = shown(replace(SUBJECT, status=PodStatus(conditions=conditions)))
    assert result["status"] == {"conditions": [{"type": "PodScheduled", "status": "True"}]}


def test_list_elements_are_matched_by_name() -> None:
    c, d = SUBJECT.spec.containers
    result = shown(spec(containers=(replace(d, resources=Resources(requests={"cpu": "2"})), Container(name="e"), c)))
    assert result["spec"]["containers"] == [  # type: ignore[index]  # plain JSON
        {"name": "d", "resources": {"requests": {"cpu": "2"}, "claims": []}},
        {"name": "e"},
        {"name": "c", "image": "nginx", "command": ["nginx"]},
    ]


def test_mappings_lose_and_gain_keys() -> None:
    result = shown(replace(SUBJECT, metadata=replace(SUBJECT.metadata, labels={"c": "d"})))
    assert result["metadata"]["labels"] == {"c": "d"}  # type: ignore[index]  # plain JSON
    result = shown(replace(SUBJECT, metadata=replace(SUBJECT.metadata, labels={})))
    assert result["metadata"] == {"name": "web", "namespace": "default", "selfLink": "x"}


def test_original_document_is_not_modified() -> None:
    before = msgspec.json.encode(WRITTEN)
    shown(spec(containers=(), node_name="n1"))
    assert msgspec.json.encode(WRITTEN) == before


_names = st.sampled_from(["a", "b", "c"])
_text = st.sampled_from(["", "x", "y"])
_labels = st.dictionaries(_names, _text, max_size=2)
_containers = st.builds(
    Container,
    name=_names,
    image=_text,
    resources=st.builds(Resources, requests=st.dictionaries(st.just("cpu"), st.sampled_from(["1", "2"]))),
)
_tolerations = st.builds(Toleration, key=_text, effect=_text)
_conditions = st.builds(PodCondition, type=_names, status=_text, reason=_text)
_pods = st.builds(
    Pod,
    metadata=st.builds(ObjectMeta, name=_names, labels=_labels, deletion_timestamp=st.none() | st.just("t")),
    spec=st.builds(
        PodSpec,
        node_name=_text,
        containers=st.lists(_containers, max_size=3, unique_by=lambda each: each.name).map(tuple),
        tolerations=st.lists(_tolerations, max_size=3).map(tuple),
        priority=st.none() | st.integers(0, 2),
    ),
    status=st.builds(PodStatus, phase=_text, conditions=st.lists(_conditions, max_size=3).map(tuple)),
)


def with_unknown_fields(data: object) -> object:
    """Put a field that no struct knows into every mapping that encodes a struct."""
    if isinstance(data, list):
        return [with_unknown_fields(each) for each in data]
    if not isinstance(data, dict):
        return data
    known = {key: with_unknown_fields(value) for key, value in data.items()}
    return known if set(data) <= {"a", "b", "c", "cpu"} else {**known, "unknown": [1]}


@given(_pods, st.lists(_pods, max_size=3))
def test_document_decodes_to_its_struct(first: Pod, later: list[Pod]) -> None:
    data = with_unknown_fields(msgspec.to_builtins(first))
    assert isinstance(data, dict)
    subject = first
    for pod in later:
        data, subject = update_document(data, subject, pod), pod
        assert convert(data, kind_of(Pod)) == pod
    assert data.get("unknown", [1]) == [1]


@given(_pods)
def test_unknown_fields_outlive_a_change_elsewhere(pod: Pod) -> None:
    data = with_unknown_fields(msgspec.to_builtins(pod))
    assert isinstance(data, dict)
    renamed = replace(pod, metadata=replace(pod.metadata, resource_version="7"))
    result = update_document(data, pod, renamed)
    metadata = result.pop("metadata")
    was = data.pop("metadata", {})
    assert result == data
    assert metadata == {**was, "resourceVersion": "7"}


def test_document_decodes_its_body() -> None:
    stored = replace(SUBJECT, metadata=replace(SUBJECT.metadata, resource_version="3"))
    document = ApiDocument.from_draft(Draft(SUBJECT, WRITTEN), stored)
    assert document.key == ("default", "web")
    assert document.data["metadata"]["resourceVersion"] == "3"  # type: ignore[index]  # plain JSON
    assert document.with_version(9).data["metadata"]["resourceVersion"] == "9"  # type: ignore[index]  # plain JSON
    assert document.with_version(9).data["spec"] == WRITTEN["spec"]
    assert document.decode_parts({"kind", "status"}) == {"kind": "Pod"}


@pytest.mark.parametrize("subject", [SUBJECT, Node(metadata=ObjectMeta(name="n"))])
def test_document_is_created_from_a_struct(subject: Pod | Node) -> None:
    document = ApiDocument.from_struct(subject)
    assert convert(document.data, kind_of(type(subject))) == subject
    assert document.data["kind"] == type(subject).__name__
