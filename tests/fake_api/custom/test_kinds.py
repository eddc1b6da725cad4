"""What a user defines is described, with the fields that every object has."""

from __future__ import annotations

from kframework.fake_api.custom.kinds import CustomKind


def test_the_schema_with_what_every_object_has() -> None:
    kind = CustomKind({"description": "A widget.", "properties": {"spec": {"type": "object"}}})
    assert kind.described({"metadata": {"$ref": "x"}}) == {
        "type": "object",
        "description": "A widget.",
        "properties": {
            "spec": {"type": "object"},
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"$ref": "x"},
        },
    }


def test_another_schema_has_another_fingerprint() -> None:
    assert CustomKind({}).fingerprint == CustomKind({}).fingerprint != CustomKind({"type": "object"}).fingerprint


def test_what_becomes_of_an_object() -> None:
    spec = {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}}
    kind = CustomKind({"type": "object", "required": ["spec", "metadata"], "properties": {"spec": spec}})
    assert kind.unknown({"spec": {"size": 1, "colour": "red"}}) == [("spec", "colour")]
    assert kind.defaulted({"spec": {}}) == {"spec": {"size": 1}}
    assert list(map(str, kind.causes({}))) == ["spec: Required value"]
    assert list(map(str, kind.causes({"spec": {"size": "big"}}))) == [
        'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"'
    ]


def test_without_a_schema_anything_goes() -> None:
    assert CustomKind(None).unknown({"anything": 1}) == []
    assert CustomKind(None).causes({"anything": 1}) == []
