"""Schemas have the types of the client's models."""

from __future__ import annotations

import pytest

from kframework.fake_api.schema.components import Components

SCHEMAS = Components("apps").of(["V1Deployment", "V1Secret"])


@pytest.mark.parametrize(
    ("name", "field", "schema"),
    [
        ("core.v1.ServicePort", "port", None),
        ("apps.v1.DeploymentSpec", "replicas", {"type": "integer", "format": "int32"}),
        ("core.v1.PodSpec", "activeDeadlineSeconds", {"type": "integer", "format": "int64"}),
        ("core.v1.PodSpec", "hostNetwork", {"type": "boolean"}),
        ("core.v1.PodSpec", "nodeSelector", {"type": "object", "additionalProperties": {"type": "string"}}),
        ("core.v1.Container", "command", {"type": "array", "items": {"type": "string"}}),
        (
            *("core.v1.ResourceRequirements", "limits"),
            {"type": "object", "additionalProperties": {"oneOf": [{"type": "string"}, {"type": "number"}]}},
        ),
        ("core.v1.Secret", "data", {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}}),
        (
            *("core.v1.HTTPGetAction", "port"),
            {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
        ),
        ("apps.v1.Deployment", "spec", {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}]}),
    ],
)
def test_the_schema_of_a_field(name: str, field: str, schema: object) -> None:
    found = SCHEMAS.get(f"io.k8s.api.{name}")
    if schema is None:
        assert found is None
        return
    assert found is not None
    properties = found["properties"]
    assert isinstance(properties, dict)
    described = properties[field]
    described.pop("description", None)
    assert described == schema
