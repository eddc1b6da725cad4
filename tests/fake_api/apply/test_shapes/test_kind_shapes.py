"""The shapes of kinds."""

from __future__ import annotations

from functools import reduce

import pytest

from kframework.fake_api.apply.shapes import ABSENT, ANY, ONE_VALUE, Elements, Fields, Shape, shape_of
from kframework.fake_api.custom.definitions import defined
from kframework.objects import Pod
from tests.fake_api.custom.test_definitions.test_definitions import definition, read
from tests.fake_api.serving import Json, served_as
from tests.support.declared import Gang

POD = shape_of(served_as(Pod))


def at(shape: Shape, path: str) -> Shape:
    return reduce(lambda place, element: place.below(element).shape, path.split("/"), shape)


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("f:spec", Fields),
        ("f:spec/f:containers", Elements),
        ('f:spec/f:containers/k:{"name":"c"}/f:ports', Elements),
        ('f:spec/f:containers/k:{"name":"c"}/f:resources/f:limits', Fields),
        ("f:metadata/f:labels", Fields),
        ("f:metadata/f:finalizers", Elements),
        ("f:metadata/f:managedFields", Shape),
        ("f:spec/f:nodeSelector", Shape),
        ("f:spec/f:tolerations", Shape),
        ("f:spec/f:nodeName", Shape),
    ],
)
def test_a_pod(path: str, shape: type[Shape]) -> None:
    assert type(at(POD, path)) is shape


def test_what_a_pod_always_has() -> None:
    assert POD.always("f:spec") == {}
    assert at(POD, "f:spec").always("f:containers") == []
    assert at(POD, "f:spec").always("f:volumes") is ABSENT
    assert at(POD, "f:spec").always("f:securityContext") is ABSENT


SCHEMA: Json = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {}},
                "list": {"type": "array", "items": {"type": "string"}},
                "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "map": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name", "side"],
                    "items": {"type": "object", "properties": {"side": {"type": "string", "default": "left"}}},
                },
                "others": {"type": "object", "additionalProperties": {"type": "integer"}},
                "any": {"x-kubernetes-preserve-unknown-fields": True},
                "number": {"x-kubernetes-int-or-string": True},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "object": {"type": "object", "x-kubernetes-embedded-resource": True},
            },
        }
    },
}


def custom(schema: Json) -> Shape:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    (resource,) = defined(read(definition(versions=[version])))
    return shape_of(resource)


def test_a_custom_resource() -> None:
    spec = at(custom(SCHEMA), "f:spec")
    assert [at(spec, f"f:{name}") for name in ("atomic", "list", "number")] == [ONE_VALUE] * 3
    assert at(spec, "f:any") is ANY
    assert at(spec, "f:others/f:x") is ONE_VALUE
    named = at(spec, "f:map")
    assert isinstance(named, Elements)
    assert named.name({"name": "a"}) == 'k:{"name":"a","side":"left"}'
    elements = at(spec, "f:set")
    assert isinstance(elements, Elements)
    assert elements.name("a") == 'v:"a"'
    for name, may_have_any in (("open", True), ("object", True), ("others", True)):
        shape = at(spec, f"f:{name}")
        assert isinstance(shape, Fields)
        assert (shape.others is not None) == may_have_any
    assert isinstance(spec, Fields)
    assert spec.others is None
    assert spec.always("f:map") is ABSENT
    assert type(at(custom(SCHEMA), "f:metadata/f:finalizers")) is Elements


def test_a_kind_of_which_nothing_is_known_has_metadata() -> None:
    gang = shape_of(served_as(Gang))
    assert type(at(gang, "f:metadata/f:finalizers")) is Elements
    assert at(gang, "f:spec") is ANY
