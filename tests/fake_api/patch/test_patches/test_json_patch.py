"""JSON Patch: the examples of RFC 6902, what it refuses, and that it is done as a whole or not at all."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.errors import ClusterError
from kframework.fake_api.patch.patches import MAX_COPIED_BYTES, MAX_OPERATIONS, json_patch

ApiDocument = dict[str, object]


@pytest.mark.parametrize(
    ("document", "operations", "expected"),
    [
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"baz": "qux", "foo": "bar"}),
        (
            {"foo": ["bar", "baz"]},
            [{"op": "add", "path": "/foo/1", "value": "qux"}],
            {"foo": ["bar", "qux", "baz"]},
        ),
        ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
        (
            {"baz": "qux", "foo": "bar"},
            [{"op": "replace", "path": "/baz", "value": "boo"}],
            {"baz": "boo", "foo": "bar"},
        ),
        (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
            [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
            {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
        ),
        (
            {"foo": ["all", "grass", "cows", "eat"]},
            [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
            {"foo": ["all", "cows", "eat", "grass"]},
        ),
        (
            {"baz": "qux", "foo": ["a", 2, "c"]},
            [{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}],
            {"baz": "qux", "foo": ["a", 2, "c"]},
        ),
        (
            {"foo": "bar"},
            [{"op": "add", "path": "/child", "value": {"grandchild": {}}}],
            {"foo": "bar", "child": {"grandchild": {}}},
        ),
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}], {"foo": "bar", "baz": "qux"}),
        ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
        (
            {"foo": ["bar"]},
            [{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}],
            {"foo": ["bar", ["abc", "def"]]},
        ),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
        ({"a": 1}, [{"op": "add", "path": "", "value": {"b": 2}}], {"b": 2}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}),
        ({"a": 1}, [{"op": "add", "path": "/a", "value": None}], {"a": None}),
        ({"a": None}, [{"op": "test", "path": "/a", "value": None}], {"a": None}),
        ({"a": {"b": [1, True]}}, [{"op": "test", "path": "/a", "value": {"b": [1.0, True]}}], {"a": {"b": [1, True]}}),
        ({"": {"": 1}}, [{"op": "replace", "path": "//", "value": 2}], {"": {"": 2}}),
        ({"a": 1}, [], {"a": 1}),
        (
            {"m": {}},
            [{"op": "add", "path": "/m/app.kubernetes.io~1name", "value": "x"}],
            {"m": {"app.kubernetes.io/name": "x"}},
        ),
    ],
)
def test_operations_are_applied(document: ApiDocument, operations: list[object], expected: ApiDocument) -> None:
    before = deepcopy((document, operations))
    assert json_patch(document, operations) == expected
    assert (document, operations) == before


@pytest.mark.parametrize(
    ("document", "operation", "message"),
    [
        ({"baz": "qux"}, {"op": "test", "path": "/baz", "value": "bar"}, "testing value /baz failed"),
        ({"a": True}, {"op": "test", "path": "/a", "value": 1}, "testing value /a failed"),
        ({"a": [1]}, {"op": "test", "path": "/a", "value": [1, 2]}, "testing value /a failed"),
        ({"a": {"b": 1}}, {"op": "test", "path": "/a", "value": {"c": 1}}, "testing value /a failed"),
        ({"foo": "bar"}, {"op": "add", "path": "/baz/bat", "value": "qux"}, "/baz/bat does not exist"),
        ({"foo": "bar"}, {"op": "add", "path": "/foo/bat", "value": "qux"}, "/foo/bat does not exist"),
        ({}, {"op": "remove", "path": "/a"}, "/a does not exist"),
        ({}, {"op": "replace", "path": "/a", "value": 1}, "/a does not exist"),
        ({"a": [1]}, {"op": "add", "path": "/a/2", "value": 1}, "/a/2 is not an index of a list of 2"),
        ({"a": [1]}, {"op": "remove", "path": "/a/-"}, "/a/- is not an index of a list of 1"),
        ({"a": [1]}, {"op": "remove", "path": "/a/01"}, "/a/01 is not an index of a list of 1"),
        ({"a": [1]}, {"op": "remove", "path": "/a/-1"}, "/a/-1 is not an index of a list of 1"),
        ({"a": []}, {"op": "remove", "path": "/a/0"}, "/a/0: the list is empty"),
        ({"a": {}}, {"op": "move", "from": "/a", "path": "/a/b"}, "/a cannot be moved into itself"),
        ({"a": {}}, {"op": "remove", "path": ""}, "the document as a whole cannot be removed"),
    ],
)
def test_operation_that_does_not_match_is_rejected(document: ApiDocument, operation: ApiDocument, message: str) -> None:
    before = deepcopy(document)
    with pytest.raises(ClusterError) as refused:
        json_patch(document, [{"op": "add", "path": "/first", "value": 1}, operation])
    assert (refused.value.status, refused.value.reason) == (422, "Invalid")
    assert str(refused.value) == f"cannot apply the patch: {message}"
    assert document == before


@pytest.mark.parametrize(
    "operations",
    [
        {"op": "add"},
        ["add"],
        [{"path": "/a", "value": 1}],
        [{"op": "make", "path": "/a", "value": 1}],
        [{"op": "add", "path": "/a"}],
        [{"op": "add", "value": 1}],
        [{"op": "add", "path": "a", "value": 1}],
        [{"op": "move", "path": "/a"}],
        [{"op": "copy", "path": "/a", "from": 1}],
        [{"op": ["add"], "path": "/a", "value": 1}],
    ],
)
def test_malformed_patch_is_a_bad_request(operations: object) -> None:
    with pytest.raises(ClusterError, match="error decoding patch") as refused:
        json_patch({"a": 1}, operations)
    assert refused.value.status == 400


def test_patch_has_a_limit_of_operations() -> None:
    test = {"op": "test", "path": "/a", "value": ["0123456789"]}
    assert json_patch({"a": ["0123456789"]}, [test] * MAX_OPERATIONS)
    with pytest.raises(ClusterError) as refused:
        json_patch({}, [test] * (MAX_OPERATIONS + 1))
    assert refused.value.status == 413


def test_copies_have_a_size_limit() -> None:
    doubling = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 60
    with pytest.raises(ClusterError, match=f"exceed {MAX_COPIED_BYTES} bytes") as refused:
        json_patch({"a": ["0123456789"]}, doubling)
    assert refused.value.status == 413


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "~/"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b/c", "~0", ""]), inner, max_size=3)
    ),
    max_leaves=8,
)


def pointers(value: object, prefix: str = "") -> list[str]:
    """List the pointers to everything within a value."""
    if isinstance(value, dict):
        steps = [(str(key).replace("~", "~0").replace("/", "~1"), inner) for key, inner in value.items()]
    else:
        steps = [(str(at), inner) for at, inner in enumerate(value)] if isinstance(value, list) else []
    return [prefix, *(each for step, inner in steps for each in pointers(inner, f"{prefix}/{step}"))]


@given(document=st.dictionaries(st.sampled_from(["a", "b/c", "~0", ""]), values, max_size=3), data=st.data())
def test_removed_value_can_be_added_again(document: ApiDocument, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(pointers(document)))
    actual = json_patch(
        {}, [{"op": "add", "path": "/v", "value": document}, {"op": "copy", "from": f"/v{path}", "path": "/f"}]
    )
    assert isinstance(actual, dict)
    test = {"op": "test", "path": path, "value": actual["f"]}
    if path == "":
        assert json_patch(document, [test]) == document
    else:
        removed = json_patch(document, [test, {"op": "remove", "path": path}])
        assert isinstance(removed, dict)
        assert len(pointers(removed)) < len(pointers(document))
        assert json_patch(removed, [{"op": "add", "path": path, "value": actual["f"]}]) == document
