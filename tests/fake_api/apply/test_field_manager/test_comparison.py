"""What fields there are, and what becomes of them."""

from __future__ import annotations

import pytest

from kframework.fake_api.apply.field_manager import compared, fields_of, with_named_fields
from kframework.fake_api.apply.managed_fields import Fields, read, written
from kframework.fake_api.apply.shapes import shape_of
from kframework.objects import Pod
from tests.fake_api.serving import Json, served_as

POD = shape_of(served_as(Pod))


def pod(*containers: Json, **metadata: object) -> Json:
    return {"metadata": metadata, "spec": {"containers": list(containers)}}


def test_the_fields_of_an_object() -> None:
    web = {"name": "web", "args": ["a"], "resources": {}, "env": [{"name": "A"}]}
    whole = pod(web, labels={"a": "b"}, finalizers=["x"], annotations={})
    assert written(fields_of(POD, whole)) == {
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
def test_what_a_change_does(old: Json, new: Json, added: Json, removed: Json, modified: Json) -> None:
    change = compared(POD, old, new)
    assert (written(change.added), written(change.removed), written(change.modified)) == (added, removed, modified)
    assert change.given == change.added | change.modified


def test_fields_of_types_go_with_what_is_below_them() -> None:
    below: Fields = read({"f:metadata": {"f:labels": {"f:a": {}}}, **THERE})
    assert written(with_named_fields(POD, below)) == {
        "f:metadata": {".": {}, "f:labels": {".": {}, "f:a": {}}},
        "f:spec": {".": {}, "f:containers": {".": {}, 'k:{"name":"web"}': {".": {}, "f:image": {}, "f:name": {}}}},
    }
