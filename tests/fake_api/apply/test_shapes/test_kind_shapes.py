"""The shapes of kinds."""

from __future__ import annotations

from functools import reduce

import pytest

from kframework.fake_api.apply.shapes import ABSENT, ATOMIC, UNTYPED, ListShape, MergeShape, StructShape, resource_shape
from kframework.fake_api.custom.definitions import defined_resources
from kframework.objects import Pod
from tests.fake_api.custom.test_definitions.test_definitions import definition, read
from tests.fake_api.local_api import Json, resource_of
from tests.support.declared_kinds import Gang

POD = resource_shape(resource_of(Pod))


def descend(shape: MergeShape, path: str) -> MergeShape:
    return reduce(lambda place, element: place.child(element).shape, path.split("/"), shape)


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("f:spec", StructShape),
        ("f:spec/f:containers", ListShape),
        ('f:spec/f:containers/k:{"name":"c"}/f:ports', ListShape),
        ('f:spec/f:containers/k:{"name":"c"}/f:resources/f:limits', StructShape),
        ("f:metadata/f:labels", StructShape),
        ("f:metadata/f:finalizers", ListShape),
        ("f:metadata/f:managedFields", MergeShape),
        ("f:spec/f:nodeSelector", MergeShape),
        ("f:spec/f:tolerations", MergeShape),
        ("f:spec/f:nodeName", MergeShape),
    ],
)
def test_pod_fields_have_shapes(path: str, shape: type[MergeShape]) -> None:
    assert type(descend(POD, path)) is shape


def test_pod_structs_always_exist() -> None:
    assert POD.implied_value("f:spec") == {}
    assert descend(POD, "f:spec").implied_value("f:containers") == []
    assert descend(POD, "f:spec").implied_value("f:volumes") is ABSENT
    assert descend(POD, "f:spec").implied_value("f:securityContext") is ABSENT


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


def custom(schema: Json) -> MergeShape:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    (resource,) = defined_resources(read(definition(versions=[version])))
    return resource_shape(resource)


def test_custom_resource_fields_have_shapes() -> None:
    spec = descend(custom(SCHEMA), "f:spec")
    assert [descend(spec, f"f:{name}") for name in ("atomic", "list", "number")] == [ATOMIC] * 3
    assert descend(spec, "f:any") is UNTYPED
    assert descend(spec, "f:others/f:x") is ATOMIC
    named = descend(spec, "f:map")
    assert isinstance(named, ListShape)
    assert named.name({"name": "a"}) == 'k:{"name":"a","side":"left"}'
    elements = descend(spec, "f:set")
    assert isinstance(elements, ListShape)
    assert elements.name("a") == 'v:"a"'
    for name, may_have_any in (("open", True), ("object", True), ("others", True)):
        shape = descend(spec, f"f:{name}")
        assert isinstance(shape, StructShape)
        assert (shape.others is not None) == may_have_any
    assert isinstance(spec, StructShape)
    assert spec.others is None
    assert spec.implied_value("f:map") is ABSENT
    assert type(descend(custom(SCHEMA), "f:metadata/f:finalizers")) is ListShape


def test_unknown_kind_has_metadata() -> None:
    gang = resource_shape(resource_of(Gang))
    assert type(descend(gang, "f:metadata/f:finalizers")) is ListShape
    assert descend(gang, "f:spec") is UNTYPED
