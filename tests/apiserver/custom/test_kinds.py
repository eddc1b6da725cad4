"""What a user defines is described, with the fields that every object has."""

from __future__ import annotations

from kframework.apiserver.custom.kinds import CustomKind


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
