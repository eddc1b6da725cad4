"""Merge patches (the examples of RFC 7386), and how the form of a patch is detected."""

from __future__ import annotations

from copy import deepcopy

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.errors import ClusterError
from kframework.fake_api.patch.patches import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, apply_patch
from kframework.in_memory.admission import merge_patch

ApiDocument = dict[str, object]

POD: ApiDocument = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a"},
    "spec": {"containers": [{"name": "main", "image": "x"}]},
}


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_is_applied(target: object, patch: object, expected: object) -> None:
    before = deepcopy((target, patch))
    assert merge_patch(target, patch) == expected
    assert (target, patch) == before


values = st.recursive(
    st.integers(0, 2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)
documents = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


def difference(old: object, new: object) -> object:
    """Write the merge patch that makes the new of the old."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    changes = {key: difference(old.get(key), value) for key, value in new.items() if old.get(key) != value}
    return {**changes, **{key: None for key in old if key not in new}}


@given(old=documents, new=documents)
def test_difference_of_two_documents_patches_one_into_the_other(old: ApiDocument, new: ApiDocument) -> None:
    assert merge_patch(old, difference(old, new)) == new


@pytest.mark.parametrize(
    ("content_type", "patch", "image"),
    [
        (JSON_PATCH, [{"op": "replace", "path": "/spec/containers/0/image", "value": "y"}], "y"),
        (MERGE_PATCH, {"spec": {"containers": [{"name": "main", "image": "y"}]}}, "y"),
        (STRATEGIC_MERGE_PATCH, {"spec": {"containers": [{"name": "main", "image": "y"}]}}, "y"),
        ("Application/Merge-Patch+JSON; charset=utf-8", {}, "x"),
    ],
)
def test_content_type_selects_the_form(content_type: str, patch: object, image: str) -> None:
    patched = apply_patch(POD, msgspec.json.encode(patch), content_type)
    assert patched == {**POD, "spec": {"containers": [{"name": "main", "image": image}]}}


@pytest.mark.parametrize(
    ("content_type", "patch", "status"),
    [
        (MERGE_PATCH, b"", 400),
        (MERGE_PATCH, b"{", 400),
        (MERGE_PATCH, b"\xff", 400),
        (MERGE_PATCH, b'"\xff"', 400),
        (MERGE_PATCH, b"[]", 400),
        (MERGE_PATCH, b"null", 400),
        (STRATEGIC_MERGE_PATCH, b"[]", 400),
        (JSON_PATCH, b"{}", 400),
        (JSON_PATCH, b'[{"op":"replace","path":"","value":1}]', 422),
        (JSON_PATCH, b'[{"op":"remove","path":"/a"}]', 422),
        (MERGE_PATCH, b'{"a":' * 5000 + b"1" + b"}" * 5000, 400),
        (STRATEGIC_MERGE_PATCH, b'{"a":' * 600 + b"1" + b"}" * 600, 400),
        ("application/json", b"{}", 415),
        ("application/apply-patch+yaml", b"{}", 415),
        ("", b"{}", 415),
    ],
)
def test_inapplicable_patch_is_rejected(content_type: str, patch: bytes, status: int) -> None:
    deep: ApiDocument = {}
    for _ in range(600):
        deep = {"a": deep}
    with pytest.raises(ClusterError) as refused:
        apply_patch({**POD, "a": deep} if len(patch) > 1000 else POD, patch, content_type)
    assert refused.value.status == status


@pytest.mark.parametrize(
    ("api_version", "takes"),
    [
        ("v1", True),
        ("apps/v1", True),
        ("policy/v1", True),
        ("storage.k8s.io/v1", True),
        ("rbac.authorization.k8s.io/v1", True),
        ("flowcontrol.apiserver.k8s.io/v1", True),
        ("example.com/v1", False),
        ("scheduling.x-k8s.io/v1alpha1", False),
        ("snapshot.storage.k8s.io/v1", False),
    ],
)
def test_custom_resources_reject_strategic_patches(api_version: str, takes: bool) -> None:
    document: ApiDocument = {"apiVersion": api_version, "kind": "Thing"}
    try:
        assert apply_patch(document, b'{"a":1}', STRATEGIC_MERGE_PATCH) == {**document, "a": 1}
        taken = True
    except ClusterError as refused:
        assert str(refused) == (
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
        )
        taken = refused.status != 415
    assert taken == takes
