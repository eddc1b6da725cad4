"""Paths to fields lead somewhere in the schema."""

from __future__ import annotations

import pytest

from kframework.fake_api.custom.rules.field_paths import read_field_path

NUMBER = {"type": "number"}
SCHEMA = {
    "properties": {
        "spec": {"properties": {"a.b": NUMBER, "size": NUMBER, "it's": NUMBER}},
        "labels": {"additionalProperties": {"properties": {"text": NUMBER}}},
        "items": {"type": "array", "items": NUMBER},
    }
}


@pytest.mark.parametrize(
    ("path", "written"),
    [
        (".spec", "spec"),
        (".spec.size", "spec.size"),
        ("['spec'].size", "spec.size"),
        (".spec['a.b']", "spec.a.b"),
        (r".spec['it\'s']", "spec.it's"),
        (".labels.app", "labels[app]"),
        (".labels['my-app'].text", "labels[my-app].text"),
        (".spec.length", None),
        (".spec.size.unit", None),
        (".items[0]", None),
        ("spec", None),
        (".spec[size]", None),
        (".spec['size", None),
        (".spec['\\q']", None),
    ],
)
def test_paths(path: str, written: str | None) -> None:
    assert read_field_path(path, SCHEMA) == written
