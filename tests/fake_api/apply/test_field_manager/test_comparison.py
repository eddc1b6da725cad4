"""What fields there are, and what becomes of them."""

from __future__ import annotations

import pytest

from kframework.fake_api.apply.field_manager import collect_fields, compare_values, with_named_fields
from kframework.fake_api.apply.managed_fields import Fields, decode_fields, encode_fields
from kframework.fake_api.apply.shapes import resource_shape
from kframework.objects import Pod
from tests.fake_api.local_api import Json, resource_of

POD = resource_shape(resource_of(Pod))


def pod(*containers: Json, **metadata: object) -> Json:
    return {"metadata": metadata, "spec": {"containers": list(containers)}}


def test_fields_of_an_object_are_collected() -> None:
    web = {"name": "web", "args": ["a"], "resources": {}, "env": [{"name": "A"}]}
    whole = pod(web, labels={"a": "b"}, finalizers=["x"], annotations={})
    assert encode_fields(collect_fields(POD, whole)) == {
        "f:metadata": {"f:annotations": {}, "f:finalizers": {'v:"x"': {}}, "f:labels": {"f:a": {}}},
        "f:spec": {
            "f:containers": {
                'k:{"name":"web"}': {
                    ".": {},
                    "f:args": {},
                    "f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}}},
                    "f:name": {},
                    "f:resources": {},
                }
            }
        },
    }


WEB: Json = {"name": "web", "image": "a"}
THERE: Json = {"f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}, "f:name": {}}}}}
LABEL: Json = {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}


@pytest.mark.parametrize(
    ("old", "new", "added", "removed", "modified"),
    [
        ({}, pod(WEB), THERE, {}, {}),
        (pod(WEB), pod(), {}, THERE, {}),
        (pod(WEB), pod(WEB), {}, {}, {}),
        (pod(), pod(labels={"a": "b"}), LABEL, {}, {}),
        (pod(labels={}), pod(labels={"a": "b"}), {"f:metadata": {"f:labels": {"f:a": {}}}}, {}, {}),
        (
            pod(WEB),
            pod(WEB | {"image": "b"}),
            {},
            {},
            {"f:spec": {"f:containers": {'k:{"name":"web"}': {"f:image": {}}}}},
        ),
        (
            {"spec": {"nodeSelector": {"a": "b"}}},
            {"spec": {"nodeSelector": {}}},
            {},
            {},
            {"f:spec": {"f:nodeSelector": {}}},
        ),
        (
            pod(WEB, WEB | {"image": "b"}),
            pod(WEB, WEB | {"image": "c"}),
            {},
            {},
            {"f:spec": {"f:containers": {'k:{"name":"web"}': {}}}},
        ),
    ],
)
def test_changes_of_an_object_are_listed(old: Json, new: Json, added: Json, removed: Json, modified: Json) -> None:
    change = compare_values(POD, old, new)
    assert (encode_fields(change.added), encode_fields(change.removed), encode_fields(change.modified)) == (
        added,
        removed,
        modified,
    )
    assert change.changed == change.added | change.modified


def test_struct_fields_above_a_field_are_added() -> None:
    below: Fields = decode_fields({"f:metadata": {"f:labels": {"f:a": {}}}, **THERE})
    assert encode_fields(with_named_fields(POD, below)) == {
        "f:metadata": {".": {}, "f:labels": {".": {}, "f:a": {}}},
        "f:spec": {".": {}, "f:containers": {".": {}, 'k:{"name":"web"}': {".": {}, "f:image": {}, "f:name": {}}}},
    }
